"""Recordings in other formats: each readable one converts to each writable one, chosen by suffix or by --to."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mcp_tape.cassette.reader import Cassette
from mcp_tape.cli import _GONE
from mcp_tape.cli.forms import FORMS, form_of
from mcp_tape.options import FORMATS
from tests.support.golden import GOLDEN
from tests.support.provision import ROOT
from tests.support.texts import tape

DEMO = next(path for path in GOLDEN if path.stem == "demo")
HAR = ROOT / "tests/formats/others/recordings/mitmproxy/everything.har"
NAMES = {
    "db": "tape.db", "jsonl": "tape.jsonl", "txt": "tape.txt", "md": "tape.md",
    "html": "tape.html", "har": "tape.har",
    "otlp": "tape.otlp.json", "perfetto": "tape.perfetto.json", "pytest": "test_tape.py", "vitest": "tape.test.mjs",
}  # fmt: skip


def test_every_form_that_is_written_has_a_name() -> None:
    assert {*NAMES, "raw"} == {*FORMS}


@pytest.mark.parametrize(("form", "name"), [*NAMES.items(), ("pytest", "tape_test.py"), ("vitest", "tape.test.ts")])
def test_a_file_name_decides_the_format(tmp_path: Path, form: str, name: str) -> None:
    assert form_of(f"a.db/{name}") == form
    made = json.loads(tape("convert", DEMO, tmp_path / name, "--json").stdout)
    assert made == {"file": str(tmp_path / name), "format": form, "sessions": 1, "frames": 17}
    tape("convert", DEMO, tmp_path / "same", "--to", form)
    if form != "db":
        assert (tmp_path / name).read_bytes() == (tmp_path / "same").read_bytes()
        assert (
            form in ("pytest", "vitest")
            or tape("convert", DEMO, "--to", form).stdout_bytes == (tmp_path / "same").read_bytes()
        )


@pytest.mark.parametrize("form", NAMES)
def test_recordings_of_others_are_converted_too(tmp_path: Path, form: str) -> None:
    with Cassette(HAR) as cassette:
        frames = cassette.counts(1)["frames"]
    said = tape("convert", HAR, tmp_path / NAMES[form]).stderr
    assert f"1 session, {frames} frames" in said and said.count("invented") == 1
    assert (tmp_path / NAMES[form]).stat().st_size > 500


def test_text_that_was_made_is_read_again_as_far_as_it_goes(tmp_path: Path) -> None:
    tape("convert", DEMO, tmp_path / "tape.har")
    again = tape("convert", tmp_path / "tape.har", tmp_path / "again.jsonl")
    assert again.stderr.count("\n") == 1  # nothing was lost, so no loss is printed
    assert "demo-weather" in tape("ls", tmp_path / "again.jsonl").stdout


@pytest.mark.parametrize("name", ["tape", "tape.json", "tape.py", "tape.ts"])
def test_a_name_that_may_be_anything_is_asked_about(tmp_path: Path, name: str) -> None:
    assert "add --to" in tape("convert", DEMO, tmp_path / name, code=2).stderr
    assert not (tmp_path / name).exists()


@pytest.mark.parametrize("form", [form for form in NAMES if form not in FORMATS])
def test_nothing_that_is_there_is_replaced_unless_asked(tmp_path: Path, form: str) -> None:
    output = tmp_path / NAMES[form]
    output.write_bytes(b"mine")
    assert "--force" in tape("convert", DEMO, output, code=2).stderr and output.read_bytes() == b"mine"
    tape("convert", DEMO, output, "--force")
    assert output.read_bytes() != b"mine"


@pytest.mark.parametrize("name", ["tape.db", "tape.jsonl"])
def test_a_recording_is_never_replaced_by_less_of_it(tmp_path: Path, name: str) -> None:
    tape("convert", DEMO, tmp_path / name)
    before = (tmp_path / name).read_bytes()
    said = tape("convert", tmp_path / name, tmp_path / name, "--to", "har", "--force", code=2).stderr
    assert "the recording itself" in said and (tmp_path / name).read_bytes() == before


def test_a_recording_that_is_not_there_leaves_no_output(tmp_path: Path) -> None:
    for name in NAMES.values():
        assert "there is no cassette" in tape("convert", tmp_path / "none.db", tmp_path / name, code=3).stderr
    assert list(tmp_path.iterdir()) == []


def test_a_part_of_a_recording_is_a_cassette_too(tmp_path: Path) -> None:
    lines = tape("convert", DEMO, "--filter", "tool:forecast").stdout_bytes
    tape("convert", DEMO, tmp_path / "part.db", "--filter", "tool:forecast")
    tape("convert", DEMO, tmp_path / "part.jsonl", "--filter", "tool:forecast")
    assert (tmp_path / "part.jsonl").read_bytes() == lines == tape("convert", tmp_path / "part.db").stdout_bytes


def test_only_a_page_takes_several_recordings(tmp_path: Path) -> None:
    tape("convert", DEMO, HAR, tmp_path / "both.html")
    assert "mcp-tape merge" in tape("convert", DEMO, HAR, tmp_path / "both.md", code=2).stderr


@pytest.mark.parametrize(("name", "form"), [("tape.txt", "db"), ("-", "db"), ("http://127.0.0.1:9", "md")])
def test_a_place_that_does_not_fit_the_form_is_refused(tmp_path: Path, name: str, form: str) -> None:
    (tmp_path / "tape.txt").write_text("mine")
    output = name if "://" in name or name == "-" else str(tmp_path / name)
    assert tape("convert", DEMO, output, "--to", form, "--force", code=2).stderr
    assert (tmp_path / "tape.txt").read_text() == "mine"


@pytest.mark.parametrize("form", ["jsonl", "md", "db"])
def test_stdin_is_read_for_every_format(tmp_path: Path, form: str) -> None:
    lines = tape("convert", DEMO).stdout_bytes
    tape("convert", "-", tmp_path / "made", "--to", form, stdin=lines)
    tape("convert", DEMO, tmp_path / "same", "--to", form)
    if form != "db":
        assert (tmp_path / "made").read_bytes() == (tmp_path / "same").read_bytes()
    assert (
        "stdin, line 1" in tape("convert", "-", tmp_path / "new", "--to", form, stdin=b'{"sender":1}\n', code=3).stderr
    )
    assert "stdin holds no" in tape("convert", "-", tmp_path / "new", "--to", form, code=3).stderr


@pytest.mark.parametrize("name", _GONE)
def test_a_name_that_a_command_had_is_answered_with_the_new_one(name: str) -> None:
    now, example = _GONE[name]
    assert f"`{name}` is now `{now}`: {example}" in tape(name, "tape.db", code=2).stderr

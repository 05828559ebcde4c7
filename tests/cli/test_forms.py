"""Exported sessions: JSON lines, Markdown for people, raw bytes; everything, or the part that a filter keeps."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from mcp_tape.cassette.reader import Cassette
from tests.support.decks import make_cassette
from tests.support.golden import GOLDEN
from tests.support.reading import invoke
from tests.support.running import frames, sessions
from tests.support.texts import ODD_CLIENT, ODD_SERVER, hidden, odd, over_http, recorded, several, tape

MAKERS = [odd, hidden, over_http, several]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return several(tmp_path / "tape.db")


# JSON lines


def test_the_line_of_a_session_has_its_whole_row(path: Path) -> None:
    first, *rest = map(json.loads, tape("convert", path, "--session", 1).stdout.splitlines())
    row = sessions(path)[0]._asdict()
    assert (first["kind"], first["sender"], first["session"]) == ("session", None, 1)
    assert first["target"] == {"command": ["server"]}
    assert all(first[name] == row[name] for name in row if name not in ("id", "target"))
    assert [line["seq"] for line in rest] == [frame.seq for frame in frames(path, 1)]


def test_all_sessions_come_one_after_the_other(path: Path) -> None:
    rows = [json.loads(line) for line in tape("convert", path, "--session", "all").stdout.splitlines()]
    assert [row["session"] for row in rows if row["kind"] == "session"] == [1, 2, 3, 4]
    newest = [json.loads(line) for line in tape("convert", path).stdout.splitlines()]
    assert newest == rows[-len(newest) :]


def test_one_side_is_frames_only(path: Path) -> None:
    rows = [json.loads(line) for line in tape("convert", path, "--session", 1, "--side", "client").stdout.splitlines()]
    assert {row["sender"] for row in rows} == {"client"}


@pytest.mark.parametrize(
    "words",
    [
        ("convert", "FILE", "--to", "html", "OUT"),
        ("convert", "FILE", "OUT", "--to", "md"),
        ("convert", "FILE", "OUT", "--to", "jsonl"),
        ("convert", "LINES", "OUT", "--to", "db"),
        ("merge", "FILE", "-o", "OUT"),
        ("merge-reports", "REPORT", "-o", "OUT"),
    ],
)
def test_every_command_that_writes_a_file_replaces_one_only_by_force(
    tmp_path: Path, path: Path, words: tuple[str, ...]
) -> None:
    lines, report, out = tmp_path / "lines.jsonl", tmp_path / "report.json", tmp_path / "out"
    tape("convert", path, "--session", "all", lines)
    report.write_text(invoke("check", str(path), "--json", "--jobs", "1").stdout)
    places = {"FILE": path, "LINES": lines, "REPORT": report, "OUT": out}
    asked = [places.get(word, word) for word in words]
    invoke(*map(str, asked))
    made = out.read_bytes()
    out.write_bytes(made + b" ")
    refused = tape(*asked, code=2).stderr
    assert "already exists, and was not changed; choose another name, or add --force" in refused
    assert out.read_bytes() == made + b" "


def test_force_replaces_a_file_and_a_stream_needs_none(tmp_path: Path, path: Path) -> None:
    out = tmp_path / "out.md"
    out.write_text("mine")
    tape("convert", path, "--to", "md", out, "--force")
    assert out.read_text().startswith("#")
    tape("convert", path, "--to", "md", "/dev/null")


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["--session", "first"], "neither latest, all nor"),
        (["--to", "md", "--side", "client"], "--filter from:client"),
        (["--filter", "colour:red"], "colour"),
    ],
)
def test_wrong_usage_names_a_remedy(path: Path, words: list[str], hint: str) -> None:
    assert hint in tape("convert", path, *words, code=2).stderr


# Raw


def test_raw_bytes_of_stdio_are_the_very_bytes(path: Path) -> None:
    for side, said in (("client", ODD_CLIENT), ("server", ODD_SERVER)):
        result = tape("convert", path, "--session", 1, "--to", "raw", "--side", side)
        assert (result.stdout_bytes, result.stderr) == (said, "")


def test_raw_http_bodies_are_separated_and_announced(path: Path) -> None:
    result = tape("convert", path, "--session", 4, "--to", "raw", "--side", "client")
    bodies = [frame.text for frame in frames(path, 4) if frame.kind == "message" and frame.sender == "client"]
    assert len(bodies) == 3
    assert result.stdout_bytes == b"".join(body + b"\n" for body in bodies)
    assert "recorded over HTTP" in result.stderr


# Markdown


def markdown(path: Path, *words: object) -> str:
    return tape("convert", path, "--to", "md", *words).stdout


def fences(text: str) -> tuple[list[tuple[str, str]], str]:
    """The fenced blocks of a text by language, parsed by CommonMark's rules, and the text outside of them."""
    blocks, outside, fence, language, block = [], [], "", "", list[str]()
    for line in text.split("\n"):
        if fence:
            if re.fullmatch(r"`{3,}", line) and len(line) >= len(fence):
                blocks.append((language, "\n".join(block)))
                fence = ""
            else:
                block.append(line)
        elif opened := re.match(r"(`{3,})(\w+)$", line):
            (fence, language), block = opened.groups(), []
        else:
            outside.append(line)
    assert not fence
    return blocks, "\n".join(outside)


def test_an_exchange_has_a_heading_and_both_its_sides(tmp_path: Path) -> None:
    path = make_cassette(
        tmp_path / "tape.db",
        [
            ("client", '{"id":1,"method":"tools/call","params":{"name":"sum","arguments":{"a":1e2}}}'),
            ("server", '{"method":"notifications/progress","params":{"progress":1}}'),
            ("client", '{"id":2,"method":"tools/list"}'),
            ("server", '{"id":1,"result":{"content":[]}}'),
        ],
    )
    blocks, outside = fences(markdown(path))
    headings = re.findall(r"^## (.*)$", outside, re.M)
    assert headings == ["1. `tools/call` `sum`: ok, 3.0 ms", "3. `tools/list`: **not answered**"]
    assert [block for _, block in blocks] == [
        '{\n  "name": "sum",\n  "arguments": {\n    "a": 1e2\n  }\n}',
        '{\n  "progress": 1\n}',
        '{\n  "content": []\n}',
    ]


def test_errors_and_noise_are_marked(path: Path) -> None:
    blocks, outside = fences(markdown(path, "--session", 1))
    assert "`tools/call` `sum`: **tool-error**" in outside
    assert "`ping`: **error**" in outside
    assert "`never/answered`: **not answered**" in outside
    assert "← server: **noise**" in outside
    assert "**Exit code: 3**" in outside
    assert ("text", "warning \\xff") in blocks


@pytest.mark.parametrize("make", MAKERS)
def test_nothing_that_was_recorded_gets_out_of_its_fence(tmp_path: Path, make: Callable[[Path], Path]) -> None:
    blocks, outside = fences(markdown(make(tmp_path / "tape.db"), "--session", "all"))
    assert not re.search(r"^(?:@5|# a remark|Hello)", outside, re.M)
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", outside + "".join(text for _, text in blocks))


EVIL = "``` \n\n# owned <img src=x> `` |\u202e"


def test_names_cannot_write_markdown(tmp_path: Path) -> None:
    asked = {"id": 1, "method": EVIL, "params": {"x": EVIL}}
    server = {"id": 1, "result": {"serverInfo": {"name": EVIL}}}
    path = recorded(
        tmp_path / "tape.db", json.dumps(asked).encode(), json.dumps(server).encode(), EVIL.encode(), note=EVIL
    )
    _, outside = fences(markdown(path))
    spans = re.compile(r"(?<!`)(`+)(?!`)(.*?)(?<!`)\1(?!`)")
    assert "owned" in outside
    assert "owned" not in spans.sub("", outside)


@pytest.mark.parametrize("golden", GOLDEN, ids=lambda path: path.stem)
def test_every_request_of_the_golden_cassettes_has_its_place(golden: Path) -> None:
    blocks, outside = fences(markdown(golden, "--session", "all"))
    asked = [row for session in sessions(golden) for row in requests(golden, session.id)]
    headings = re.findall(r"^## (\d+)\. (.*)$", outside, re.M)
    assert asked
    for seq, method in asked:
        assert any(f"`{method}`" in heading for number, heading in headings if number == str(seq))
    assert all(json.loads(block) is not None for language, block in blocks if language == "json")


def requests(path: Path, session: int) -> list[tuple[int, str]]:
    with Cassette(path) as cassette:
        sql = "SELECT seq, method FROM messages WHERE session = ? AND kind = 'request' AND sender = 'client'"
        return cassette.rows(sql, (session,))


def test_an_exchange_is_shown_whole_if_a_filter_keeps_part_of_it(path: Path) -> None:
    _, outside = fences(markdown(path, "--session", 1, "--filter", "status:tool-error from:server"))
    assert re.findall(r"^## (.*?):", outside, re.M) == ["2. `tools/call` `sum`"]
    assert "→ client: request" in outside


# Filters


@pytest.mark.parametrize("form", ["jsonl", "md"])
def test_a_filter_keeps_its_messages(path: Path, form: str) -> None:
    kept = tape("convert", path, "--session", 1, "--to", form, "--filter", "method:ping").stdout
    assert "ping" in kept
    assert "never/answered" not in kept


def test_a_filter_may_name_sessions(path: Path) -> None:
    rows = [json.loads(line) for line in tape("convert", path, "--filter", "session:2..3").stdout.splitlines()]
    kept = [row["session"] for row in rows if row["kind"] == "session"]
    assert {2, 3} <= set(kept)
    assert len(rows) - len(kept) == len(frames(path, 2)) + len(frames(path, 3))


@pytest.mark.slow(quick=36)
@pytest.mark.parametrize(
    "letter", ["\u200b", "\u200d", "\u202e", "\u2066", "\u061c", "\xad", "\ufeff", "\U000e0041", "\x7f"]
)
@pytest.mark.parametrize(
    "command", ["convert --to txt", "convert", "convert --to md", "show --json", "search tools --json"]
)
def test_invisible_characters_are_escaped(tmp_path: Path, command: str, letter: str) -> None:
    text = json.dumps({"method": "tools/list", "id": 1, "params": {"x": f"a{letter}b"}}, ensure_ascii=False)
    path = recorded(tmp_path / "tape.db", text.encode(), b"{}", f"noise a{letter}b".encode())
    name, *words = command.split()
    out = invoke(name, path, *words).stdout
    assert letter not in out and f"a{json.dumps(letter)[1:-1]}b" in out.replace("\\\\", "\\")


def test_visible_characters_stay(tmp_path: Path) -> None:
    text = json.dumps({"method": "x", "id": 1, "params": "日本語 é ❤️ 😀"}, ensure_ascii=False)
    out = invoke("convert", "--to", "txt", recorded(tmp_path / "tape.db", text.encode(), b"{}", b"")).stdout
    assert "日本語 é ❤️ 😀" in out

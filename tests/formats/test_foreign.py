"""Files that were cut off, appended to, or written with unusual times."""

from __future__ import annotations

import json
import shutil
import tracemalloc
from pathlib import Path

import pytest

from mcp_tape.cassette.reader import Cassette, Session
from mcp_tape.errors import CassetteError
from mcp_tape.formats.foreign import Clock, iso, moment, on_one_line
from tests.support.many import findings
from tests.support.peers import RECORDINGS
from tests.support.reading import invoke


def sessions(path: Path) -> list[tuple[Session, dict[str, int]]]:
    with Cassette(path) as cassette:
        return [(session, cassette.counts(session.id)) for session in cassette.sessions()]


@pytest.mark.parametrize("name", ["mcp-rec/odd.jsonl", "mcp-vcr-ndjson/odd.ndjson", "mcp-vcr/odd.yaml"])
def test_a_truncated_file_is_read_up_to_its_end(name: str, tmp_path: Path) -> None:
    whole = (RECORDINGS / name).read_bytes()
    (tmp_path / "cut").write_bytes(whole[: len(whole) * 2 // 3])
    ((session, counts),) = sessions(tmp_path / "cut")
    assert (session.incomplete or "").endswith("; cut off")
    assert session.server_name == "odd" and 10 <= counts["frames"] < 26


def test_losses_of_a_format_are_shown_and_are_not_findings(tmp_path: Path) -> None:
    shutil.copy(RECORDINGS / "mcp-rec" / "odd.jsonl", tmp_path / "old.jsonl")
    assert invoke("convert", tmp_path / "old.jsonl", tmp_path / "new.db").exit_code == 0
    for name in ("old.jsonl", "new.db"):
        result = invoke("check", tmp_path / name)
        assert result.exit_code == 0 and "no problems were found" in result.stderr
        assert result.stdout.endswith(f"{name}: session 1: imported from mcp-rec: text re-serialised\n")
    (found,) = findings(invoke("check", tmp_path / "new.db", "--json").stdout)
    assert (found["what"], found["session"]) == ("import", 1)


def test_losses_of_a_file_are_findings(tmp_path: Path) -> None:
    whole = (RECORDINGS / "mcp-rec" / "odd.jsonl").read_bytes()
    (tmp_path / "cut.jsonl").write_bytes(whole[: len(whole) * 2 // 3])
    result = invoke("check", tmp_path / "cut.jsonl")
    assert result.exit_code == 1
    assert "session 1: is incomplete: cut off\n" in result.stdout


def test_runs_that_were_appended_are_sessions(tmp_path: Path) -> None:
    (tmp_path / "two.jsonl").write_bytes((RECORDINGS / "mcp-rec" / "odd.jsonl").read_bytes() * 2)
    assert [counts["frames"] for _, counts in sessions(tmp_path / "two.jsonl")] == [26, 26]


def test_a_message_that_a_log_has_shortened_is_noise(tmp_path: Path) -> None:
    log = (RECORDINGS / "by-hand" / "claude-desktop.log").read_text("utf-8")
    (tmp_path / "mcp.log").write_text(
        log.replace('"structuredContent":', '"struct...[18778 chars truncated]...', 1), "utf-8"
    )
    ((session, counts),) = sessions(tmp_path / "mcp.log")
    assert "cut off" in (session.incomplete or "")
    assert (counts["frames"], counts["open"]) == (26, 1)


def test_yaml_that_would_fill_the_memory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "bomb.yaml").write_text("messages:\n- &a [x, x]\n- &b [*a, *a]\n- [*b, *b]\n")
    with pytest.raises(CassetteError, match="aliases"):
        Cassette(tmp_path / "bomb.yaml")
    (tmp_path / "deep.yaml").write_text("messages:\n- " + "[" * 50_000)
    with pytest.raises(CassetteError, match="YAML"):
        Cassette(tmp_path / "deep.yaml")


def test_other_yaml_is_no_transcript(tmp_path: Path) -> None:
    (tmp_path / "other.yaml").write_text("messages:\n  hello: world\n")
    with pytest.raises(CassetteError, match="holds no messages"):
        Cassette(tmp_path / "other.yaml")


def test_a_cassette_on_one_line_is_not_taken_for_ours(tmp_path: Path) -> None:
    document = json.loads((RECORDINGS / "mcp-cassette-python" / "odd.json").read_text("utf-8"))
    (tmp_path / "compact.json").write_text(json.dumps(document))
    ((session, counts),) = sessions(tmp_path / "compact.json")
    assert session.recorder == "PyPI mcp-cassette" and counts["frames"] == 26


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        ("2026-11-18T07:00:00Z", 1794985200.0),
        ("2026-11-18T08:00:00.5+01:00", 1794985200.5),
        ("2026-11-18 07:00:00.123", 1794985200.123),
        ("2026-11-18T07:00:00.123456789Z", 1794985200.123456),
        (1794985200, 1794985200.0),
        (1794985200250, 1794985200.25),
        ("yesterday", None),
        (True, None),
        (float("nan"), None),
        (10**400, None),
    ],
)
def test_times_are_read_in_every_form(written: object, seconds: float | None) -> None:
    assert moment(written) == seconds


def test_a_clock_begins_with_its_first_time() -> None:
    clock = Clock()
    assert [clock.at("2026-11-18T07:00:00Z"), clock.at("2026-11-18T07:00:00.250Z"), clock.at("?")] == [0, 250_000, 0]
    assert clock.started_at == iso(1794985200) == "2026-11-18T07:00:00.000000Z"


def test_white_space_goes_and_numbers_stay() -> None:
    assert on_one_line('{\n "a b" : [ 1e2,\t-0.0 ], "c": " \\" d" }') == b'{"a b":[1e2,-0.0],"c":" \\" d"}'


def test_messages_of_the_inspector_may_come_newest_first(tmp_path: Path) -> None:
    rows = json.loads((RECORDINGS / "inspector" / "odd.json").read_text("utf-8"))
    (tmp_path / "newest.json").write_text(json.dumps(rows[::-1]))
    ((_, counts),) = sessions(tmp_path / "newest.json")
    assert counts == sessions(RECORDINGS / "inspector" / "odd.json")[0][1]


def test_an_answer_that_a_question_waits_for_comes_behind_it(tmp_path: Path) -> None:
    """Both come after all entries, and the later question was answered first."""
    call, ask = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}, {"jsonrpc": "2.0", "id": 1, "method": "roots/list"}
    about = {"timestamp": "2026-11-18T07:00:00.000Z", "direction": "request"}
    entries = [
        about | {"origin": "client", "message": call, "response": {"id": 1, "result": {}}, "duration": 50},
        about | {"origin": "server", "message": ask, "response": {"id": 1, "result": {}}, "duration": 50},
    ]
    (tmp_path / "nested.json").write_text(json.dumps(entries))
    with Cassette(tmp_path / "nested.json") as cassette:
        assert [frame.sender for frame in cassette.frames(1)] == ["client", "server", "client", "server"]


@pytest.mark.parametrize("member", ["command", "startedAt", "transport", "url", "recorder"])
def test_half_a_character_in_the_facts_of_a_file_is_replaced(member: str, tmp_path: Path) -> None:
    path = RECORDINGS / "by-hand" / "npm-mcp-cassette.jsonl"
    first, _, rest = path.read_text("utf-8").partition("\n")
    header = json.loads(first) | {member: ["\ud800", "x"] if member == "command" else "\ud800"}
    (tmp_path / "odd.jsonl").write_text(f"{json.dumps(header)}\n{rest}")
    result = invoke("convert", tmp_path / "odd.jsonl", tmp_path / "new.db")
    assert (result.exit_code, result.exception) == (0, None)
    ((session, _),) = sessions(tmp_path / "new.db")
    assert session.server_name == "odd"


@pytest.mark.slow
def test_memory_does_not_grow_with_the_lines_of_a_file(tmp_path: Path) -> None:
    first, *_, last = (RECORDINGS / "mcp-rec" / "odd.jsonl").read_text("utf-8").splitlines()

    def peak(number: int) -> int:
        path = tmp_path / f"{number}.jsonl"
        path.write_text("\n".join([first, *[last] * number]))
        tracemalloc.start()
        try:
            assert invoke("convert", path, tmp_path / f"{number}.db").exit_code == 0
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    peak(1)  # load modules first
    assert peak(2_000) < 1.5 * peak(800)

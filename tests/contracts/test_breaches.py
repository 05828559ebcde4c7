"""mcp-tape check with a contract: each breach is a finding, with its frame."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.many import findings as found_in
from tests.support.reading import Frames, Recording, call, invoke, make, message, said

MS = 1000


def listed(number: int, size: int = 0) -> bytes:
    return message(id=number, result={"tools": [{"name": "add", "description": "x" * size, "inputSchema": {}}]})


def talk() -> Frames:
    """A list; two calls of `add`, one quick and one slow; a failed `delete_all`; one call without an answer."""
    frames = Frames().client(message(id=0, method="tools/list"), at=0).server(listed(0), at=1 * MS)
    frames.client(call(1, "add"), at=2 * MS).server(said(1, "two"), at=3 * MS)
    frames.client(call(2, "add"), at=4 * MS).server(said(2, "late"), at=2004 * MS)
    frames.client(call(3, "delete_all"), at=3000 * MS).server(said(3, "no", isError=True), at=3001 * MS)
    return frames.client(call(4, "never"), at=3002 * MS)


@pytest.fixture
def tape(tmp_path: Path) -> Path:
    return make(tmp_path / "tape.db", talk())


def broken(*words: object) -> list[tuple[int | None, int | None, str]]:
    """Session, frame and message of each finding."""
    result = invoke("check", *words, "--json")
    found = found_in(result.stdout)
    assert result.exit_code == (1 if found else 0), result.output
    assert all(one["what"] == "contract" for one in found)
    return [(one["session"], one["seq"], one["message"]) for one in found]


@pytest.mark.parametrize(
    "words",
    [
        ("--expect", "tool:add"),
        ("--expect", "tool:add", "--expect", "tools/list", "--expect", "tool:del* status:error"),
        ("--expect", "kind:response late"),
        ("--forbid", "tool:rm_*", "--forbid", "kind:stderr"),
        ("--max", "tools/call<=4", "--max", "tool:add<=2", "--max", "resources/*<=0"),
        ("--max-duration", "2s"),
        ("--max-definition-bytes", "48"),
    ],
)
def test_a_kept_contract_has_no_findings(tape: Path, words: tuple[str, ...]) -> None:
    assert broken(tape, *words) == []


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (("--expect", "tool:search"), [(None, None, "expect 'tool:search': nothing matches")]),
        (("--forbid", "tool:delete_*"), [(1, 7, "forbid 'tool:delete_*': tools/call delete_all")]),
        (("--forbid", "late"), [(1, 6, "forbid 'late': answer to tools/call add")]),
        (("--forbid", "status:unanswered"), [(1, 9, "forbid 'status:unanswered': tools/call never")]),
        (("--max", "tool:add<=1"), [(1, 5, "max 'tool:add<=1': tools/call add is number 2 of 2")]),
        (
            ("--max", "tools/call<=2"),
            [
                (1, 7, "max 'tools/call<=2': tools/call delete_all is number 3 of 4"),
                (1, 9, "max 'tools/call<=2': tools/call never is number 4 of 4"),
            ],
        ),
        (("--max-duration", "1.5s"), [(1, 5, "max-duration 1.50 s: tools/call add took 2.00 s")]),
        (("--max-definition-bytes", "47"), [(1, 1, "max-definition-bytes 47: 1 definition of 48 bytes")]),
    ],
)  # fmt: skip
def test_the_frame_that_breaks_a_contract_is_named(tape: Path, words: tuple[str, ...], found: list[Any]) -> None:
    assert broken(tape, *words) == found


def test_a_finding_is_a_line_with_its_place(tape: Path) -> None:
    result = invoke("check", tape, "--forbid", "tool:delete_*")
    assert result.stdout == f"{tape}: session 1 #7: forbid 'tool:delete_*': tools/call delete_all\n"
    assert (result.exit_code, result.stderr) == (1, "")


def test_all_sessions_are_one_run_unless_some_are_named(tmp_path: Path) -> None:
    tape = make(tmp_path / "tape.db", talk(), Frames().client(call(1, "find")).server(said(1, "x")))
    assert broken(tape, "--expect", "tool:add", "--expect", "tool:find", "--max", "tools/call<=5") == []
    assert broken(tape, "--max", "tools/call<=4") == [(2, 1, "max 'tools/call<=4': tools/call find is number 5 of 5")]
    for which in ("latest", "2"):
        assert broken(tape, "--session", which, "--max", "tools/call<=1", "--forbid", "tool:add") == []
        assert len(broken(tape, "--session", which, "--expect", "tool:add")) == 1


def test_a_list_that_is_not_there_cannot_be_measured(tmp_path: Path) -> None:
    tape = make(tmp_path / "tape.db", Frames().client(call(1, "add")).server(said(1, "x")))
    assert broken(tape, "--max-definition-bytes", "1k") == [
        (None, None, "max-definition-bytes 1.0k: nothing to measure: there is no tools/list")
    ]


def test_the_pages_of_a_list_are_measured_together_and_equal_lists_once(tmp_path: Path) -> None:
    frames = Frames()
    for number in (1, 3):
        page = {"tools": [{"name": "a", "description": "x" * 600}], "nextCursor": "b"}
        frames.client(message(id=number, method="tools/list")).server(message(id=number, result=page))
        rest = {"tools": [{"name": "b", "description": "x" * 600}]}
        frames.client(message(id=number + 1, method="tools/list", params={"cursor": "b"}))
        frames.server(message(id=number + 1, result=rest))
    tape = make(tmp_path / "tape.db", frames)
    assert broken(tape, "--max-definition-bytes", "1k") == [
        (1, 3, "max-definition-bytes 1.0k: 2 definitions of 1.3k bytes")
    ]
    assert broken(tape, "--max-definition-bytes", "2k") == []


def test_requests_of_the_server_and_open_streams_do_not_count(tmp_path: Path) -> None:
    frames = Frames().client(message(id=1, method="subscriptions/listen"), at=0)
    frames.server(message(id=1, method="ping"), at=1).client(message(id=1, result={}), at=9000 * MS)
    tape = make(tmp_path / "tape.db", frames.server(message(id=1, result={}), at=9001 * MS))
    assert broken(tape, "--max-duration", "1s", "--max", "method:ping<=0") == []


def test_many_are_counted_instead_of_listed(tmp_path: Path) -> None:
    frames = Frames()
    for number in range(25):
        frames.client(call(number, "add")).server(said(number, "x"))
    found = broken(make(tmp_path / "tape.db", frames), "--forbid", "tool:add")
    assert len(found) == 21 and found[-1] == (None, None, "forbid 'tool:add': and 5 more")


def test_the_other_checks_stay(tmp_path: Path) -> None:
    recording = Recording(tmp_path / "tape.db")
    recording.write(talk())
    recording.end(finish=False)
    result = invoke("check", tmp_path / "tape.db", "--expect", "tool:search")
    first, second = (line.partition(": ")[2] for line in result.stdout.splitlines())
    assert first.startswith("session 1: is open") and second == "expect 'tool:search': nothing matches"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--expect", "tol:a"), "there is no field 'tol'"),
        (("--max", "tools/call"), "there is no limit; write e.g. tools/call<=20"),
        (("--max-duration", "2"), "'2' is not a duration; write e.g. 500ms"),
        (("--max-definition-bytes", "2x"), "'2x' is not a size"),
        (("--session", "newest", "--audit"), "'newest' is neither latest, all nor a session's number"),
        (("--session", "1"), "--session needs a contract or --audit"),
    ],
)
def test_an_invalid_term_is_reported(tape: Path, words: tuple[str, ...], said: str) -> None:
    result = invoke("check", tape, *words)
    assert result.exit_code == 2 and said in result.stderr


def test_a_missing_session_is_reported(tape: Path) -> None:
    result = invoke("check", tape, "--session", "9", "--audit")
    assert result.exit_code == 3 and "does not hold session 9" in result.stdout


def test_a_cassette_without_sessions_fulfils_nothing(tmp_path: Path) -> None:
    tape = make(tmp_path / "tape.db", talk())
    assert invoke("rm", tape, "--session", "1").exit_code == 0
    assert broken(tape, "--expect", "tool:add", "--forbid", "tool:*") == [
        (None, None, "expect 'tool:add': nothing matches")
    ]

"""mcp-tape rm and merge: sessions removed from a cassette, and combined on one."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from mcp_tape.cassette.reader import Cassette
from tests.support.decks import alter
from tests.support.peers import RECORDINGS
from tests.support.reading import GOLDEN, Frames, Recording, call, invoke, make, objects, said
from tests.support.running import frames, run, sessions


def talk(word: str) -> Frames:
    return Frames().client(call(1, "say", word=word)).server(said(1, f"{word} it is")).stderr(word * 500)


def taken(tape: Path, *words: object, code: int = 0) -> str:
    result = invoke(*words[:1], tape, *words[1:])
    assert result.exit_code == code, result.output
    return result.stderr


@pytest.fixture
def tape(tmp_path: Path) -> Path:
    """Session 3 extends 1, and 4 extends 3."""
    made = make(tmp_path / "tape.db", talk("apple"), talk("berry"), talk("cherry"), talk("date"))
    alter(made, "UPDATE sessions SET extends = 1 WHERE id = 3", "UPDATE sessions SET extends = 3 WHERE id = 4")
    return made


# -- rm


def test_a_removed_session_is_gone_from_the_bytes_and_its_space_is_freed(tape: Path) -> None:
    before = tape.stat().st_size
    kept = frames(tape, 1)
    assert b"berry" in tape.read_bytes()
    said = taken(tape, "rm", "--session", 2)
    assert b"berry" not in tape.read_bytes()
    assert f"freed {before - tape.stat().st_size} bytes" in said
    assert [session.id for session in sessions(tape)] == [1, 3, 4]
    assert frames(tape, 1) == kept
    assert os.listdir(tape.parent) == ["tape.db"]
    assert invoke("check", tape).exit_code == 0


def test_several_sessions_are_removed_at_once_and_reported_as_json(tape: Path) -> None:
    (told,) = objects("rm", tape, "--session", 4, "--session", 2)
    assert told["removed"] == [2, 4] and told["file"] == str(tape)
    assert [session.id for session in sessions(tape)] == [1, 3]


def test_an_extended_session_is_not_removed_without_the_others(tape: Path) -> None:
    before = tape.read_bytes()
    said = taken(tape, "rm", "--session", 1, code=2)
    assert "session 3, 4 extends" in said
    assert "--session 1 --session 3 --session 4" in said
    assert tape.read_bytes() == before


def test_force_removes_the_extending_sessions_too(tape: Path) -> None:
    taken(tape, "rm", "--session", 1, "--force")
    assert [session.id for session in sessions(tape)] == [2]
    assert b"apple" not in tape.read_bytes() and b"date" not in tape.read_bytes()


@pytest.fixture
def chain(tape: Path) -> Path:
    """A long chain of sessions, each extending the next one: only linear time is fast enough."""
    more = f"WITH RECURSIVE n(i) AS (SELECT 5 UNION ALL SELECT i + 1 FROM n WHERE i < {CHAIN})"
    alter(
        tape,
        f"""INSERT INTO sessions (id, started_at, ended_at, transport, target, recorder, extends, key_version)
        {more} SELECT i, '2026-01-01', '2026-01-02', 'stdio', '{{}}', 'x', iif(i < {CHAIN}, i + 1, 1), 1 FROM n""",
    )
    return tape


CHAIN = 40_000  # more values than one SQLite statement takes


@pytest.mark.slow
def test_a_long_chain_of_sessions_goes_at_once_and_is_named_in_short(chain: Path) -> None:
    said = taken(chain, "rm", "--session", 1, code=2)
    assert f"and {CHAIN - 22} more extends one of them" in said
    assert "--session 1 --force" in said
    taken(chain, "rm", "--session", 1, "--force")
    assert [session.id for session in sessions(chain)] == [2]


@pytest.mark.slow
def test_a_long_chain_of_sessions_plays(chain: Path) -> None:
    done = run(
        [sys.executable, "-m", "mcp_tape", "replay", chain, "--session", "all"], call(7, "say", word="apple") + b"\n"
    )
    assert b"apple it is" in done.stdout


@pytest.mark.slow
def test_many_sessions_that_look_alike_are_merged_in_linear_time(tape: Path, tmp_path: Path) -> None:
    alter(
        tape,
        f"""INSERT INTO sessions (started_at, transport, target, recorder, extends, key_version)
        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {COPIES})
        SELECT '2026-01-01', 'stdio', '{{}}', 'x', 1, 1 FROM n""",
    )
    copy = shutil.copy(tape, tmp_path / "copy.db")
    assert len(merged(tape, copy, "-o", tmp_path / "out.db")) == COPIES + 4


COPIES = 4_000


def test_all_sessions_can_be_removed(tape: Path) -> None:
    taken(tape, "rm", *(word for number in (1, 2, 3, 4) for word in ("--session", number)))
    assert sessions(tape) == []


def test_a_session_that_is_not_there_removes_nothing(tape: Path) -> None:
    before = tape.read_bytes()
    assert "does not hold session 9" in taken(tape, "rm", "--session", 1, "--session", 9, code=3)
    assert tape.read_bytes() == before


def test_no_session_at_all_is_wrong_usage(tape: Path) -> None:
    assert "--session" in taken(tape, "rm", code=2)


# -- merge


def recorded(path: Path, day: int, *words: str) -> Path:
    for hour, word in enumerate(words):
        make(path, talk(word), started_at=f"2026-01-{day:02}T{hour:02}:00:00Z", note=word, run=f"run-{word}")
    return path


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    one = recorded(tmp_path / "one.db", 1, "apple", "cherry")
    other = recorded(tmp_path / "other.db", 2, "berry", "date")
    alter(one, "UPDATE sessions SET started_at = '2026-01-09T00:00:00Z', extends = 1 WHERE id = 2")
    return one, other


def merged(*words: object) -> list[Any]:
    return objects("merge", *words)


def test_sessions_are_in_the_order_of_time_and_numbered_anew(pair: tuple[Path, Path], tmp_path: Path) -> None:
    before = [path.read_bytes() for path in pair]
    out = tmp_path / "out.db"
    told = merged(*pair, "-o", out)
    assert [(row["session"], Path(row["file"]).name, row["was"]) for row in told] == [
        (1, "one.db", 1), (2, "other.db", 1), (3, "other.db", 2), (4, "one.db", 2),
    ]  # fmt: skip
    found = sessions(out)
    assert [(s.id, s.note, s.run, s.extends) for s in found] == [
        (1, "apple", "run-apple", None), (2, "berry", "run-berry", None),
        (3, "date", "run-date", None), (4, "cherry", "run-cherry", 1),
    ]  # fmt: skip
    for row in told:
        assert frames(out, row["session"]) == frames(Path(row["file"]), row["was"])
    assert [path.read_bytes() for path in pair] == before
    assert invoke("check", out).exit_code == 0
    assert sorted(os.listdir(tmp_path)) == ["one.db", "other.db", "out.db"]


def test_people_see_where_each_session_came_from(pair: tuple[Path, Path], tmp_path: Path) -> None:
    result = invoke("merge", *pair, "-o", tmp_path / "out.db")
    assert result.stdout.splitlines()[0] == f"  1  {pair[0]} session 1"
    assert result.stderr == f"mcp-tape: 4 sessions in {tmp_path / 'out.db'}\n"


def test_a_session_that_is_on_both_is_taken_once(pair: tuple[Path, Path], tmp_path: Path) -> None:
    copy = Path(shutil.copy(pair[0], tmp_path / "copy.db"))
    make(copy, talk("elder"), note="elder", extends=2, started_at="2026-02-01T00:00:00Z")
    merged(pair[0], copy, "-o", tmp_path / "out.db")
    assert [(s.note, s.extends) for s in sessions(tmp_path / "out.db")] == [
        ("apple", None), ("cherry", 1), ("elder", 2),
    ]  # fmt: skip


def edited(original: Path, name: str) -> Path:
    copy = Path(shutil.copy(original, original.with_name(name)))
    assert invoke("edit", copy, "--session", 1, "--editor", "perl -pi -e s/apple/pear/").exit_code == 0
    return copy


def test_a_copy_that_was_edited_is_a_session_of_its_own(tmp_path: Path) -> None:
    one = recorded(tmp_path / "one.db", 1, "apple", "cherry")
    told = merged(one, edited(one, "copy.db"), "-o", tmp_path / "out.db")
    assert [(Path(row["file"]).name, row["was"]) for row in told] == [("one.db", 1), ("copy.db", 1), ("one.db", 2)]


def test_extensions_of_an_edited_copy_are_taken_with_it(pair: tuple[Path, Path], tmp_path: Path) -> None:
    make(pair[0], talk("elder"), note="elder", extends=2, started_at="2026-02-01T00:00:00Z")
    told = merged(pair[0], edited(pair[0], "copy.db"), "-o", tmp_path / "out.db")
    assert [(row["session"], Path(row["file"]).name, row["was"]) for row in told] == [
        (1, "one.db", 1), (2, "copy.db", 1), (3, "one.db", 2), (4, "copy.db", 2), (5, "one.db", 3), (6, "copy.db", 3),
    ]  # fmt: skip
    assert [s.extends for s in sessions(tmp_path / "out.db")] == [None, None, 1, 2, 3, 4]


@pytest.mark.parametrize("order", [(0, 1, 2), (1, 0, 2), (1, 2, 0)])
def test_two_copies_of_the_same_edited_session_are_one(
    pair: tuple[Path, Path], tmp_path: Path, order: tuple[int, ...]
) -> None:
    copy = edited(pair[0], "copy.db")
    paths = (pair[0], copy, Path(shutil.copy(copy, tmp_path / "again.db")))
    merged(*(paths[at] for at in order), "-o", tmp_path / "out.db")
    assert [(s.note, s.extends) for s in sessions(tmp_path / "out.db")] == [
        ("apple", None), ("apple", None), ("cherry", 1), ("cherry", 2),
    ]  # fmt: skip


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_copy_whose_base_is_missing_is_not_another_session(
    pair: tuple[Path, Path], tmp_path: Path, order: tuple[int, ...]
) -> None:
    alone = tmp_path / "alone.db"
    exported = invoke("convert", pair[0], "--session", 2).stdout
    assert invoke("convert", "-", alone, input=exported).exit_code == 0
    merged(*((pair[0], alone)[at] for at in order), "-o", tmp_path / "out.db")
    assert [(s.note, s.extends) for s in sessions(tmp_path / "out.db")] == [("apple", None), ("cherry", 1)]


def test_a_copy_that_began_before_its_base_is_still_a_copy(pair: tuple[Path, Path], tmp_path: Path) -> None:
    alter(pair[0], "UPDATE sessions SET started_at = '2025-01-01T00:00:00Z' WHERE id = 2")
    copy = shutil.copy(pair[0], tmp_path / "copy.db")
    merged(pair[0], copy, "-o", tmp_path / "out.db")
    assert [(s.note, s.extends) for s in sessions(tmp_path / "out.db")] == [("cherry", 2), ("apple", None)]


def test_sessions_of_one_cassette_are_never_copies_of_each_other(tmp_path: Path) -> None:
    one = make(tmp_path / "one.db", talk("same"))
    twins = make(tmp_path / "twins.db", talk("same"), talk("same"))
    assert len(merged(twins, "-o", tmp_path / "out.db")) == 2
    assert len(merged(one, twins, "-o", tmp_path / "both.db")) == 2


@pytest.mark.slow
def test_all_golden_cassettes_merge_and_replay(tmp_path: Path) -> None:
    out = tmp_path / "out.db"
    told = merged(*GOLDEN, "-o", out)
    assert [row["session"] for row in told] == list(range(1, len(told) + 1))
    assert invoke("check", out).exit_code == 0
    with Cassette(out) as cassette:
        for row in told:
            with Cassette(row["file"]) as source:
                assert cassette.counts(row["session"]) == source.counts(row["was"])
                new, old = cassette.exchanges(row["session"]), source.exchanges(row["was"])
                assert [e._replace(session=None) for e in new] == [e._replace(session=None) for e in old]


@pytest.mark.parametrize("same", ["the file", "a link to it"])
def test_the_output_may_not_be_one_of_the_inputs(pair: tuple[Path, Path], tmp_path: Path, same: str) -> None:
    before = pair[0].read_bytes()
    out = pair[0]
    if same == "a link to it":
        out = tmp_path / "link.db"
        out.symlink_to(pair[0])
    result = invoke("merge", *pair, "-o", out, "--force")
    assert result.exit_code == 2 and "one of the cassettes to merge" in result.stderr
    assert pair[0].read_bytes() == before


def test_an_existing_file_is_replaced_only_with_force(pair: tuple[Path, Path], tmp_path: Path) -> None:
    out = recorded(tmp_path / "out.db", 3, "elder")
    result = invoke("merge", *pair, "-o", out)
    assert result.exit_code == 2 and "--force" in result.stderr
    assert [s.note for s in sessions(out)] == ["elder"]
    assert len(merged(*pair, "-o", out, "--force")) == 4
    assert len(sessions(out)) == 4


def test_a_file_that_is_not_a_cassette_is_never_replaced(pair: tuple[Path, Path], tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("dear diary")
    (tmp_path / "notes.jsonl").write_text("dear diary")
    others = RECORDINGS / "mcp-rec" / "odd.jsonl"
    shutil.copy(others, tmp_path / "others.jsonl")
    for out in ("notes.txt", "notes.jsonl", "others.jsonl", "."):
        result = invoke("merge", *pair, "-o", tmp_path / out, "--force")
        assert result.exit_code == 2 and "not a cassette, and was not changed" in result.stderr
    assert (tmp_path / "notes.txt").read_text() == (tmp_path / "notes.jsonl").read_text() == "dear diary"
    assert (tmp_path / "others.jsonl").read_bytes() == others.read_bytes()


def test_a_text_is_replaced_with_force(pair: tuple[Path, Path], tmp_path: Path) -> None:
    assert invoke("merge", pair[0], "-o", tmp_path / "out.jsonl").exit_code == 0
    assert invoke("merge", *pair, "-o", tmp_path / "out.jsonl", "--force").exit_code == 0
    assert len(sessions(tmp_path / "out.jsonl")) == 4


def test_times_of_other_zones_are_in_order(tmp_path: Path) -> None:
    frame = {"sender": "client", "text": '{"jsonrpc":"2.0","id":1,"method":"ping"}'}
    times = ["2026-11-18T07:00:00.000000Z", "2026-11-18T08:30:00+02:00", "yesterday", "2026-11-18T05:00:00"]
    for number, time in enumerate(times):
        lines = (json.dumps(row) + "\n" for row in ({"kind": "session", "started_at": time}, frame))
        (tmp_path / f"{number}.jsonl").write_text("".join(lines))
    told = merged(*(tmp_path / f"{number}.jsonl" for number in range(4)), "-o", tmp_path / "out.db")
    assert [Path(row["file"]).stem for row in told] == ["2", "3", "1", "0"]


@pytest.mark.parametrize(
    ("version", "hint"), [(99, "newer mcp-tape (schema 99"), (0, "which no version of mcp-tape writes")]
)
def test_a_cassette_of_another_schema_is_named_as_such(
    pair: tuple[Path, Path], tmp_path: Path, version: int, hint: str
) -> None:
    out = recorded(tmp_path / "out.db", 3, "elder")
    alter(out, f"PRAGMA user_version = {version}")
    before = out.read_bytes()
    result = invoke("merge", *pair, "-o", out, "--force")
    assert result.exit_code == 3 and hint in result.stderr and "not a cassette" not in result.stderr
    assert out.read_bytes() == before


def test_an_unfinished_recording_can_be_merged_but_not_replaced(pair: tuple[Path, Path], tmp_path: Path) -> None:
    live = tmp_path / "live.db"
    recording = Recording(live, started_at="2026-03-01T00:00:00Z")
    recording.write(talk("elder"))
    try:
        assert len(merged(pair[0], live, "-o", tmp_path / "out.db")) == 3
        result = invoke("merge", *pair, "-o", live, "--force")
    finally:
        recording.end()
    assert result.exit_code == 2 and "in use" in result.stderr
    assert len(frames(tmp_path / "out.db", 3)) == 3


def test_an_unwritable_place_is_reported(pair: tuple[Path, Path], tmp_path: Path) -> None:
    result = invoke("merge", *pair, "-o", tmp_path / "nowhere" / "out.db")
    assert result.exit_code == 3 and "cannot write" in result.stderr


def test_merging_needs_an_output(pair: tuple[Path, Path]) -> None:
    result = invoke("merge", *pair)
    assert result.exit_code == 2 and "--output" in result.stderr


def test_json_of_merge_is_one_object_a_session(pair: tuple[Path, Path], tmp_path: Path) -> None:
    result = invoke("merge", pair[0], "-o", tmp_path / "out.db", "--json")
    assert json.loads(result.stdout.splitlines()[0]) == {"session": 1, "file": str(pair[0]), "was": 1}

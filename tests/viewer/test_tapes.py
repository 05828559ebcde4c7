"""Several cassettes on one page: their sessions have separate numbers, and name their file."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcp_tape.cassette.reader import Cassette
from mcp_tape.viewer.tapes import PageTape, SessionNumbers
from tests.support.reading import Frames, call, invoke, make


def test_sessions_of_one_cassette_keep_their_numbers() -> None:
    numbers = SessionNumbers(several=False)
    assert [numbers.of(0, 7), numbers.of(0, 3)] == [7, 3]
    assert numbers.origin(7) == (0, 7)


def test_sessions_of_several_are_numbered_as_they_come() -> None:
    numbers = SessionNumbers(several=True)
    assert [numbers.of(0, 5), numbers.of(1, 5), numbers.of(0, 5), numbers.of(1, 1)] == [1, 2, 1, 3]
    assert (numbers.origin(2), numbers.knows(1, 5), numbers.knows(1, 9)) == ((1, 5), True, False)


def test_a_session_says_where_it_is_from(tmp_path: Path) -> None:
    tape, numbers = make(tmp_path / "tape.db", Frames().client(call(1, "x"))), SessionNumbers(several=True)
    with Cassette(tape) as cassette:
        numbers.of(0, 1)
        facts = numbers.head(1, cassette.session(1), "caf\udce9.db")
        assert [row.seq for row in PageTape(cassette, [1], "tape.db").rows()] == [1]
    assert (facts["id"], facts["number"], facts["file"], facts["open"]) == (2, 1, "caf?.db", False)


@pytest.mark.parametrize("form", ["jsonl", "md", "raw"])
def test_other_formats_take_one_cassette_at_a_time(tmp_path: Path, form: str) -> None:
    tape = make(tmp_path / "tape.db", Frames().client(call(1, "x")))
    result = invoke("convert", tape, tape, tmp_path / "out", "--to", form)
    assert result.exit_code == 2 and "--to html" in result.stderr

"""Rows read page by page: limits, keys, concurrent writers, and tables that never end."""

from __future__ import annotations

import sqlite3
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from mcp_tape.cassette import pages as paging
from mcp_tape.cassette.lookup.messages import Messages
from mcp_tape.cassette.pages import BEFORE_ALL, pages
from mcp_tape.cassette.query import recorded_requests, totals, whole_texts
from mcp_tape.cassette.query.filters import parse, seqs
from mcp_tape.cassette.query.timeline import session_rows
from mcp_tape.cassette.reader import Cassette, row_maker
from mcp_tape.cassette.writer import Writer
from mcp_tape.errors import CassetteError
from tests.support.decks import FACTS
from tests.support.reading import Frames, call, make, said

NUMBERS = "SELECT n, text FROM numbers WHERE 1"
KEY = {"n": 0}


@pytest.fixture
def db() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
        db.execute("CREATE TABLE numbers (n INTEGER, part, text)")
        yield db


def fill(db: sqlite3.Connection, *rows: Sequence[Any]) -> sqlite3.Connection:
    db.executemany("INSERT INTO numbers VALUES (?, ?, ?)", ((*row, None, None)[:3] for row in rows))
    return db


def numbers(db: sqlite3.Connection, **bounds: Any) -> list[list[int]]:
    return [[n for n, _ in page] for page in pages(db, NUMBERS, (), KEY, tuple, **bounds)]


def test_a_page_has_a_maximum_of_rows(db: sqlite3.Connection) -> None:
    fill(db, *((n,) for n in range(7)))
    assert numbers(db, most=3) == [[0, 1, 2], [3, 4, 5], [6]]
    assert numbers(db, most=3, first=1) == [[0], [1, 2, 3], [4, 5, 6]]
    assert numbers(db, most=3, after=(4,)) == [[5, 6]]
    assert [len(page) for page in numbers(db)] == [7]


def test_pages_are_within_bounds_wherever_they_go_on(db: sqlite3.Connection) -> None:
    fill(db, *((n,) for n in range(9)))
    assert numbers(db, most=3, within=(2, 6)) == [[2, 3, 4], [5, 6]]
    assert numbers(db, most=3, within=(2, 6), after=(0,)) == [[2, 3, 4], [5, 6]]
    assert numbers(db, most=3, within=(2, 6), after=(4,)) == [[5, 6]]
    assert numbers(db, most=3, within=(2, 6), after=(6,)) == []


def test_no_rows_are_no_page(db: sqlite3.Connection) -> None:
    assert numbers(db) == []


def test_a_page_has_a_maximum_of_bytes(db: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paging, "_PAGE_BYTES", 10)
    texts = "a" * 4, b"b" * 4, "c" * 4, None, 5, "d" * 100, "e"
    fill(db, *((n, 0, text) for n, text in enumerate(texts)))
    assert numbers(db, text=1) == [[0, 1, 2], [3, 4, 5], [6]]  # at least one row, however long
    assert len(numbers(db)) == 1


def test_a_key_of_several_columns_goes_on_within_the_first(db: sqlite3.Connection) -> None:
    rows = [(n, part) for n in (BEFORE_ALL, -1, 0, (1 << 63) - 1) for part in (None, -5, 0, 3)]
    fill(db, *rows)
    sql = "SELECT part, n, rowid FROM numbers WHERE n IS NOT ?"
    for most in range(1, 6):
        found = pages(db, sql, (None,), {"n": 1, "part": 0, "rowid": 2}, tuple, most=most)
        # Rows before the first key come after nothing: no recorder writes them.
        assert [(n, part) for page in found for part, n, _ in page] == rows[1:]


@pytest.mark.parametrize("most", [1, 2, 3])
def test_a_key_that_repeats_is_refused_wherever_a_page_ends(db: sqlite3.Connection, most: int) -> None:
    """Between two pages, the second row with the key would be skipped."""
    fill(db, (1,), (1,), (2,))
    with pytest.raises(sqlite3.DatabaseError, match="out of order"):
        list(pages(db, "SELECT n, text FROM numbers WHERE 1", (), {"rowid": 0}, tuple, most=most))


@pytest.mark.parametrize("odd", [None, "text", 1.5, b"data"])
def test_a_key_that_is_no_number_is_refused(odd: Any) -> None:
    with closing(sqlite3.connect(":memory:")) as db:
        db.execute("CREATE TABLE numbers (n, part, text)")
        fill(db, (1,), (odd,))
        with pytest.raises(sqlite3.DatabaseError, match="out of order"):
            list(pages(db, "SELECT n, text FROM numbers WHERE 1", (), {"coalesce(n, 9)": 0}, tuple))


def test_a_table_that_does_not_go_on_is_refused_and_not_read_for_ever(db: sqlite3.Connection) -> None:
    fill(db, (1,), (2,))
    # As if an index and its table disagreed.
    endless = pages(db, "SELECT 1, text FROM numbers WHERE 1", (), {"n": 0}, tuple, most=1)
    assert next(endless) == [(1, None)]
    with pytest.raises(sqlite3.DatabaseError, match="its rows are out of order"):
        next(endless)


def test_no_query_is_open_while_a_page_is_looked_at(tmp_path: Path) -> None:
    """Without WAL, an open query would block a recorder's commit."""
    path = tmp_path / "numbers.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as db, closing(sqlite3.connect(path, timeout=0)) as other:
        db.execute("CREATE TABLE numbers (n INTEGER, part, text)")
        fill(db, *((n, 0, "x" * 10) for n in range(10)))
        seen = []
        for page in pages(db, NUMBERS, (), KEY, tuple, most=2):
            seen += [n for n, _ in page]
            if len(seen) < 6:
                fill(other, (len(seen) + 100,))
                other.commit()
        assert seen == [*range(10), 102, 104]


class Pair(NamedTuple):
    number: int
    text: str | None


# Cassettes ----------------------------------------------------------------------------------------------


def test_frames_recorded_between_pages_are_read_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paging, "_PAGE_BYTES", 1)
    writer = Writer(str(tmp_path / "tape.db"))
    session = writer.begin(FACTS | {"started_at": "2026-01-02T03:04:05Z"})
    frames = Frames().client(call(1, "add")).server(said(1, "2")).client(call(2, "add"))
    writer.append([(session, frame, []) for frame in frames[:2]], {})
    with Cassette(tmp_path / "tape.db") as cassette:
        reading = cassette.frames(session)
        found = [next(reading)]
        writer.append([(session, frames[2], [])], {})
        assert [*found, *reading] == frames
    writer.close()


def test_errors_of_pages_are_those_of_the_cassette(tmp_path: Path) -> None:
    path = make(tmp_path / "tape.db", Frames().client(call(1, "add")))
    with Cassette(path) as cassette:
        with pytest.raises(CassetteError, match=r"cannot read .*: one of its rows has an invalid value$"):
            list(cassette.pages("SELECT seq, seq FROM frames WHERE 1", (), {"seq": 0}, row_maker(Pair)))
        with pytest.raises(CassetteError, match="out of order; if it is damaged, try"):
            list(cassette.pages("SELECT 'x' FROM frames WHERE 1", (), {"seq": 0}, tuple))
        with pytest.raises(CassetteError, match="no such table"):
            list(cassette.pages("SELECT n FROM numbers WHERE 1", (), {"n": 0}, tuple))


READERS: dict[str, Callable[[Cassette], Iterable[Any]]] = {
    "frames": lambda cassette: cassette.frames(1),
    "rows": lambda cassette: session_rows(cassette, 1),
    "some frames": lambda cassette: seqs(cassette, 1, parse("tool:x")),
    "requests": lambda cassette: recorded_requests.requests(cassette, 1),
    "exchanges": lambda cassette: cassette.exchanges(1),
    "texts": lambda cassette: whole_texts.messages(cassette, 1),
    "texts of calls": lambda cassette: whole_texts.calls(cassette, 1),
    "figures": lambda cassette: totals.tallies(cassette, [1]),
    "what replay keys": lambda cassette: Messages(cassette).of_session(1),
}


@pytest.fixture(scope="module")
def growing(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """A cassette, and one of twice the length."""
    talk = Frames()
    for number in range(400):
        talk.client(call(number, "x")).server(said(number, "y"))
    place = tmp_path_factory.mktemp("growing")
    return [make(place / f"{length}.db", talk[:length]) for length in (400, 800)]


@pytest.mark.parametrize("reader", READERS)
def test_twice_as_much_takes_twice_the_steps(growing: list[Path], reader: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page begins where the last one ended. Starting over for each page would take four times as many steps."""
    monkeypatch.setitem(pages.__kwdefaults__, "most", 20)
    monkeypatch.setattr(totals, "_PAGE", 20)
    steps = []
    for path in growing:
        with Cassette(path) as cassette:
            taken = count()
            cassette.connection.set_progress_handler(lambda taken=taken: next(taken) < 0, 20)  # type: ignore[misc]
            deque(READERS[reader](cassette), 0)
            steps.append(next(taken))
    assert steps[1] < 2.2 * steps[0]

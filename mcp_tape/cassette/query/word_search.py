"""Word search in the texts of a cassette: in all frames, in any case, in recorded order.

SQLite's full-text search decides (https://www.sqlite.org/fts5.html). Indexing the whole cassette would take longer than
reading every text. So SQLite first selects the texts that may match, and only those are indexed, in memory and a page
at a time. Nothing is written, hits are yielded as they are found, and memory does not grow.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from operator import itemgetter
from typing import Any, NamedTuple

from ...errors import CassetteError, TapeError
from .. import schema
from ..functions import readable_text
from ..reader import TEXT, Cassette
from .timeline import TimelineRow, frame_rows, whole_text

_TERM = re.compile(r'"([^"]*)"?(\*?)|([^\s"]+)')
_WORD = re.compile(r"[^\W_]+")  # as FTS5 sees words: letters and digits
_ASCII = re.compile(r"[0-9A-Za-z]+")
_START, _END = "\x02", "\x03"  # around a hit
_NO_MARKS = str.maketrans({_START: " ", _END: " "})
_SPAN, _INDEXED = 10_000, 500  # frames per query, and per index
_BEFORE_HIT, _EXCERPT, _LONG = 40, 4_000, 1 << 16  # characters

Matcher = Callable[[list[str]], dict[int, str]]  # returns the matching texts by index, with marks around the hits
Progress = Callable[[int], None]  # takes the number of frames searched


class SearchError(TapeError):
    """The query has no word."""

    exit_code = 2


class SearchTerm(NamedTuple):
    """Consecutive words; `prefix`: the last is only the beginning of a word."""

    text: str
    prefix: bool = False


class Hit(NamedTuple):
    """A frame that has the words; the text around the first of them, and the spans of the words in it."""

    session: int
    seq: int
    excerpt: str
    spans: list[tuple[int, int]]


def parse(words: str) -> list[SearchTerm]:
    """Parse a query: `one two` are two terms, `"one two"` is one, and `tool*` is any word that starts with it."""
    terms = []
    # Invalid UTF-8 separates words, as it does on a tape.
    for quoted, star, bare in _TERM.findall(words.encode("utf-8", "replace").decode()):
        text = bare.rstrip("*") or quoted
        if _WORD.search(text):
            terms.append(SearchTerm(text, bool(star) or bare.endswith("*")))
    if not terms:
        raise SearchError(f"there is no word in {words!r}; try one with letters or digits, such as: weather")
    return terms


def search(
    cassette: Cassette,
    terms: list[SearchTerm],
    sessions: Iterable[int],
    progress: Progress = lambda seen: None,
    after: tuple[int, int] = (0, 0),
) -> Generator[Hit, None, None]:
    """Yield every frame that has all the terms; `after`: only those after a frame, by its session and seq."""
    with closing(sqlite3.connect(":memory:")) as memory:
        fits = _index_matcher(memory, terms) if has_fts5(memory) else _pattern_matcher(terms)
        seen = 0
        for session in sessions:
            behind = after[1] if session == after[0] else 0
            for first, last, size in _spans(cassette, session, behind):
                for block in _candidates(cassette, terms, first, last):
                    for n, marked in sorted(fits([text for _, text in block]).items()):
                        yield Hit(session, block[n][0], *_excerpt(marked))
                seen += size
                progress(seen)


def fits(text: str, terms: list[SearchTerm]) -> bool:
    return bool(_pattern_matcher(terms)([_readable_text(text)]))


def row_of(cassette: Cassette, hit: Hit, terms: list[SearchTerm]) -> TimelineRow:
    """The row of a hit; in a batch, of the message that has the words, if only one has them."""
    rows = frame_rows(cassette, hit.session, hit.seq)
    if not rows:
        raise CassetteError(f"cannot read {cassette.path}: frame {hit.seq} is missing from its index")
    if len(rows) > 1:
        return next((row for row in rows if fits(whole_text(cassette, row), terms)), rows[0])
    return rows[0]


def has_fts5(db: sqlite3.Connection) -> bool:
    try:
        db.execute("CREATE VIRTUAL TABLE texts USING fts5(text, tokenize = 'unicode61 remove_diacritics 0')")
    except sqlite3.OperationalError:
        return False
    return True


def _spans(cassette: Cassette, session: int, behind: int) -> Iterator[tuple[int, int, int]]:
    """Spans of frames for quick queries: the id to start after, the last id, and the number of frames."""
    first, end = schema.row_id(session, behind), schema.row_ids(session)[1]
    sql = "SELECT id FROM facts WHERE 1"
    for ids in cassette.pages(sql, (), {"id": 0}, itemgetter(0), within=(first, end), most=_SPAN):
        yield first, ids[-1], len(ids)
        first = ids[-1]


def _candidates(cassette: Cassette, terms: list[SearchTerm], first: int, last: int) -> Iterator[list[tuple[int, str]]]:
    """Yield frames that may have the terms: those with the letters, and those that may have them escaped."""
    needles = [f"%{max(runs, key=len)}%" for term in terms if (runs := _ASCII.findall(term.text))]
    likely = " AND ".join(["text LIKE ?"] * len(needles)) or "1"
    sql = f"""SELECT id, {TEXT}, seq FROM frames WHERE id <= ?
        AND (({likely}) OR text IS NULL OR instr(text, '\\u00'))"""
    bounds = {"after": (first,), "most": _INDEXED, "text": 1}
    return cassette.pages(sql, (last, *needles), {"id": 0}, lambda row: (row[2], _readable_text(row[1])), **bounds)


def _readable_text(text: Any) -> str:
    return readable_text(text).translate(_NO_MARKS)


def _index_matcher(db: sqlite3.Connection, terms: list[SearchTerm]) -> Matcher:
    either = _either(terms)
    plain = str.maketrans('"\0', "  ")
    wanted = " ".join(f'"{term.text.translate(plain)}"{" *" if term.prefix else ""}' for term in terms)

    def fits(texts: list[str]) -> dict[int, str]:
        db.execute("DELETE FROM texts")
        db.executemany("INSERT INTO texts (rowid, text) VALUES (?, ?)", enumerate(texts))
        # In a long text with many hits, highlight() would copy the whole text for each.
        sql = """SELECT rowid, CASE WHEN length(text) < ? THEN highlight(texts, 0, ?, ?) END
            FROM texts WHERE texts MATCH ?"""
        found = db.execute(sql, (_LONG, _START, _END, wanted))
        return {n: _around(texts[n], either) if marked is None else marked for n, marked in found}

    return fits


def _pattern_matcher(terms: list[SearchTerm]) -> Matcher:
    """A matcher for SQLite without FTS5."""
    patterns, either = [_pattern(term) for term in terms], _either(terms)

    def fits(texts: list[str]) -> dict[int, str]:
        found = (n for n, text in enumerate(texts) if all(pattern.search(text) for pattern in patterns))
        return {n: _around(texts[n], either) for n in found}

    return fits


def _around(text: str, either: re.Pattern[str]) -> str:
    """The part of a text to show, with marked hits. One more character before it shows that it was cut."""
    first = either.search(text)
    start = max(0, first.start() - _BEFORE_HIT - 1) if first else 0
    return either.sub(lambda hit: f"{_START}{hit[0]}{_END}", text[start : start + 2 * _EXCERPT])


def _either(terms: list[SearchTerm]) -> re.Pattern[str]:
    return re.compile("|".join(_pattern(term).pattern for term in terms), re.I)


def _pattern(term: SearchTerm) -> re.Pattern[str]:
    words = r"[\W_]+".join(map(re.escape, _WORD.findall(term.text)))
    more = r"[^\W_]*" if term.prefix else ""
    return re.compile(rf"(?<![^\W_]){words}{more}(?![^\W_])", re.I)


def _excerpt(marked: str) -> tuple[str, list[tuple[int, int]]]:
    """The text from a little before the first hit, on one line, and the spans of the hits in it."""
    at = max(0, marked.find(_START) - _BEFORE_HIT)
    text, spans, start = "", [], 0
    for piece in re.split(f"([{_START}{_END}])", ("…" if at else "") + marked[at : at + _EXCERPT]):
        if piece == _START:
            start = len(text)
        elif piece == _END:
            spans.append((start, len(text)))
        else:
            text += re.sub(r"\s", " ", piece)
    return text, spans

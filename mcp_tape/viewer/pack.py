"""Rows of a cassette as the page reads them: an index of columns, and the texts in compressed blocks.

The index has what a list and a filter need, in a few bytes a row: numbers are distances, strings are numbers of words.
A block is a line of JSON, with the lengths of texts that are not ASCII, and the texts, verbatim. The line that `show`
has for a row is mostly a piece of its text, and then only its place.
"""

from __future__ import annotations

import re
import zlib
from base64 import b64encode
from collections.abc import Iterable, Iterator
from typing import Any

import orjson

from ..cassette.query import rows, sessions
from ..cassette.query.filters import EVERYTHING, Filter
from ..cassette.query.rows import Row, session_rows
from ..cassette.reader import Cassette, Session
from ..errors import harmless
from ..formats.lines import goes_without_saying, line_of

_BLOCK = 1 << 18  # bytes of texts
_MOST_ROWS = 2_000  # of a block
LONGEST_LINE, WITHIN = 160, 400  # characters of a line, and in which one is found; as in store.mjs
_LONGEST_ID = 15  # digits that JavaScript counts exactly
_FAR = 4_000  # characters in which a line is looked for
ODD, DIM, PLUMBING, BYTES = 1, 2, 4, 8  # flags of a row

_MEMBER = re.compile(r'"(?:arguments|params|result|error)"\s*:\s*')
_BLANK = re.compile(r'("(?:[^"\\]|\\.)*"?)|[ \n\r\t]+')

Columns = dict[str, list[Any]]
Place = str | int | tuple[int, int] | tuple[int, int, int]  # the last: of JSON that is written with spaces


class Packer:
    """Packs rows as they come. What it has packed is taken with `index` and `blocks`, as often as there is more."""

    def __init__(self, whole: bool = True) -> None:
        self._whole = whole  # every answer comes with its request, and how long it took follows from their times
        self._numbers: dict[str, int] = {}
        self._words: list[str] = []
        self._last = 0, 0
        self._last_id = 0
        self._columns = _columns()
        self._texts: list[str] = []
        self._sizes: dict[str, int] = {}  # where the index has another
        self._lines: list[Place] = []
        self._size = 0
        self._rows_of_blocks: list[int] = []

    def pack(self, cassette: Cassette, found: Iterable[Row]) -> Iterator[bytes]:
        """Take rows in; yield the blocks that they fill."""
        for row in found:
            self._add(cassette, row)
            if self._size >= _BLOCK or len(self._texts) >= _MOST_ROWS:
                yield self._block()

    def rest(self) -> Iterator[bytes]:
        """The last block, where something is left for it."""
        if self._texts:
            yield self._block()

    def index(self) -> dict[str, Any]:
        """Words, columns and blocks since the index was taken last."""
        taken = {"words": self._words, "rows": self._columns, "blocks": self._rows_of_blocks}
        self._words, self._columns, self._rows_of_blocks = [], _columns(), []
        return taken

    def _add(self, cassette: Cassette, row: Row) -> None:
        line = line_of(cassette, row, brief=True)
        text, is_bytes = _storable(cassette, row)
        flags = ODD * line.odd | DIM * line.dim | PLUMBING * goes_without_saying(row) | BYTES * is_bytes
        last_seq, last_at = self._last
        values = {
            "session": row.session, "seq": row.seq - last_seq, "part": row.part, "at": row.at - last_at,
            "client": int(row.sender == "client"), "kind": self.word(row.kind if row.is_message else None),
            "frame": self.word(row.frame_kind), "channel": self.word(row.channel), "method": self.word(row.method),
            "name": self.word(row.name), "id": self._id(row.rpc_id) if row.is_message else None,
            "status": self.word(row.status), "took": None if self._whole else row.microseconds,
            "answers": None if row.answers is None else row.seq - row.answers,
            "exchange": None if row.exchange is None else row.seq - row.exchange, "size": row.size,
            "what": None if row.is_message else self.word(line.what), "flags": flags,
        }  # fmt: skip
        for name, value in values.items():
            self._columns[name].append(value)
        self._last = row.seq, row.at
        if (size := _units(text)) != row.size:
            self._sizes[str(len(self._texts))] = size
        self._texts.append(text)
        self._lines.append(_place(text, line.detail, is_bytes))
        self._size += row.size

    def _id(self, text: str | None) -> str | int | None:
        """An id as JSON text; a number, as most are, as the distance to the one before."""
        if text is None or len(text) > _LONGEST_ID or not text.isdecimal() or str(int(text)) != text:
            return None if text is None else _encodable(text)
        before, self._last_id = self._last_id, int(text)
        return self._last_id - before

    def word(self, text: str | None) -> int | None:
        """The number of a word; a new one stands in the next index."""
        if text is None:
            return None
        number = self._numbers.get(text)
        if number is None:
            number = self._numbers[text] = len(self._numbers)
            self._words.append(_encodable(text))
        return number

    def _block(self) -> bytes:
        heads = {"sizes": self._sizes, "lines": self._lines}
        block = orjson.dumps(heads) + b"\n" + "".join(self._texts).encode()
        self._rows_of_blocks.append(len(self._texts))
        self._texts, self._sizes, self._lines, self._size = [], {}, [], 0
        return zlib.compress(block, 9)


def _columns() -> Columns:
    names = "session seq part at client kind frame channel method name id status took answers exchange size what flags"
    return {name: [] for name in names.split()}


def _storable(cassette: Cassette, row: Row) -> tuple[str, bool]:
    """The whole text of a row; in base64 where it is not UTF-8."""
    if isinstance(row.excerpt, bytes):
        frame = cassette.frame(row.session, row.seq)
        data = row.excerpt if frame is None or row.frame_kind == "batch" else frame.text
        return b64encode(data).decode(), True
    text = rows.whole_text(cassette, row)
    try:
        text.encode()
    except UnicodeEncodeError:  # half a character
        return b64encode(text.encode("utf-8", "surrogatepass")).decode(), True
    return text, False


def _place(text: str, line: str, is_bytes: bool) -> Place:
    """Where a line stands in its text, and how long it is unless it is cut; itself, where it does not."""
    cut = line[:LONGEST_LINE]
    if is_bytes or not cut.isprintable():
        return _encodable(harmless(cut))
    at, length = text.find(cut, 0, _FAR), _units(cut)
    if at >= 0:
        start = _units(text[:at])
        return start if length == LONGEST_LINE else (start, length)
    for found in _MEMBER.finditer(text, 0, _FAR):
        at = found.end()
        if _compact(text[at : at + WITHIN]).startswith(cut):
            return _units(text[:at]), length, 1
    return _encodable(cut)


def _compact(text: str) -> str:
    """JSON, or its beginning, without the white space between its parts, as store.mjs has it."""
    return _BLANK.sub(lambda found: found[1] or "", text)


def _units(text: str) -> int:
    """The length of a text as JavaScript counts it, in UTF-16: https://tc39.es/ecma262/#sec-ecmascript-language-types-string-type"""
    return len(text) if text.isascii() else len(text.encode("utf-16-le")) // 2


def _encodable(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


def head(session: Session) -> dict[str, Any]:
    """A session, as the page shows it."""
    facts = {name: _encodable(value) if isinstance(value, str) else value for name, value in session._asdict().items()}
    return facts | {"server": _encodable(sessions.server(session)), "open": sessions.is_open(session)}


def rows_of(cassette: Cassette, numbers: Iterable[int], kept: Filter = EVERYTHING) -> Iterator[Row]:
    for number in numbers:
        yield from session_rows(cassette, number, kept)

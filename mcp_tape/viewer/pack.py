"""Rows of a cassette for the page: an index of columns, and compressed blocks of texts.

The index holds the fields that a list and a filter need, in a few bytes per row: numbers as differences, strings as
word numbers. A block is a line of JSON, with the lengths of texts that are not ASCII, then the verbatim texts, similar
ones side by side. The line that `show` prints for a row is usually part of its text; then only its position is stored.
"""

from __future__ import annotations

import re
import zlib
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import orjson

from ..cassette.query import timeline
from ..cassette.query.timeline import TimelineRow
from ..cassette.reader import Cassette
from ..formats.row_lines import is_left_out_by_default, line_of
from ..wire import jsontext, protocol
from ..wire.secret_names import MARK

_BLOCK = 1 << 20  # bytes of texts
_MOST_ROWS = 20_000  # of a block
LONGEST_LINE, WITHIN = 160, 400  # characters of a line, and of the text to find one in; as in packed.mjs
_LONGEST_ID = 15  # digits that JavaScript represents exactly
_FAR = 4_000  # characters to search for a line
ODD, DIM, PLUMBING, BYTES, REDACTED = 1, 2, 4, 8, 16  # flags of a row
_ALIKE = "client", "kind", "method", "name"  # texts of rows with the same values here are adjacent; as in packed.mjs

_MEMBER = re.compile(r'"(?:arguments|params|result|error)"\s*:\s*')
_BLANK = re.compile(r'("(?:[^"\\]|\\.)*"?)|[ \n\r\t]+')

Columns = dict[str, list[int | None]]
LinePlace = str | int | tuple[int, int] | tuple[int, int, int]  # the last: a place in JSON that is written with spaces


class Text(NamedTuple):
    """A text of a block, its sort key, and its line."""

    alike: tuple[int, ...]
    row: int
    text: str
    size: int | None  # if it differs from the index
    line: LinePlace


class Packer:
    """Packs rows as they come. `index` and the yielded blocks hold the rows since the last index."""

    def __init__(self, whole: bool = True) -> None:
        self._whole = whole  # every answer comes with its request, so durations follow from times
        self._numbers: dict[str, int] = {}
        self._words: list[str] = []
        self._last = 0, 0
        self._last_id = 0
        self._columns = _columns()
        self._ids: dict[str, str] = {}  # ids that are not numbers
        self._texts: list[Text] = []
        self._size = 0
        self._rows_of_blocks: list[int] = []
        self._spans: dict[int, CallSpans] = {}

    def pack(
        self, cassette: Cassette, found: Iterable[TimelineRow], number: Callable[[int], int] = int
    ) -> Iterator[bytes]:
        """Take rows; yield each full block. `number` maps a session to its number on the page."""
        for row in found:
            self._add(cassette, row, number(row.session))
            if self._size >= _BLOCK or len(self._texts) >= _MOST_ROWS:
                yield self._block()

    def rest(self) -> Iterator[bytes]:
        """The last block, unless it is empty."""
        if self._texts:
            yield self._block()

    def index(self, **facts: Any) -> bytes:
        """Return facts, words, columns and blocks since the last index."""
        facts |= {"words": self._words, "blocks": self._rows_of_blocks, "ids": self._ids}
        taken = pack_columns(facts, self._columns)
        self._words, self._columns, self._rows_of_blocks, self._ids = [], _columns(), [], {}
        return taken

    def _add(self, cassette: Cassette, row: TimelineRow, session: int) -> None:
        line = line_of(cassette, row, brief=True)
        text, is_bytes = _storable(cassette, row)
        flags = ODD * line.odd | DIM * line.dim | PLUMBING * is_left_out_by_default(row) | BYTES * is_bytes
        flags |= REDACTED * (MARK in text)
        last_seq, last_at = self._last
        span = self._spans.setdefault(session, CallSpans()).root(row, text)
        values = {
            "session": session, "seq": row.seq - last_seq, "part": row.part, "at": row.at - last_at,
            "client": int(row.sender == "client"), "kind": self.word(row.kind if row.is_message else None),
            "frame": self.word(row.frame_kind), "channel": self.word(row.channel), "method": self.word(row.method),
            "name": self.word(row.name), "id": self._id(row.rpc_id) if row.is_message else None,
            "status": self.word(row.status), "took": None if self._whole else row.microseconds,
            "answers": None if row.answers is None else row.seq - row.answers,
            "exchange": None if row.exchange is None else row.seq - row.exchange, "size": row.size,
            "what": None if row.is_message else self.word(line.what), "flags": flags,
            "span": None if span is None else row.seq - span,
        }  # fmt: skip
        for name, value in values.items():
            self._columns[name].append(value)
        self._last = row.seq, row.at
        alike = tuple(-1 if (value := values[name]) is None else value for name in _ALIKE)
        size = _units(text)
        place = _place(text, line.detail, is_bytes)
        self._texts.append(Text(alike, len(self._texts), text, None if size == row.size else size, place))
        self._size += row.size

    def _id(self, text: str | None) -> int | None:
        """Encode a numeric id, the usual kind, as the difference to the last one; keep others as JSON text in `ids`."""
        if text is None:
            return None
        if len(text) > _LONGEST_ID or not text.isdecimal() or str(int(text)) != text:
            self._ids[str(len(self._columns["id"]))] = encodable(text)
            return None
        before, self._last_id = self._last_id, int(text)
        return self._last_id - before

    def word(self, text: str | None) -> int | None:
        """The number of a word. A new word goes into the next index."""
        if text is None:
            return None
        number = self._numbers.get(text)
        if number is None:
            number = self._numbers[text] = len(self._numbers)
            self._words.append(encodable(text))
        return number

    def _block(self) -> bytes:
        texts = sorted(self._texts)
        sizes = {str(place): one.size for place, one in enumerate(texts) if one.size is not None}
        heads = orjson.dumps({"sizes": sizes, "lines": [one.line for one in texts]})
        self._rows_of_blocks.append(len(texts))
        self._texts, self._size = [], 0
        return deflate(heads + b"\n" + "".join(one.text for one in texts).encode())


def deflate(data: bytes) -> bytes:
    """Compress data in zlib's format, to the smallest size."""
    packer = zlib.compressobj(9, zlib.DEFLATED, zlib.MAX_WBITS, 9)
    return packer.compress(data) + packer.flush()


def _columns() -> Columns:
    names = "session seq part at client kind frame channel method name id status took answers exchange size what flags"
    return {name: [] for name in f"{names} span".split()}


def _storable(cassette: Cassette, row: TimelineRow) -> tuple[str, bool]:
    """Return the whole text of a row, as base64 if it is not UTF-8, and whether it is."""
    if isinstance(row.excerpt, bytes):
        frame = cassette.frame(row.session, row.seq)
        data = row.excerpt if frame is None or row.frame_kind == "batch" else frame.text
        return b64encode(data).decode(), True
    text = timeline.whole_text(cassette, row)
    try:
        text.encode()
    except UnicodeEncodeError:  # a lone surrogate
        return b64encode(text.encode("utf-8", "surrogatepass")).decode(), True
    return text, False


def _place(text: str, line: str, is_bytes: bool) -> LinePlace:
    """The position of a line in its text, and its length unless it is cut; or the line itself."""
    cut = line[:LONGEST_LINE]
    if is_bytes:
        return encodable(cut)
    at, length = text.find(cut, 0, _FAR), _units(cut)
    if at >= 0:
        start = _units(text[:at])
        return start if length == LONGEST_LINE else (start, length)
    for found in _MEMBER.finditer(text, 0, _FAR):
        at = found.end()
        if _compact(text[at : at + WITHIN]).startswith(cut):
            return _units(text[:at]), length, 1
    return encodable(cut)


def _compact(text: str) -> str:
    """JSON, or its beginning, without white space between tokens; the same as in packed.mjs."""
    return _BLANK.sub(lambda found: found[1] or "", text)


def _units(text: str) -> int:
    """The length of a text in UTF-16 units: https://tc39.es/ecma262/#sec-ecmascript-language-types-string-type"""
    return len(text) if text.isascii() else len(text.encode("utf-16-le")) // 2


def encodable(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


# -- columns of numbers as bytes: the lowest byte of every number, then the next byte of every number, and so on
#
# Similar bytes are adjacent, so they compress well. `packed.mjs` reads them.

NumberColumn = Sequence[int | None]


def pack_columns(facts: Mapping[str, Any], columns: Mapping[str, NumberColumn]) -> bytes:
    """Pack facts and columns: a line of JSON with the facts and each column's width, then the columns."""
    coded = {name: [_encode(value) for value in values] for name, values in columns.items()}
    widths = {name: (max(values, default=0).bit_length() + 7) // 8 for name, values in coded.items()}
    planes = (bytes(value >> 8 * at & 255 for value in coded[name]) for name in coded for at in range(widths[name]))
    rows = len(next(iter(coded.values()), ()))
    return orjson.dumps({**facts, "rows": rows, "widths": widths}) + b"\n" + b"".join(planes)


def unpack_columns(data: bytes) -> tuple[dict[str, Any], dict[str, list[int | None]]]:
    """Return the facts and columns."""
    line, _, rest = data.partition(b"\n")
    facts = orjson.loads(line)
    rows, at, columns = facts.pop("rows"), 0, {}
    for name, width in facts.pop("widths").items():
        planes = [rest[at + rows * plane : at + rows * (plane + 1)] for plane in range(width)]
        at += rows * width
        numbers = zip(*planes, strict=True) if planes else [()] * rows
        columns[name] = [_value(int.from_bytes(bytes(number), "little")) for number in numbers]
    return facts, columns


def _encode(value: int | None) -> int:
    """Encode None as 0, then the numbers by their distance from 0: 0, -1, 1, -2."""
    if value is None:
        return 0
    return 2 * value + 1 if value >= 0 else -2 * value


def _value(coded: int) -> int | None:
    if coded == 0:
        return None
    return coded // 2 if coded % 2 else -(coded // 2)


# -- requests that belong to one call: the rounds of a call that asks for input, and a task with its polls
#
# A server that needs input returns a request for it, and the client repeats the call with another id and that input. A
# server that runs a call as a task returns the task's id, and the client polls until the task is done:
# https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/tasks

_POLLS = (protocol.TASK, protocol.TASK_RESULT, protocol.TASK_CANCEL, protocol.TASK_UPDATE)
_ROUND, _STATE, _TASK = "inputResponses", "requestState", "taskId"
_LONGEST = 1 << 20  # characters to parse


class CallSpans:
    """Reads the rows of a session in order, and finds the requests that continue others."""

    def __init__(self) -> None:
        self._roots: dict[int, int] = {}  # of requests that continue another
        self._waiting: dict[tuple[Any, ...], int] = {}  # the id or state that a later request names → the first request

    def root(self, row: TimelineRow, text: str) -> int | None:
        """The first request of the call that a client request continues; None for any other row."""
        if row.kind == "response" and row.sender == "server" and row.answers is not None:
            self._note_answer(row, text)
        if row.kind != "request" or row.sender != "client":
            return None
        found = self._find_root(row, text)
        if found is not None:
            self._roots[row.seq] = found
        return found

    def _find_root(self, row: TimelineRow, text: str) -> int | None:
        if row.method in _POLLS:
            return self._waiting.get((_TASK, row.name))
        if _ROUND not in text and _STATE not in text:
            return None
        params = _member(text, "params")
        state, given = protocol.member(params, _STATE), protocol.member(params, _ROUND)
        if state is None and given is None:
            return None
        by_state = self._waiting.get((_STATE, str(state)))
        return self._waiting.get((_ROUND, row.method, row.name)) if by_state is None else by_state

    def _note_answer(self, row: TimelineRow, text: str) -> None:
        asks, may_be_task = row.status == "input-required", _TASK in text
        if row.answers is None or not (asks or may_be_task) or row.method in _POLLS:
            return
        root = self._roots.get(row.answers, row.answers)
        result = _member(text, "result")
        if asks:
            self._waiting[_ROUND, row.method, row.name] = root
            if (state := protocol.member(result, _STATE)) is not None:
                self._waiting[_STATE, str(state)] = root
        task = protocol.member(result, "task")
        number = protocol.member(result if task is None else task, _TASK)
        if isinstance(number, str):
            self._waiting[_TASK, number] = root


def _member(text: str, name: str) -> Any:
    if len(text) > _LONGEST:
        return None
    try:
        return protocol.member(jsontext.loads(text), name)
    except (ValueError, RecursionError):
        return None

"""The filter grammar of show, stats, export and the viewer: `tool:search status:error -method:ping dur:>50`.

Defines the meaning of a filter as one exact SQL expression over the rows of `ROWS`: no row needs a check afterwards, so
a filter never reads more than SQLite does. Does not know how rows are shown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import chain, groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from ...values import DURATIONS, UNITS
from ...wire import jsontext, protocol
from .. import schema
from ..file import storable_text
from ..functions import EXAMINED, answer_of, messages_of, question_of, text_of
from .exchanges import FAILED

if TYPE_CHECKING:
    from ...wire.frames import Frame
    from ..reader import Cassette

Sql = tuple[str, tuple[Any, ...]]

# One row per message, and one per frame without messages. `f` is the frame and `m` its message; `q` is the request that
# `m` answers, `a` the answer to `m`. Every join uses an index.
_CALL = f"""{question_of("m")} {answer_of("m")} LEFT JOIN facts af ON af.id = a.frame"""
ROWS = f"frames f {messages_of('f')} {_CALL}"
ROWS_OF_MESSAGES = f"messages m CROSS JOIN frames f ON f.id = m.frame {_CALL}"

# A cancellation names the id of a request of its own side. A client's is in the exchange of its request. A server's may
# be in none, and is searched for only among the next few, because searching all for each request could take hours.
# https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/cancellation
_CANCELLED = f"""CASE WHEN f.kind = 'batch' THEN called_off(m.id, m.part, m.sender, m.rpc_id)
    WHEN m.sender = 'client' THEN EXISTS (
        SELECT 1 FROM derived c CROSS JOIN facts cf ON cf.id = c.id - c.part
        WHERE c.exchange = m.seq AND c.id BETWEEN m.id AND m.id | {schema.MOST}
        AND +c.method = '{protocol.CANCELLED}' AND c.{schema.BY_CLIENT}
        AND cancelled_by({text_of("cf", "c.part")}, c.part) = m.rpc_id)
    ELSE EXISTS (
        SELECT 1 FROM (SELECT c.id, c.part, c.cue FROM derived c WHERE c.id BETWEEN m.id AND m.id | {schema.MOST}
            AND c.method = '{protocol.CANCELLED}' ORDER BY c.id LIMIT {EXAMINED}) few
        CROSS JOIN facts cf ON cf.id = few.id - few.part
        WHERE few.{schema.BY_SERVER} AND cancelled_by({text_of("cf", "few.part")}, few.part) = m.rpc_id) END"""

# Columns about the call of a row, the same for a request and its answer.
METHOD = "coalesce(m.method, q.method)"
NAME = "coalesce(m.name, q.name)"
TEXT = text_of("f", "m.part")
SIZE = f"length(CAST({TEXT} AS BLOB))"
MICROSECONDS = "coalesce(af.elapsed - f.elapsed, f.elapsed - qf.elapsed)"
STATUS = f"""CASE WHEN m.kind IS NOT 'request' THEN m.status WHEN a.status IS NOT NULL THEN a.status
    WHEN m.key IS NULL THEN 'retry' WHEN {_CANCELLED} THEN 'cancelled' ELSE 'unanswered' END"""
_SO_FAR = STATUS.replace("'unanswered'", "NULL")

_ESCAPES = {'"': '\\"', "\\": "\\\\", "/": "\\/", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_STATUSES = {
    "ok": ("ok",), "error": FAILED, "rpc-error": ("error",), "tool-error": ("tool-error",), "refused": ("refused",),
    "input-required": ("input-required",), "retry": ("retry",), "cancelled": ("cancelled",),
    "unanswered": ("unanswered",),
}  # fmt: skip
_OF_MESSAGES = ("request", "response", "notification")
_OF_FRAMES = ("batch", "noise", "stderr", "control")
_MOST_CHARACTERS = 10_000
_FEW = 100
_MOST = 1 << 62  # SQLite compares larger numbers not as integers
_TERM = re.compile(r'(?P<minus>-?)(?:(?P<field>[A-Za-z_]+):)?(?P<value>"(?:[^"\\]|\\.)*"(?=\s|$)|[^\s"]\S*|)', re.S)
_NUMBER = re.compile(r"(\d+(?:\.\d+)?)([a-zA-Zµμ]*)")
_METHOD = re.compile(r"[\w$-]+(?:/[\w*$-]+)+")
_DUR_UNITS = {"": DURATIONS["ms"]} | DURATIONS


class FilterError(ValueError):
    """A filter that does not parse: the reason, and the position."""

    def __init__(self, message: str, position: int) -> None:
        super().__init__(message)
        self.position = position


class Filter(NamedTuple):
    """Conditions on rows, all of which must hold."""

    terms: tuple[Sql, ...] = ()
    names_sessions: bool = False  # one of the terms is about sessions

    def sql(self) -> Sql:
        """A WHERE expression over `ROWS` that selects the rows to keep, and its values."""
        terms = tuple(dict.fromkeys(self.terms))  # without duplicates
        return _all([sql for sql, _ in terms]) or "1", tuple(v for _, values in terms for v in values)

    def for_open_session(self) -> Filter:
        """The filter for a session in progress: a request without an answer may still get one."""
        return self._replace(terms=tuple((sql.replace(STATUS, _SO_FAR), values) for sql, values in self.terms))

    def only_unanswered(self) -> Filter:
        """The filter for the unanswered requests among the rows that this one keeps."""
        return self._replace(terms=(*self.terms, _status("unanswered", 0)))


EVERYTHING = Filter()


def _all(conditions: list[str]) -> str:
    """One expression, as a shallow tree: https://www.sqlite.org/limits.html#max_expr_depth"""
    if len(conditions) <= _FEW:
        return " AND ".join(conditions)
    half = len(conditions) // 2
    return f"({_all(conditions[:half])}) AND ({_all(conditions[half:])})"


def parse(text: str, *, methods: bool = False) -> Filter:
    """Parse a filter; FilterError if it is invalid. `methods`: a bare word with a slash is a method."""
    if len(text) > _MOST_CHARACTERS:
        raise FilterError(f"longer than {_MOST_CHARACTERS} characters", _MOST_CHARACTERS)
    terms, fields = [], set()
    at = _skip(text, 0)
    while at < len(text):
        found = _TERM.match(text, at)
        if found is None or not found["value"]:
            raise _no_value(text, at, found)
        field = (found["field"] or "").lower()
        if methods and not field and _METHOD.fullmatch(found["value"]):
            field = "method"
        sql, values = _condition(field, found)
        terms.append((f"NOT coalesce({sql}, 0)" if found["minus"] else f"coalesce({sql}, 0)", values))
        fields.add(field)
        at = _skip(text, found.end())
    return Filter(tuple(terms), "session" in fields)


def sessions(cassette: Cassette, kept: Filter, number: int | None = None) -> list[int]:
    """The sessions to read: the given one; or all, for a filter about sessions; or the newest."""
    if number is not None or not kept.names_sessions:
        return [cassette.session(number).id]
    return [session.id for session in cassette.each_session()]


def frames(cassette: Cassette, session: int, kept: Filter = EVERYTHING) -> Iterator[Frame]:
    """Yield the frames of a session with a row that the filter keeps, in order, verbatim."""
    if not kept.terms:
        yield from cassette.frames(session)
        return
    wanted = seqs(cassette, session, kept)
    following = next(wanted, None)
    for frame in cassette.frames(session):
        if following is None:
            return
        if frame.seq == following:
            yield frame
            following = next(wanted, None)


def seqs(cassette: Cassette, session: int, kept: Filter) -> Iterator[int]:
    """Yield the numbers of those frames."""
    where, values = kept.sql()
    sql, key = f"SELECT f.id, m.part, f.seq FROM {ROWS} WHERE {where}", {"f.id": 0, "m.part": 1}
    pages = cassette.pages(sql, values, key, itemgetter(2), within=schema.row_ids(session))
    return (seq for seq, _ in groupby(chain.from_iterable(pages)))


def _skip(text: str, at: int) -> int:
    while at < len(text) and text[at].isspace():
        at += 1
    return at


def _no_value(text: str, at: int, found: re.Match[str] | None) -> FilterError:
    at = found.start("value") if found else at
    if text[at : at + 1] == '"':
        return FilterError("a quoted text must be closed, and a space must follow it", at)
    field = found["field"] if found else None
    return FilterError(f"{field}: needs a value" if field else "- needs something to leave out", at)


def _condition(field: str, found: re.Match[str]) -> Sql:
    make = _FIELDS.get(field)
    if make is None:
        known = ", ".join(name for name in _FIELDS if name)
        problem = f"there is no field {field!r}; there are {known}. To find it as text, put it in quotes"
        raise FilterError(problem, found.start("field"))
    value, at = found["value"], found.start("value")
    if value.startswith('"'):
        value = re.sub(r"\\(.)", r"\1", value[1:-1], flags=re.S)
    if not value:
        raise FilterError("the quotes are empty", at)
    if storable_text(value) != value:
        raise FilterError("this is not UTF-8", at)
    return make(value, at)


def _text(value: str, at: int) -> Sql:
    """A condition on text, verbatim or escaped. Escapes are decoded only where one may stand for a character of it."""
    escapes = {"\\u00" if value.isascii() else "\\u"} | {_ESCAPES[each] for each in value if each in _ESCAPES}
    escaped, hints = _any(f"instr({TEXT}, ?) > 0", sorted(escapes))
    sql = f"(instr(lower({TEXT}), ?) > 0 OR ({escaped} AND says({TEXT}, ?)))"
    return sql, (_lower(value), *hints, _lower(value).encode())


def _lower(text: str) -> str:
    """Lower case as in SQLite's lower(), of A to Z: https://www.sqlite.org/lang_corefunc.html#lower"""
    return re.sub("[A-Z]+", lambda found: found[0].lower(), text)


def _any(condition: str, values: list[Any]) -> Sql:
    return f"({' OR '.join([condition] * len(values))})", tuple(values)


def _like(column: str) -> Callable[[str, int], Sql]:
    """A condition on a text, in which `*` matches anything."""

    def make(value: str, at: int) -> Sql:
        if "*" not in value:
            return f"{column} = ?", (value,)
        return f"{column} GLOB ?", (re.sub(r"[\[?]", r"[\g<0>]", re.sub(r"\*+", "*", value)),)

    return make


def _id(value: str, at: int) -> Sql:
    return _any("coalesce(m.rpc_id, q.rpc_id) = ?", [value, jsontext.quote(value)])


def _among(value: str, at: int, field: str, known: Any) -> None:
    if value not in known:
        raise FilterError(f"{field}: takes {', '.join(known)}", at)


def _from(value: str, at: int) -> Sql:
    _among(value, at, "from", ("client", "server"))
    return "f.sender = ?", (value,)


def _kind(value: str, at: int) -> Sql:
    _among(value, at, "kind", (*_OF_MESSAGES, "message", *_OF_FRAMES))
    if value == "message":
        return "m.kind IN (?, ?, ?)", _OF_MESSAGES
    return ("m.kind = ?" if value in _OF_MESSAGES else "f.kind = ?"), (value,)


def _status(value: str, at: int) -> Sql:
    _among(value, at, "status", _STATUSES)
    meant = _STATUSES[value]
    return f"({STATUS}) IN ({', '.join('?' * len(meant))})", meant


def _measure(column: str, units: dict[str, int], example: str) -> Callable[[str, int], Sql]:
    """A condition on a number: equal, compared or in a range."""

    def number(text: str, at: int) -> tuple[int, int]:
        """A number and the size of its unit, both in the column's unit."""
        found = _NUMBER.fullmatch(text)
        unit = units.get(found[2].lower()) if found else None
        if found is None or unit is None or (unit == 1 and "." in text):
            named = f", with {', '.join(u for u in units if u)}" if len(units) > 1 else ""
            raise FilterError(f"{text!r} is not a number{named}; write e.g. {example}", at)
        return round(min(float(found[1]) * unit, _MOST)), unit

    def make(value: str, at: int) -> Sql:
        compared = re.match(r">=|<=|>|<", value)
        if compared:
            return f"{column} {compared[0]} ?", (number(value[compared.end() :], at + compared.end())[0],)
        first, dots, last = value.partition("..")
        if dots and (first or last):
            low = number(first, at)[0] if first else -_MOST
            high = number(last, at + len(first) + 2)[0] if last else _MOST
            return f"{column} BETWEEN ? AND ?", (low, high)
        exact, unit = number(value, at)
        return f"({column} >= ? AND {column} < ?)", (exact, exact + unit)

    return make


_FIELDS: dict[str, Callable[[str, int], Sql]] = {
    "method": _like(METHOD),
    "tool": _like(NAME),
    "id": _id,
    "from": _from,
    "kind": _kind,
    "status": _status,
    "dur": _measure(MICROSECONDS, _DUR_UNITS, "dur:>50, dur:1s.. or dur:10..200"),
    "size": _measure(SIZE, UNITS, "size:>10k, size:..2M or size:100..200"),
    "session": _measure("f.session", {"": 1}, "session:2, session:>3 or session:1..4"),
    "": _text,
}

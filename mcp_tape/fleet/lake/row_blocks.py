"""The rows of a session for each table of a lake, some megabytes at a time, by column.

Message texts are verbatim; their parts (arguments, results, errors) are JSON of the same value.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import sha256
from itertools import repeat
from typing import Any, NamedTuple

from ...cassette.file import storable_text
from ...cassette.query import whole_texts
from ...cassette.query.exchanges import Counts
from ...cassette.query.whole_texts import WholeCall, WholeMessage
from ...cassette.reader import Cassette, Session
from ...formats.timed_calls import moment, start_time
from ...model.cost import definition, tokens
from ...telemetry import spans
from ...wire import jsontext, protocol
from ...wire.secret_names import PLACEHOLDER
from .columns import content

Values = dict[str, Any]
Columns = dict[str, Any]
_WHO = "client_name client_version server_name server_version protocol_version".split()
_LOOK = ("started_at", "transport", "label", "run")  # equal only in copies of one session, redacted or not
_REDACTED = ("target", "protocol_version", "client_name", "client_version", "server_name", "server_version", "note")
_KINDS = {kind.method: kind for kind in protocol.KINDS}
_WITH_ARGUMENTS = (protocol.CALL, protocol.GET_PROMPT)
_HASHED = 32  # hexadecimal digits
_LEAST, _MOST = -(1 << 63), (1 << 63) - 1
_FIRST, _LAST = -62_135_596_800_000_000, 253_402_300_799_999_999  # microseconds of the years 1 to 9999


class RowSource(NamedTuple):
    """The source of a row, which is in every row."""

    digest: str
    file: str
    with_content: bool = True


class ColumnBlock(NamedTuple):
    """Rows of a table by column: a list of values, or one value for all rows."""

    table: str
    rows: int
    columns: Columns

    def column(self, name: str) -> Sequence[Any]:
        """The value of each row."""
        values = self.columns[name]
        return values if isinstance(values, (list, tuple)) else [values] * self.rows


def blocks(cassette: Cassette, session: Session, source: RowSource) -> Iterator[ColumnBlock]:
    """All rows of a session, in blocks of one table each; the session's own row comes last."""
    of = {"cassette": source.digest, "session": session.id}
    who = {name: getattr(session, name) for name in _WHO}
    for block in _blocks(cassette, session, source.file):
        columns = who | block.columns | of
        left_out = () if source.with_content else content(block.table)
        yield block._replace(columns=columns | dict.fromkeys(left_out))


def _blocks(cassette: Cassette, session: Session, file: str) -> Iterator[ColumnBlock]:
    zero, redactions = start_time(session), 0
    for messages in whole_texts.messages(cassette, session.id):
        redactions += sum(message.redactions for message in messages if not message.part)
        yield ColumnBlock("messages", len(messages), _messages(zero, messages))
    for calls in whole_texts.calls(cassette, session.id):
        answers = [_parse_members(call.answer) for call in calls]
        yield ColumnBlock("calls", len(calls), _calls(session, calls, answers))
        found = [one for both in zip(calls, answers, strict=True) for one in _definitions(zero, *both)]
        if found:
            yield ColumnBlock("definitions", len(found), dict(zip(_Definition._fields, zip(*found), strict=True)))  # noqa: B905
    counts = cassette.counts_of(session.id, session.id).get(session.id, Counts())
    yield ColumnBlock("sessions", 1, _session(session, counts, redactions, file))


def _session(session: Session, counts: Counts, redactions: int, file: str) -> Columns:
    known = session._asdict() | counts._asdict()
    redactions += sum(len(PLACEHOLDER.findall(known[name] or "")) for name in _REDACTED)
    look = jsontext.canonical_bytes([known[name] for name in _LOOK])
    times = {"started_at": start_time(session), "ended_at": moment(session.ended_at)}
    return known | {"file": file, "recording": _hash(look), "redactions": redactions} | times


def _messages(zero: int, rows: list[WholeMessage]) -> Columns:
    given = dict(zip(WholeMessage._fields, zip(*rows), strict=True))  # noqa: B905
    said = given["text"]
    return given | {
        "at": [_time(zero + at) for at in given["at"]],
        "part": [part or 0 for part in given["part"]],
        "kind": [kind or of for kind, of in zip(given["kind"], given["frame_kind"], strict=True)],
        "bytes": list(map(_size, said)),
        "text": [text if isinstance(text, str) else None for text in said],
        "data": [text if isinstance(text, bytes) else None for text in said],
    }


def _calls(session: Session, rows: list[WholeCall], answers: list[Values]) -> Columns:
    zero = start_time(session)
    given = dict(zip(WholeCall._fields, zip(*rows), strict=True))  # noqa: B905
    params = [_parse_members(text).get("params") for text in given["request"]]
    trace, span, parent = zip(*map(spans.ids, repeat(session), given["seq"], given["rpc_id"], params))  # noqa: B905
    return given | {
        "at": [_time(zero + at) for at in given["at"]],
        "request_bytes": list(map(_size, given["request"])),
        "answer_bytes": [None if text is None else _size(text) for text in given["answer"]],
        "key": [None if key is None else key.hex() for key in given["key"]],
        "key_version": session.key_version,
        "answer_hash": list(map(_answer_hash, answers)),
        "error_code": list(map(_error_code, answers)),
        "trace_id": trace,
        "span_id": span,
        "parent_span_id": parent,
        "arguments": list(map(_arguments, rows, params)),
        "result": list(map(_json, given["answer"], answers, repeat(("result",)))),
        "error": list(map(_json, given["answer"], answers, repeat(("error",)))),
    }


def _answer_hash(answer: Values) -> str | None:
    outcome = {name: protocol.without_meta(answer[name]) for name in ("result", "error") if name in answer}
    return _hash(jsontext.canonical_bytes(outcome)) if outcome else None


def _error_code(answer: Values) -> int | None:
    code = protocol.member(answer.get("error"), "code")
    return code if type(code) is int and _LEAST <= code <= _MOST else None


def _arguments(row: WholeCall, params: Any) -> str | None:
    if row.method in _WITH_ARGUMENTS:
        return _json(row.request, {"params": params}, ("params", "arguments"))
    return None if params is None else _json(None, {"params": protocol.without_meta(params)}, ("params",))


class _Definition(NamedTuple):
    seq: int
    at: int
    kind: str
    name: str | None
    bytes: int
    tokens: int | None
    definition_hash: str
    definition: str


def _definitions(zero: int, row: WholeCall, answer: Values) -> Iterator[_Definition]:
    """The definitions in the answer to a list."""
    kind = _KINDS.get(row.method)
    if kind is None:
        return
    items = protocol.member(answer.get("result"), kind.member)
    for item in items if isinstance(items, list) else ():
        name, text = protocol.member(item, kind.key), jsontext.dumps(item)
        yield _Definition(
            row.seq,
            _time(zero + row.at),
            kind.subject,
            storable_text(name) if isinstance(name, str) else None,
            _size(text),
            tokens(definition(item)) if kind.method == protocol.TOOLS else None,
            _hash(jsontext.canonical_bytes(item)),
            text,
        )


def _parse_members(text: str | bytes | None) -> Values:
    """The members of a message; empty if it is not JSON."""
    try:
        found = {} if text is None else jsontext.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _json(text: str | bytes | None, body: Values, path: tuple[str, ...]) -> str | None:
    """A value of a message as JSON; None if there is none. Numbers keep their original spelling."""
    value: Any = body
    for step in path:
        if not isinstance(value, dict) or step not in value:
            return None
        value = value[step]
    made = jsontext.dumps(value)
    if not isinstance(text, str) or made in text or not _is_inexact(value):
        return made
    span = jsontext.find(text, path)
    return made if span is None else text[slice(*span)]


def _is_inexact(value: Any) -> bool:
    """Return whether parsing may have changed a number in a value: `1e2` becomes 100.0; large integers change too."""
    left = [value]
    while left:
        one = left.pop()
        if type(one) is float:
            return True
        if type(one) is dict:
            left += one.values()
        elif type(one) is list:
            left += one
    return False


def _time(microseconds: int) -> int:
    """A time, unchanged. Raises OverflowError for a time beyond any calendar."""
    if not _FIRST <= microseconds <= _LAST:
        raise OverflowError(f"a time of {microseconds} microseconds")
    return microseconds


def _size(text: str | bytes) -> int:
    return len(text) if isinstance(text, bytes) or text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def _hash(text: bytes) -> str:
    return sha256(text).hexdigest()[:_HASHED]

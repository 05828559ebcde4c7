"""Messages and calls of a session with their whole texts, some megabytes at a time, for complete copies."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from .. import schema
from ..functions import messages_of, text_of
from ..reader import Cassette, row_maker
from . import filters


class WholeMessage(NamedTuple):
    """A message, or a frame without one. `text` is bytes if it is not UTF-8."""

    seq: int
    part: int | None
    at: int
    sender: str
    channel: str
    frame_kind: str
    kind: str | None
    method: str | None
    name: str | None
    rpc_id: str | None
    status: str | None
    answers: int | None
    exchange: int | None
    redactions: int
    text: str | bytes
    frame: int


class WholeCall(NamedTuple):
    """A request of either side, and its answer. `key` is None if the client had to repeat it."""

    seq: int
    part: int
    at: int
    sender: str
    channel: str
    method: str
    name: str | None
    rpc_id: str | None
    key: bytes | None
    status: str
    answer_seq: int | None
    microseconds: int | None
    request: str | bytes
    answer: str | bytes | None
    id: int


_MESSAGES = f"""SELECT f.seq, m.part, f.elapsed, f.sender, f.channel, f.kind, m.kind, m.method, m.name, m.rpc_id,
    m.status, m.answers, m.exchange, f.redactions, {filters.TEXT}, f.id
    FROM frames f {messages_of("f")} WHERE 1"""
_CALLS = f"""SELECT m.seq, m.part, f.elapsed, m.sender, f.channel, m.method, m.name, m.rpc_id, m.key,
    {filters.STATUS}, a.seq, {filters.MICROSECONDS}, {filters.TEXT}, {text_of("af", "a.part")}, m.id
    FROM {filters.ROWS_OF_MESSAGES} WHERE m.kind = 'request'"""
_message, _call = row_maker(WholeMessage), row_maker(WholeCall)


def messages(cassette: Cassette, session: int) -> Iterator[list[WholeMessage]]:
    """Yield every message of a session, and every frame without one, in order, page by page."""
    places = WholeMessage._fields.index
    key = {"f.id": places("frame"), "m.part": places("part")}
    return cassette.pages(_MESSAGES, (), key, _message, within=schema.row_ids(session), text=places("text"))


def calls(cassette: Cassette, session: int) -> Iterator[list[WholeCall]]:
    """Yield every request of a session with its answer, in order, page by page."""
    places = WholeCall._fields.index
    texts = (places("request"), places("answer"))
    return cassette.pages(_CALLS, (), {"m.id": places("id")}, _call, within=schema.row_ids(session), text=texts)

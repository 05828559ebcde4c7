"""Whether a live server speaks the era of the protocol that the recorded client does."""

from __future__ import annotations

from ..cassette.reader import Cassette
from ..replay.choosing import is_legacy, is_modern
from ..wire import protocol
from .plan import Plan

_OLDER = "the older protocol only, with a handshake, and this recording is of a client of the modern era (2026-07-28)"
_NEWER = "the newer protocol only (2026-07-28), and this recording begins with the handshake of the older one"
_ANSWERS = "SELECT answer.status FROM messages answer WHERE answer.sender = 'server' AND answer.kind = 'response'"
_TO_METHOD = """ AND EXISTS (SELECT 1 FROM messages asked WHERE asked.session = answer.session
    AND asked.seq = answer.answers AND asked.sender = 'client' AND asked.method = ?)"""


def other_era(plan: Plan, new: str) -> str:
    """Why the server understood nothing, from what was recorded of the play; empty where it did."""
    with Cassette(plan.path) as cassette:
        legacy, modern = (is_era(cassette, plan.session) for is_era in (is_legacy, is_modern))
        was_understood = "ok" in _statuses(cassette, _ANSWERS + " AND session = ?", plan.session)
    with Cassette(new) as cassette:
        all_answers = _statuses(cassette, _ANSWERS)
        greetings = _statuses(cassette, _ANSWERS + _TO_METHOD, protocol.INITIALIZE)
    if modern and was_understood and all_answers == {"error"}:
        return f"the server seems to speak {_OLDER}; record it anew with a client that the server knows"
    if legacy and was_understood and greetings == {"error"}:
        return f"the server seems to speak {_NEWER}; record it anew with a client that the server knows"
    return ""


def _statuses(cassette: Cassette, sql: str, *values: object) -> set[str]:
    return {status for (status,) in cassette.rows(sql, values)}

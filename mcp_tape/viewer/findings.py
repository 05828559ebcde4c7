"""Findings of `why` and `check --audit` in a cassette, for the page."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ..cassette.reader import Cassette
from ..compare import rules
from ..contracts import why
from ..contracts.audit import audit
from .pack import encodable


def findings(cassette: Cassette, sessions: Sequence[int], number: Callable[[int], int]) -> Iterator[dict[str, Any]]:
    """Yield findings with rule, line and evidence. `number` maps a session to its number on the page."""
    for reason in why.reasons(cassette, sessions):
        facts = {"by": "why", "says": why.RULES[reason.rule], "evidence": [encodable(line) for line in reason.evidence]}
        yield facts | _place(reason.rule, reason.what, number(reason.session), reason.seq)
    for suspect in audit(cassette, sessions):
        facts = {"by": "audit", "says": rules.RULES[suspect.rule].says, "path": encodable(suspect.path)}
        yield facts | _place(suspect.rule, suspect.why, number(suspect.session), suspect.seq)


def _place(rule: str, what: str, session: int, seq: int | None) -> dict[str, Any]:
    return {"rule": rule, "what": encodable(what), "session": session, "seq": seq}

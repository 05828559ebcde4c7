"""What is reported of an answer that was not exact: by which rung it was found, and how the request differs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...wire import match
from ..finder import Bent
from ..misses import in_line, shown
from ..report import Fact, Inexact

if TYPE_CHECKING:
    from ...redaction.diagnostics import Discreet
    from ..selection import Selection
    from ..sends import Call

_SHOWN = 8  # differences of one answer
_WORDS = {
    "ignore": "equal but for what is ignored",
    "match_on": "equal in what counts",
    "normalize": "equal once normalized",
}


def fact(selection: Selection, call: Call, bent: Bent, discreet: Discreet) -> Fact:
    """Describe an answer that was found by a rung; without secrets, and never failing the request."""
    recorded = call.recorded
    assert recorded is not None
    method, now = call.message.method or "", call.message.body.get("params")
    then = selection.message(recorded).body.get("params")
    one, other = (match.asked(method, params) for params in (then, now))
    differing = list(match.differences(one, other, ("params",)))
    seen = tuple(shown(method, one, other, differing[:_SHOWN], discreet))
    how = _WORDS.get(bent.rung) or f"the nearest ({bent.similarity:.2f})"
    lines = [f"{discreet.call(call.message)} was answered by {selection.place(recorded)}, {how}", *map(in_line, seen)]
    if len(differing) > _SHOWN:
        lines.append(f"and {len(differing) - _SHOWN} more differences")
    return Fact("inexact", "\n  ".join(lines), call, inexact=Inexact(*bent, seen))

"""Calls of two recordings side by side, as `diff` aligns them, for the page."""

from __future__ import annotations

from typing import Any

from ..cassette.query.calls import Asked
from ..compare.changes import Place
from ..compare.judging import Comparison
from .tapes import Numbers


def aligned(comparison: Comparison, numbers: Numbers) -> dict[str, Any]:
    """Return pairs of requests as `[session, seq, session, seq]`, and the pairs of each change by its fingerprint.

    Pairs are in the order of the old recording, with null where there is no counterpart.
    """
    alignment = comparison.alignment
    if alignment is None:
        return {"pairs": [], "changes": {}}
    calls: list[tuple[Asked | None, Asked | None]] = [*alignment.pairs]
    calls += [(asked, None) for asked in alignment.missing] + [(None, asked) for asked in alignment.added]
    places = [(old and old[:2], new and new[:2]) for old, new in calls]
    known = {place: number for number, place in enumerate(places)}
    found = {change.fingerprint: [known[at] for at in change.places if at in known] for change in comparison.changes}
    return {
        "pairs": [[*_on_page(numbers, 0, old), *_on_page(numbers, 1, new)] for old, new in places],
        "changes": {change.fingerprint: [change.level, found[change.fingerprint]] for change in comparison.changes},
    }


def _on_page(numbers: Numbers, tape: int, place: Place | None) -> tuple[int | None, int | None]:
    return (None, None) if place is None else (numbers.of(tape, place[0]), place[1])

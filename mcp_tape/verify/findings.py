"""What a play found beyond the answers, as changes that diff can judge."""

from __future__ import annotations

from ..compare.changes import Change, Difference, Subject
from ..compare.judging import Comparison, Found, LeftOut, Unknown
from .base import Verified


def found(verified: Verified) -> list[Found]:
    """A crash or a hang is the server's; a single call without an answer is seen in the recording itself."""
    return [
        (Subject("server", ""), Difference("server-crashed", note=_told(failure.message, failure.stderr)))
        for failure in verified.failures
        if failure.kind in ("crashed", "hung")
    ]


def completed(comparison: Comparison, verified: Verified) -> Comparison:
    """With what a comparison of recordings cannot see: what was not asked, or could not be recorded."""
    skipped = tuple(LeftOut(str(skipped.request), skipped.why) for skipped in verified.skipped)
    return _without(comparison, {entry.what for entry in skipped})._replace(
        unknown=(*comparison.unknown, *unknown(verified)),
        cassette=f"{verified.path}#{verified.session}",
        skipped=skipped,
    )


def unknown(verified: Verified) -> list[Unknown]:
    """Why a run says nothing, or less than it should."""
    lost = [failure.message for failure in verified.failures if failure.kind == "unrecorded"]
    return [Unknown("calls", f"NEW: {why}", True) for why in [*lost, *filter(None, [verified.said_nothing])]]


def _without(comparison: Comparison, left_out: set[str]) -> Comparison:
    """What was left out is told as such, and is not missing; nor is what may have come of it."""
    if not left_out:
        return comparison
    kept = [one for one in comparison.changes if not _follows(one, left_out)]
    return comparison._replace(changes=tuple(kept))


def _follows(one: Change, left_out: set[str]) -> bool:
    if one.rule == "call-missing":
        return one.subject.name in left_out
    return one.subject.kind == "server" and one.rule in ("notification-missing", "server-request-removed")


def _told(message: str, stderr: tuple[str, ...]) -> str:
    said = [line for line in stderr if line.strip()]
    return message + (f"; its last words: {said[-1]}" if said else "")

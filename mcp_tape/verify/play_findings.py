"""Findings of a play beyond the answers: failures, skipped requests, the wrong era; for `compare` to judge."""

from __future__ import annotations

from typing import Literal, NamedTuple

from ..cassette.lookup.playable_sessions import is_legacy, is_modern
from ..cassette.query.recorded_requests import answer_statuses
from ..cassette.reader import Cassette
from ..compare.changes import ABSENT, SERVER, Change, Difference, SubjectDifference
from ..compare.judging import Comparison, OmittedRequest, UnknownPart
from ..wire import protocol
from .plan import PlayPlan

FailureKind = Literal["crashed", "unanswered", "hung", "unrecorded", "exit code"]

_OF_SERVER = ("crashed", "hung", "exit code")
_MODERN = protocol.MODERN_VERSION
_OLDER = f"the older protocol only, with a handshake, and this recording is of a client of the modern era ({_MODERN})"
_NEWER = f"the newer protocol only ({_MODERN}), and this recording begins with the handshake of the older one"


class Failure(NamedTuple):
    """A server failure that its answers do not show."""

    kind: FailureKind
    request: str | None
    message: str
    stderr: tuple[str, ...] = ()
    code: int | None = None  # exit code

    @property
    def is_late(self) -> bool:
        """True if everything was played before the failure."""
        return self.kind == "exit code"


class SkippedRequest(NamedTuple):
    """A request that was not made. `is_held_back`: by us, rather than for lack of a value from the server."""

    request: str
    why: str
    is_held_back: bool


class VerifiedSession(NamedTuple):
    """A session played against a live server: the new recording, and the failures."""

    path: str
    session: int
    new_path: str
    new_sessions: tuple[int, ...]
    requests: int  # on the tape
    calls: int  # tool calls among them
    called: int  # tool calls that were made
    skipped: tuple[SkippedRequest, ...] = ()
    failures: tuple[Failure, ...] = ()
    exposed: str | None = None  # the name of a secret that the new recording does not hide
    other_era: str = ""  # why the server understood nothing

    @property
    def empty_reason(self) -> str:
        """The reason why nothing was verified, or an empty text."""
        if self.other_era:
            return self.other_era
        if self.requests == 0:
            return "there was nothing to ask"
        return "no tool was called, so the tools are unverified" if self.calls and not self.called else ""


def failure_differences(verified: VerifiedSession) -> list[SubjectDifference]:
    """Differences for crashes and hangs. A single call without an answer shows in the recording itself."""
    return [(SERVER, _difference(failure)) for failure in verified.failures if failure.kind in _OF_SERVER]


def _difference(failure: Failure) -> Difference:
    note = _message(failure.message, failure.stderr)
    if failure.is_late:
        return Difference("server-exit-code-changed", (), 0, failure.code, note)
    facts = {"why": failure.kind, "request": failure.request, "code": failure.code}
    return Difference("server-crashed", (), ABSENT, {k: v for k, v in facts.items() if v is not None}, note)


def complete(comparison: Comparison, verified: VerifiedSession) -> Comparison:
    """Add the facts that recordings lack: skipped requests, and failures to record."""
    skipped = tuple(OmittedRequest(skipped.request, skipped.why) for skipped in verified.skipped)
    return _drop_skipped(comparison, {entry.what for entry in skipped})._replace(
        unknown=(*comparison.unknown, *unknown(verified), *_unshown_failures(comparison, verified)),
        cassette=f"{verified.path}#{verified.session}",
        skipped=skipped,
    )


def unknown(verified: VerifiedSession) -> list[UnknownPart]:
    """Reasons why a run proves nothing, or less than it should."""
    lost = [failure.message for failure in verified.failures if failure.kind == "unrecorded"]
    return [UnknownPart("calls", f"NEW: {why}", True) for why in [*lost, *filter(None, [verified.empty_reason])]]


def _unshown_failures(comparison: Comparison, verified: VerifiedSession) -> list[UnknownPart]:
    """Failures that the changes do not show, or that were accepted: everything after them is unverified."""
    shown = {change.rule for change in comparison.changes}
    rules = {"crashed": "server-crashed", "hung": "server-crashed", "unanswered": "call-unanswered"}
    ignored = {change.rule for change in comparison.ignored} - {"server-crashed"}
    return [
        UnknownPart("calls", f"NEW: {failure.message}; its further answers were not verified", True)
        for failure in verified.failures
        if failure.kind in rules and rules[failure.kind] not in shown | ignored
    ][:1]


def _drop_skipped(comparison: Comparison, left_out: set[str]) -> Comparison:
    """Drop changes caused by skipped requests, which are reported as such."""
    kept = [one for one in comparison.changes if not left_out or not _follows_from_skip(one, left_out)]
    return comparison._replace(changes=tuple(kept))


def _follows_from_skip(one: Change, left_out: set[str]) -> bool:
    if one.rule == "call-missing":
        return one.subject.name in left_out
    return one.subject.kind == "server" and one.rule in ("notification-missing", "server-request-removed")


def _message(message: str, stderr: tuple[str, ...]) -> str:
    said = [line for line in stderr if line.strip()]
    return message + (f"; its last words: {said[-1]}" if said else "")


# -- the other era


def era_mismatch(plan: PlayPlan, new: str) -> str:
    """The reason why the server understood nothing, from the recording of the play, or an empty text."""
    with Cassette(plan.path) as cassette:
        legacy, modern = (is_era(cassette, plan.session) for is_era in (is_legacy, is_modern))
        was_understood = "ok" in answer_statuses(cassette, plan.session)
    with Cassette(new) as cassette:
        all_answers = answer_statuses(cassette)
        greetings = answer_statuses(cassette, method=protocol.INITIALIZE)
    if modern and was_understood and all_answers == {"error"}:
        return f"the server seems to speak {_OLDER}; record it again with a client that the server knows"
    if legacy and was_understood and greetings == {"error"}:
        return f"the server seems to speak {_NEWER}; record it again with a client that the server knows"
    return ""

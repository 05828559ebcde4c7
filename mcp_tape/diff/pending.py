"""Review of pending changes: `verify` leaves the new recording beside the cassette, as `time.db.new`.

If all changes are accepted or ignored, the new sessions replace the verified ones, unless those have changed since;
sessions recorded later stay. If one change is rejected, the server is at fault, and the cassette stays unchanged.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Literal, NamedTuple

from .. import api
from ..cassette.change import replace_sessions
from ..cassette.reader import Cassette
from ..compare.changes import SERVER, Change, Difference, SubjectDifference
from ..compare.judging import Comparison, JudgingSettings, ignore_line, parse_ignores
from ..compare.report.wording import clip
from ..errors import CassetteError, TapeError, quote_path
from ..options import FORMATS
from . import project

ENDING = ".new"
Decision = Literal["accept", "reject", "ignore"]
Decisions = Mapping[str, Decision]  # by fingerprint
ReviewOutcome = Literal["replaced", "rejected", "pending"]
_LEFT = tuple(f".{form}{ENDING}" for form in FORMATS)
_LONGEST = 200  # characters of a reason
_SKIPPED_DIRECTORIES = ("node_modules", "__pycache__")
# Rules that report only if there is a breaking change.
_FOLLOWING = ("server-version-not-bumped", "server-version-decreased", "server-major-not-bumped")


class PendingReview(NamedTuple):
    """A cassette, and the changes to the new recording beside it."""

    cassette: str
    comparison: Comparison

    @property
    def grave(self) -> bool:
        """True if something that must be compared could not be."""
        return any(entry.grave for entry in self.comparison.unknown)


class ReviewResult(NamedTuple):
    """The outcome of a review."""

    cassette: str
    outcome: ReviewOutcome
    accepted: int
    rejected: int
    ignored: int
    undecided: int
    grave: bool
    noted: int = 0  # accepted changes written to the ignore file


def find_pending(cassettes: Iterable[str] = ()) -> list[str]:
    """Return the cassettes with a pending recording: of those named, or of all below the working directory."""
    named = [cassette.removesuffix(ENDING) for cassette in cassettes]
    for cassette in named:
        if not os.path.exists(cassette):
            hint = "those with pending changes: mcp-tape review --list"
            raise CassetteError(f"there is no cassette at {cassette}; {hint}")
    return [name for name in named or _cassettes_below() if os.path.exists(name + ENDING) and os.path.exists(name)]


def compare_pending(cassette: str, settings: JudgingSettings) -> PendingReview:
    """Compare the new sessions with those that they would replace."""
    from ..compare.versions import compare, version_of_sessions

    with Cassette(cassette) as one, Cassette(cassette + ENDING) as other:
        digests = _digests(other)
        with _add_advice(cassette):
            replace_sessions.expect(one, digests, cassette)
        old, new = (version_of_sessions(tape, list(digests), settings.ignore_paths) for tape in (one, other))
        ended = [(one.session(number).exit_code, other.session(number).exit_code) for number in digests]
        return PendingReview(cassette, compare(old, new, settings, more=list(_exits(ended))))


def _exits(codes: Iterable[tuple[int | None, int | None]]) -> Iterator[SubjectDifference]:
    """Servers that used to exit with 0, and now fail. Those ended by a signal do not count: we sent it."""
    for was, code in codes:
        if was == 0 and code and 0 < code < 128:
            note = f"the server ended with exit code {code} after its last answer"
            yield SERVER, Difference("server-exit-code-changed", (), was, code, note)


def _digests(new: Cassette) -> dict[int, str]:
    digests = replace_sessions.proposed_digests(new)
    if not digests:
        raise TapeError(f"{new.path} does not name the sessions that were verified\n{_retry_advice(new.path)}")
    return digests


@contextlib.contextmanager
def _add_advice(cassette: str) -> Iterator[None]:
    try:
        yield
    except replace_sessions.ChangedError as error:
        raise TapeError(f"{error}\n{_retry_advice(cassette + ENDING)}") from None


def _retry_advice(new: str) -> str:
    return f"Nothing was changed. Verify it again, or remove the pending recording: rm {quote_path(new)}"


def spread(changes: Iterable[Change], decisions: Decisions) -> dict[str, Decision]:
    """Return the decisions and those that follow: ignoring a change at a place ignores all changes there."""
    known = {change.fingerprint: change for change in changes}
    ignored = [ignore_line(change) for print_, change in known.items() if decisions.get(print_) == "ignore"]
    lines = parse_ignores("\n".join(ignored), "")
    following: dict[str, Decision] = {print_: "ignore" for print_, change in known.items() if lines.hides(change)}
    return {**following, **decisions}


def remaining_changes(changes: tuple[Change, ...], decisions: Decisions) -> tuple[Change, ...]:
    """Leave out complaints about the version number if all breaking changes are ignored."""
    breaks = [change for change in changes if change.level == "error" and change.rule not in _FOLLOWING]
    if any(decisions.get(change.fingerprint) != "ignore" for change in breaks):
        return changes
    return tuple(change for change in changes if change.rule not in _FOLLOWING or change.fingerprint in decisions)


def foresee(pending: PendingReview, decisions: Decisions, *, whole: bool = False) -> ReviewResult:
    """The outcome of these decisions, before they are carried out. `whole`: also accept parts that are unknown."""
    accepted, rejected, ignored, undecided = _divide_changes(pending, decisions)
    grave = pending.grave and not whole and not rejected
    outcome: ReviewOutcome = "rejected" if rejected else "pending" if undecided or grave else "replaced"
    noted = _changes_to_note(accepted, outcome)
    counts = (len(accepted), len(rejected), len(ignored), len(undecided))
    return ReviewResult(pending.cassette, outcome, *counts, grave, len(noted))


def settle(pending: PendingReview, decisions: Decisions, ignore_path: str, *, whole: bool = False) -> ReviewResult:
    """Carry out the decisions."""
    settled = foresee(pending, decisions, whole=whole)
    accepted, _, ignored, _ = _divide_changes(pending, decisions)
    if settled.outcome == "replaced":
        _replace(pending.cassette)
    lines = [(ignore_line(change), "ignored in a review") for change in ignored]
    noted = _changes_to_note(accepted, settled.outcome)
    project.ignore(ignore_path, [*lines, *((change.fingerprint, _reason(change)) for change in noted)])
    if not settled.undecided and not settled.grave:
        replace_sessions.withdraw(pending.cassette + ENDING)
    return settled


def _divide_changes(pending: PendingReview, decisions: Decisions) -> list[list[Change]]:
    """The accepted, rejected, ignored and undecided changes."""
    known: tuple[Decision | None, ...] = ("accept", "reject", "ignore", None)
    changes = remaining_changes(pending.comparison.changes, decisions)
    return [[change for change in changes if decisions.get(change.fingerprint) == one] for one in known]


def _changes_to_note(accepted: list[Change], outcome: ReviewOutcome) -> list[Change]:
    """The accepted changes for the ignore file.

    If the old recording stays, `verify` would find all of them again; if it is replaced, `breaking` would still find
    the errors in git.
    """
    return [one for one in accepted if outcome == "rejected" or (outcome == "replaced" and one.level == "error")]


def _reason(change: Change) -> str:
    """The accepted change, as the reason in the ignore file."""
    place = "" if change.path == "$" else f" {change.path}"
    return clip(f"accepted: {change.rule} {change.subject}{place}", _LONGEST)


def _replace(cassette: str) -> None:
    """Put the new sessions in their place, unless the old ones were changed during the review."""
    new = cassette + ENDING
    if os.path.exists(f"{new}-wal"):
        raise CassetteError(f"{new} is in use; end the process that records it, then try again")
    api.check_writable(os.path.realpath(cassette))
    with Cassette(new) as tape:
        digests = _digests(tape)
    anew = {number: (new, number) for number in digests}
    with _add_advice(cassette):
        replace_sessions.replace_sessions(cassette, anew, f"{cassette} was not changed", digests)


def _cassettes_below() -> list[str]:
    found = []
    for place, directories, files in os.walk("."):
        directories[:] = [name for name in directories if name[0] != "." and name not in _SKIPPED_DIRECTORIES]
        found += [os.path.join(place, file) for file in files if file.endswith(_LEFT)]
    return sorted(os.path.normpath(file).removesuffix(ENDING) for file in found)

"""Changes that wait for a decision: `verify` leaves the new recording beside the cassette, as `time.db.new`.

All accepted, or ignored from now on: its sessions take the place of those that were verified, if these are still what
they were then. What was recorded since stays. One rejected: the server is at fault, and the cassette stays.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Literal, NamedTuple

from .. import api
from ..cassette.change import edit
from ..cassette.reader import Cassette
from ..errors import CassetteError, TapeError, pasted
from . import project
from .changes import Change
from .judging import Comparison, Settings, ignore_line, parse_ignores

ENDING = ".new"
Decision = Literal["accept", "reject", "ignore"]
Decisions = Mapping[str, Decision]  # by fingerprint
_SKIPPED_DIRECTORIES = ("node_modules", "__pycache__")
# What is found only where something breaks.
_FOLLOWING = ("server-version-not-bumped", "server-version-decreased", "server-major-not-bumped")


class Pending(NamedTuple):
    """A cassette, and what is different on the new recording beside it."""

    cassette: str
    comparison: Comparison

    @property
    def grave(self) -> bool:
        """Whether it cannot be known what has changed."""
        return any(entry.grave for entry in self.comparison.unknown)


class Settled(NamedTuple):
    """What was decided of a cassette's changes, and what came of it."""

    cassette: str
    outcome: Literal["replaced", "rejected", "pending"]
    accepted: int
    rejected: int
    ignored: int
    undecided: int
    grave: bool


def waiting(cassettes: Iterable[str] = ()) -> list[str]:
    """The cassettes with a new recording beside them: of those named, or all at or below the working directory."""
    named = [cassette.removesuffix(ENDING) for cassette in cassettes]
    for cassette in named:
        if not os.path.exists(cassette):
            raise CassetteError(
                f"there is no cassette at {cassette}; those with pending changes: mcp-tape review --list"
            )
    return [name for name in named or _below() if os.path.exists(name + ENDING) and os.path.exists(name)]


def compared(cassette: str, settings: Settings) -> Pending:
    """The sessions that were recorded anew, with what they were."""
    from .versions import compare, of_sessions

    with Cassette(cassette) as one, Cassette(cassette + ENDING) as other:
        digests = _digests(other)
        with _told(cassette):
            edit.expect(one, digests, cassette)
        old, new = (of_sessions(tape, list(digests), settings.ignore_paths) for tape in (one, other))
        return Pending(cassette, compare(old, new, settings))


def _digests(new: Cassette) -> dict[int, str]:
    """Digests of the sessions that were verified."""
    digests = edit.proposed(new)
    if not digests:
        raise TapeError(f"{new.path} does not say which sessions were verified\n{_again(new.path)}")
    return digests


@contextlib.contextmanager
def _told(cassette: str) -> Iterator[None]:
    try:
        yield
    except edit.ChangedError as error:
        raise TapeError(f"{error}\n{_again(cassette + ENDING)}") from None


def _again(new: str) -> str:
    return f"Nothing was touched. Verify it again, or remove what is pending: rm {pasted(new)}"


def spread(changes: Iterable[Change], decisions: Decisions) -> dict[str, Decision]:
    """The decisions, with those that follow: what is ignored at a place is ignored for all changes there."""
    known = {change.fingerprint: change for change in changes}
    ignored = [ignore_line(change) for print_, change in known.items() if decisions.get(print_) == "ignore"]
    lines = parse_ignores("\n".join(ignored), "")
    following: dict[str, Decision] = {print_: "ignore" for print_, change in known.items() if lines.hide(change)}
    return {**following, **decisions}


def remaining(changes: tuple[Change, ...], decisions: Decisions) -> tuple[Change, ...]:
    """Without those that go with what is ignored: where nothing breaks any more, no version number is too low."""
    breaks = [change for change in changes if change.level == "error" and change.rule not in _FOLLOWING]
    if any(decisions.get(change.fingerprint) != "ignore" for change in breaks):
        return changes
    return tuple(change for change in changes if change.rule not in _FOLLOWING or change.fingerprint in decisions)


def settle(pending: Pending, decisions: Decisions, ignore_path: str, *, whole: bool = False) -> Settled:
    """Do what was decided. `whole`: also what cannot be known is accepted."""
    changes = remaining(pending.comparison.changes, decisions)
    accepted, rejected, ignored = (
        [change for change in changes if decisions.get(change.fingerprint) == decision]
        for decision in ("accept", "reject", "ignore")
    )
    undecided = len(changes) - len(accepted) - len(rejected) - len(ignored)
    grave = pending.grave and not whole and not rejected
    outcome = _outcome(bool(rejected), bool(undecided) or grave)
    if outcome == "replaced":
        _replace(pending.cassette)
    lines = [(ignore_line(change), "ignored in a review") for change in ignored]
    if rejected:
        # The old recording stays, so these would be found again.
        lines += [(change.fingerprint, f"accepted: {change.rule}") for change in accepted]
    project.ignore(ignore_path, lines)
    if not undecided and not grave:
        edit.withdraw(pending.cassette + ENDING)
    return Settled(pending.cassette, outcome, len(accepted), len(rejected), len(ignored), undecided, grave)


def _outcome(rejected: bool, waits: bool) -> Literal["replaced", "rejected", "pending"]:
    return "rejected" if rejected else "pending" if waits else "replaced"


def _replace(cassette: str) -> None:
    """Put the new sessions in their place. It may have been changed while somebody decided."""
    new = cassette + ENDING
    if os.path.exists(f"{new}-wal"):
        raise CassetteError(f"{new} is in use; end what records it, then try again")
    api.check_writable(os.path.realpath(cassette))
    with Cassette(new) as tape:
        digests = _digests(tape)
    anew = {number: (new, number) for number in digests}
    with _told(cassette):
        edit.replace_sessions(cassette, anew, f"{cassette} stays as it was", digests)


def _below() -> list[str]:
    found = []
    for place, directories, files in os.walk("."):
        directories[:] = [name for name in directories if name[0] != "." and name not in _SKIPPED_DIRECTORIES]
        found += [os.path.join(place, file) for file in files if file.endswith(f".db{ENDING}")]
    return sorted(os.path.normpath(file).removesuffix(ENDING) for file in found)

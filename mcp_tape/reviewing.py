"""Changes that wait for a decision: `verify` leaves the new recording beside the cassette, as `time.db.new`.

All accepted, or ignored from now on: it takes the cassette's place. One rejected: the server is at fault, and the
cassette stays.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple

from . import api, modes, project
from .cassette import Cassette
from .diff.changes import Change
from .diff.comparison import Comparison, Settings
from .diff.ignores import line_for, parse
from .errors import CassetteError

ENDING = ".new"
Decision = Literal["accept", "reject", "ignore"]
Decisions = Mapping[str, Decision]  # by fingerprint
_SKIPPED_DIRECTORIES = ("node_modules", "__pycache__")
_BESIDE = ("", "-wal", "-shm", "-journal")


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
    from .diff import compare
    from .diff.versions import of_sessions, recorded

    with Cassette(cassette) as one, Cassette(cassette + ENDING) as other:
        then, now = ({session.id: session for session in tape.sessions()} for tape in (one, other))
        anew = [number for number in now if number in then and now[number] != then[number]]
        old, new = (
            of_sessions(tape, anew, settings.ignore_paths) if anew else recorded(tape, "latest", settings.ignore_paths)
            for tape in (one, other)
        )
        return Pending(cassette, compare(old, new, settings))


def spread(changes: Iterable[Change], decisions: Decisions) -> dict[str, Decision]:
    """The decisions, with those that follow: what is ignored at a place is ignored for all changes there."""
    known = {change.fingerprint: change for change in changes}
    ignored = [line_for(change) for print_, change in known.items() if decisions.get(print_) == "ignore"]
    lines = parse("\n".join(ignored), "")
    following: dict[str, Decision] = {print_: "ignore" for print_, change in known.items() if lines.hide(change)}
    return {**following, **decisions}


def settle(pending: Pending, decisions: Decisions, ignore_path: str, *, whole: bool = False) -> Settled:
    """Do what was decided. `whole`: also what cannot be known is accepted."""
    changes = pending.comparison.changes
    accepted, rejected, ignored = (
        [change for change in changes if decisions.get(change.fingerprint) == decision]
        for decision in ("accept", "reject", "ignore")
    )
    undecided = len(changes) - len(accepted) - len(rejected) - len(ignored)
    lines = [(line_for(change), "ignored in a review") for change in ignored]
    if rejected:
        # The old recording stays, so these would be found again.
        lines += [(change.fingerprint, f"accepted: {change.rule}") for change in accepted]
    project.ignore(ignore_path, lines)
    grave = pending.grave and not whole and not rejected
    outcome = _carry_out(pending.cassette, bool(rejected), bool(undecided) or grave)
    return Settled(pending.cassette, outcome, len(accepted), len(rejected), len(ignored), undecided, grave)


def _carry_out(cassette: str, rejected: bool, waits: bool) -> Literal["replaced", "rejected", "pending"]:
    new = cassette + ENDING
    if not waits and not rejected:
        if os.path.exists(f"{new}-wal"):
            raise CassetteError(f"{new} is in use; end what records it, then try again")
        api.check_writable(os.path.abspath(cassette))
        modes.put_in_place(new, cassette)
    if not waits:
        for leftover in _BESIDE:
            if os.path.exists(new + leftover):
                os.unlink(new + leftover)
    return "rejected" if rejected else "pending" if waits else "replaced"


def _below() -> list[str]:
    found = []
    for place, directories, files in os.walk("."):
        directories[:] = [name for name in directories if name[0] != "." and name not in _SKIPPED_DIRECTORIES]
        found += [os.path.join(place, file) for file in files if file.endswith(f".db{ENDING}")]
    return sorted(os.path.normpath(file).removesuffix(ENDING) for file in found)

"""Replaces the old recording by the new one, or keeps the new one beside it for a review; whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Sequence

from ..cassette.change import replace_sessions
from ..cassette.lookup.playable_sessions import finished_sessions
from ..cassette.reader import Cassette
from ..diff.pending import ENDING
from ..errors import CassetteError
from .play_findings import VerifiedSession


def update(path: str, played: Sequence[VerifiedSession]) -> None:
    """Replace the verified sessions of a cassette by their new recordings; CassetteError explains why not."""
    otherwise = f"{os.path.abspath(path)} was not changed"
    replace_sessions.replace_sessions(path, _fit_to_replace(played, otherwise), otherwise)
    forget(path)


def keep(path: str, played: Sequence[VerifiedSession]) -> None:
    """Put the new recordings beside the cassette, for a review."""
    path = os.path.abspath(path)
    otherwise = "the new recording was not kept"
    replace_sessions.propose(path, _fit_to_replace(played, otherwise), otherwise, path + ENDING)


def forget(path: str) -> None:
    replace_sessions.withdraw(path + ENDING)


def _fit_to_replace(played: Sequence[VerifiedSession], otherwise: str) -> replace_sessions.Replacements:
    for verified in played:
        why = _unfit_reason(verified)
        if why:
            raise CassetteError(f"{otherwise}: {why}")
    return {verified.session: (verified.new_path, _fit(verified)[0]) for verified in played}


def _unfit_reason(verified: VerifiedSession) -> str | None:
    """The reason why a recording must not replace the old one."""
    session = f"session {verified.session}"
    failures = [failure.message for failure in verified.failures if not failure.is_late]
    if failures:
        return f"{session}: {failures[0]}"
    if any(skipped.is_held_back for skipped in verified.skipped):
        return f"{session}: calls were left out, so the new recording would hold less; see --allow-writes"
    if verified.exposed:
        return (
            f"{session}: the new recording shows the secret from ${verified.exposed}; "
            "give the --redact options that it was recorded with"
        )
    with Cassette(verified.new_path) as cassette:
        incomplete = [one.incomplete for one in cassette.sessions() if one.incomplete]
    if incomplete:
        return f"{session}: the new recording is incomplete: {incomplete[0]}"
    return None if len(_fit(verified)) == 1 else f"{session}: the new recording does not consist of one session"


def _fit(verified: VerifiedSession) -> list[int]:
    """The new sessions, without probes if there are others."""
    with Cassette(verified.new_path) as cassette:
        return list(finished_sessions(cassette)) or list(verified.new_sessions)

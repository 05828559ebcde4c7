"""VCR's modes: replay, record, or both, with one cassette and one server command."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal

from . import api, schema
from .errors import CassetteError

if TYPE_CHECKING:
    from .recorder import Options, Summary

Mode = Literal["none", "once", "new_episodes", "all", "rewrite"]
Say = Callable[[str], None]


class Outcome:
    """What was replayed, what was recorded, and the exit code."""

    def __init__(self, code: int, played: api.Played | None = None, recorded: Summary | None = None) -> None:
        self.code = code
        self.played = played
        self.recorded = recorded


def use(path: str, command: Sequence[str], mode: Mode, replay: api.Replay, record: Options, say: Say) -> Outcome:
    """Serve a client on our own stdin and stdout, as the mode says."""
    path = os.path.abspath(path)
    if mode == "none" or (mode == "once" and can_play(path)):
        played = api.replay(path, replay, say=say)
        return Outcome(played.code, played)
    if mode == "new_episodes" and can_play(path):
        return _new_episodes(path, command, replay, record, say)
    if mode == "rewrite":
        return _rewrite(path, command, record, say)
    return _record(path, command, record, say)


def can_play(path: str) -> bool:
    """Whether there is a whole session to play. One that another process is still recording is none."""
    schema.check_header(path)
    if not os.path.exists(path) or not os.path.getsize(path):
        return False
    from .cassette import Cassette
    from .selection import finished

    with Cassette(path) as cassette:
        return any(finished(cassette))


def _record(path: str, command: Sequence[str], options: Options, say: Say) -> Outcome:
    code, summary = api.record(command, path, options, warn=say)
    return Outcome(code, recorded=summary)


def _rewrite(path: str, command: Sequence[str], options: Options, say: Say) -> Outcome:
    """Into a file beside the cassette, which takes its place only if the run ended as it should."""
    api.check_writable(path)
    beside = f"{path}.{os.getpid()}.part"
    try:
        outcome = _record(beside, command, options, say)
        why = _unfit(beside, outcome)
        if why:
            say(f"{path} stays as it was: {why}")
            return Outcome(outcome.code)
        _put_in_place(beside, path)
        return outcome
    finally:
        for leftover in (beside, f"{beside}-wal", f"{beside}-shm", f"{beside}-journal"):
            if os.path.exists(leftover):
                os.unlink(leftover)


def _unfit(beside: str, outcome: Outcome) -> str | None:
    """Why a recording must not take the old one's place."""
    from .cassette import Cassette
    from .selection import finished

    summary = outcome.recorded
    if summary is None or summary.incomplete:
        return "the new recording is incomplete"
    if os.path.exists(f"{beside}-wal"):
        return "the new recording is in use"
    with Cassette(beside) as cassette:
        if not any(finished(cassette)):
            return "nothing was asked in this run"
        left = cassette.rows("SELECT 1 FROM frames WHERE kind = 'control' AND sender = 'client'")
    # Many servers end only when they are killed: what counts is that the client had finished.
    return None if left or outcome.code == 0 else f"the server ended with {outcome.code} before the client did"


def _put_in_place(beside: str, path: str) -> None:
    """A journal of the old cassette must not be applied to the new one."""
    if os.path.exists(f"{path}-wal"):
        from .cassette import Cassette

        with Cassette(path):
            pass  # opening it tidies up
        if os.path.exists(f"{path}-wal"):
            raise CassetteError(
                f"{path} is in use, so it was not replaced; end what records or reads it, then try again"
            )
    os.replace(beside, path)


def _new_episodes(path: str, command: Sequence[str], replay: api.Replay, record: Options, say: Say) -> Outcome:
    """Replay; what misses goes to the live server and onto a session that extends the one played."""
    from .cassette import Cassette
    from .episodes import Episodes
    from .selection import select
    from .transports import serve, stopping
    from .transports.live import Live

    api.check_writable(path)
    with Cassette(path) as cassette:
        first = cassette.session(select(cassette, replay.session).sessions[0])
    # The writer is forked before the cassette is opened to be played: SQLite forbids the other order.
    recorder = api.start_recorder(path, record._replace(extends=first.extends or first.id, when_needed=True), say)
    with Cassette(path) as cassette:
        episodes = Episodes(lambda: live.start(), say)
        stage = api.Stage(cassette, replay, say, episodes.pass_on)
        episodes.attach(stage.player, stage.deck)
        live = Live(command, recorder, episodes)
        played = stage.finish(stopping.until_told(lambda: serve.serve(live, live.watched)))
        live.end()
    summary = recorder.close()
    if episodes.failed is not None:
        raise episodes.failed
    if episodes.passed_on:
        with Cassette(path):
            pass  # the last one out leaves one file behind
    return Outcome(played.code, played, summary if episodes.passed_on else None)

"""Cassettes in tests: `use_cassette` gives what a client may connect to, and tells what happened then."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from .. import api, modes
from ..errors import CassetteError, TapeError
from ..redaction.diagnostics import Discreet, Rules
from .checking import check, check_server, check_session
from .used import Miss, Settings, UsedCassette

if TYPE_CHECKING:
    from ..replay.faults import Chooser
    from ..replay.finder import Compare, Repeats

__all__ = ["Miss", "UsedCassette", "use_cassette"]


def use_cassette(
    path: str | os.PathLike[str],
    mode: modes.Mode = "once",
    *,
    command: Sequence[str] = (),
    url: str | None = None,
    headers: dict[str, str] | None = None,
    cacert: str | None = None,
    session: int | str = "latest",
    ignore: Sequence[str] = (),
    match_on: Sequence[str | Compare] = (),
    repeats: Repeats | None = None,
    order: str = "arrival",
    speed: float = 0.0,
    faults: Sequence[str | Chooser] = (),
    seed: int = 0,
    note: str | None = None,
    redact: bool = True,
    redact_keys: Sequence[str] = (),
    redact_paths: Sequence[str] = (),
    redact_values: Sequence[str] = (),
    redactions: Sequence[Callable[[str], str]] = (),
    block_live: bool = False,
) -> UsedCassette:
    """A cassette in use: a context manager, with `with` or `async with`.

    `mode` is one of none, once, new_episodes, all and rewrite. `command` or `url` is the live server, for the modes
    that may need it. In `match_on` and `faults`, functions may stand beside texts: a rule gets the recorded and the
    live request and returns None or how they differ; a fault gets the live request and returns what strikes it, as in
    "delay:250", or None. `redactions` are functions of a text that give it back without its secrets.
    """
    check_server(command, url)
    replay = api.Replay(
        session=str(session),
        ignore=tuple(ignore),
        match_on=tuple(rule for rule in match_on if isinstance(rule, str)),
        rules=tuple(rule for rule in match_on if not isinstance(rule, str)),
        repeats=repeats,
        in_recorded_order=order == "recorded",
        speed=speed,
        faults=tuple(fault for fault in faults if isinstance(fault, str)),
        choosers=tuple(fault for fault in faults if not isinstance(fault, str)),
        seed=seed,
        redact_keys=tuple(redact_keys),
        redact_paths=tuple(redact_paths),
        redact_values=tuple(redact_values),
        redactions=tuple(redactions),
        headers=tuple((headers or {}).items()),
    )
    check(mode, replay, order, redact_paths, redact_values)
    settings = Settings(
        path=os.path.abspath(path),
        mode=_effective(os.path.abspath(path), mode, can_record=not block_live and bool(command or url)),
        command=tuple(command),
        web=api.Web(url=url or "", headers=tuple((headers or {}).items()), cacert=cacert),
        replay=replay,
        note=note,
        redact=redact,
        redact_keys=tuple(redact_keys),
        redact_paths=tuple(redact_paths),
        redact_values=tuple(redact_values),
        redactions=tuple(redactions),
    )
    if settings.mode == "none":
        check_session(settings.path, replay.session)
        from .playing import Playing

        return Playing(settings)
    _check_live(settings, mode, block_live)
    from .recording import Recording

    return Recording(settings)


def _effective(path: str, mode: modes.Mode, *, can_record: bool) -> modes.Mode:
    """The mode once it is known whether there is something to play.

    A recording in which nothing was asked is played like any other; but with `once` what is asked now is recorded.
    """
    if mode == "none":
        if not modes.is_recorded(path):
            raise CassetteError(f"{path} has nothing to play, and mode none records nothing")
        return mode
    if mode == "once":
        plays = modes.is_whole(path, _say) if can_record else modes.is_recorded(path)
        return "none" if plays else "all"
    return "all" if mode == "new_episodes" and not modes.can_play(path) else mode


def _say(text: str) -> None:
    print(f"mcp-tape: {text}", file=sys.stderr)


def _check_live(settings: Settings, mode: modes.Mode, blocked: bool) -> None:
    if not settings.command and not settings.web.url:
        raise TapeError(f"mode {mode} needs the live server for {settings.path}: give its command or its url")
    if blocked:
        discreet = Discreet(Rules(environ=os.environ))
        server = discreet.text(settings.web.url) or discreet.command(settings.command)
        raise TapeError(f"live servers are blocked, and mode {mode} would talk to {server} for {settings.path}")

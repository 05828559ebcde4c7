"""`use_cassette`: its keywords, their checks, and the mode that comes of them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from .. import api, modes
from ..errors import CassetteError, TapeError
from ..options import MODE, REDACT, REPLAYING, USE, Option
from ..redaction.diagnostics import Discreet, Rules, hidden
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
    given = dict(locals())  # before another name is bound
    _check_server(command, url)
    given = _by_name(given)
    path = os.path.abspath(path)
    effective = _effective(path, mode, can_record=not block_live and bool(command or url))
    web = api.Web(url=url or "", headers=given["headers"], cacert=cacert)
    settings = Settings(path, effective, tuple(command), web, api.replay_options(given), given)
    if settings.mode == "none":
        _check_session(path, settings.replay.session)
        from .playing import Playing

        return Playing(settings)
    _check_live(settings, mode, block_live)
    from .recording import Recording

    return Recording(settings)


def _by_name(keywords: dict[str, Any]) -> dict[str, Any]:
    """Check keywords. Return values by the names of the table, as a command line gives them; functions apart."""
    given = {row.name: keywords[row.name] for row in USE if row.keyword == row.name}
    given["headers"] = tuple((keywords["headers"] or {}).items())
    for row in (MODE, *REPLAYING, *REDACT):
        if row.name in given:
            given[row.name] = _checked(row, given[row.name])
        if row.functions:
            given[row.functions] = tuple(each for each in given[row.name] if not isinstance(each, str))
            given[row.name] = tuple(each for each in given[row.name] if isinstance(each, str))
    return given | {"no_redact": not keywords["redact"], "redactions": tuple(keywords["redactions"])}


def _checked(row: Option, value: Any) -> Any:
    """Refuse at once what would fail only when a client comes, perhaps in another thread or process."""
    if isinstance(row.kind, tuple):
        if value not in row.kind and (value, row.default) != (None, None):
            raise TapeError(f"there is no {row.name} {value!r}: choose one of {', '.join(row.kind)}")
    elif row.kind == "number" and not value >= 0:
        raise TapeError(f"{row.name} {value} is less than 0")
    elif row.multiple or row.parse:
        return _checked_list(row, value)
    elif row.check:
        value = str(value)
        _try(row, value, row.name)
    return value


def _checked_list(row: Option, value: Any) -> tuple[Any, ...]:
    if row.check and isinstance(value, str):
        raise TapeError(f"{value!r} must be in a list")
    values = tuple(value)
    what = f"no {row.noun}" if row.noun else f"nothing for {row.name}"
    for source in values if row.check else ():
        if isinstance(source, str) or not row.functions:
            _try(row, source, f"{source!r} is {what}:")
        elif not callable(source):
            raise TapeError(f"{source!r} is neither a text nor a function")
    return values


def _try(row: Option, source: str, refused: str) -> None:
    try:
        row.checked(source)
    except (ValueError, TypeError) as error:
        raise TapeError(f"{refused} {error.__cause__ or error}") from None


def _check_server(command: Sequence[str], url: str | None) -> None:
    if isinstance(command, str):
        raise TapeError(f"the command must be a list of words, as in {command.split()!r}")
    if command and url:
        raise TapeError(f"either the command {command[0]} or the URL {hidden(url)}, not both")


def _check_session(path: str, session: str) -> None:
    if session.isdecimal():
        from ..cassette.reader import Cassette

        with Cassette(path) as cassette:
            cassette.session(int(session))


def _effective(path: str, mode: modes.Mode, *, can_record: bool) -> modes.Mode:
    """Return the mode, now that it is known whether there is something to play.

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

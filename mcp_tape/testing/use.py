"""`use_cassette`: its keywords, their checks, and the resulting mode."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .. import api, modes
from ..cassette import schema
from ..console import say
from ..errors import CassetteError, TapeError
from ..options import AROUND, MODE, REDACT, REPLAYING, USE, Option
from ..redaction.diagnostics import Discreet, Rules, hidden
from ..values import check_variable, variable
from .used import Inexact, Miss, Settings, UsedCassette

if TYPE_CHECKING:
    from ..cassette.reader import Cassette
    from ..replay.faults import Chooser
    from ..replay.finder import Compare, Repeats
    from .entries import Entry

__all__ = ["Inexact", "Miss", "UsedCassette", "use_cassette"]


def use_cassette(
    path: str | os.PathLike[str],
    mode: modes.Mode = "once",
    *,
    command: Sequence[str] = (),
    url: str | None = None,
    servers: Mapping[str, Any] | None = None,
    env: Mapping[str, str | os.PathLike[str]] | None = None,
    env_from: Sequence[str] = (),
    cwd: str | os.PathLike[str] | None = None,
    headers: dict[str, str] | None = None,
    cacert: str | None = None,
    session: int | str = "latest",
    ignore: Sequence[str] = (),
    match_on: Sequence[str | Compare] = (),
    normalize: Sequence[str | Callable[[Any], Any]] = (),
    match: str | Sequence[str] = (),
    repeats: Repeats | None = None,
    order: str = "arrival",
    unanswered: str = "error",
    speed: float = 0.0,
    faults: Sequence[str | Chooser] = (),
    seed: int = 0,
    replay_prefix: bool = False,
    new_times: bool = False,
    note: str | None = None,
    redact: bool = True,
    redact_keys: Sequence[str] = (),
    redact_paths: Sequence[str] = (),
    redact_values: Sequence[str] = (),
    redactions: Sequence[Callable[[str], str]] = (),
    block_live: bool = False,
) -> UsedCassette:
    """A cassette in use, as a context manager for `with` or `async with`.

    `mode` is one of none, once, new_episodes, all and rewrite. `command` or `url` is the live server, for the modes
    that may need one; `servers` gives several by name, each a command, a URL or a dict as in clients' configurations. A
    command runs in the directory `cwd`, with the variables of `env` and those of this process that `env_from` names;
    their values are not recorded. `match_on`, `normalize` and `faults` take functions beside texts: a rule gets the
    recorded and the live request and returns None or how they differ; a normalizer gets a value and returns the value
    to compare; a fault gets the live request and returns a fault such as "delay:250", or None. Each function in
    `redactions` gets a text and returns it without its secrets.
    """
    keywords = dict(locals())  # before another name is bound
    path = _absolute(os.fspath(path))
    if servers is not None:
        return _use_servers(path, keywords)
    settings = _settings(path, keywords)
    opened = _to_play(settings, can_record=not block_live and bool(command or url))
    if opened is not None:
        from .playing import Playing

        return Playing(settings._replace(mode="none"), opened)
    from .recording import Recording

    return Recording(_live(settings, block_live))


def _absolute(path: str) -> str:
    """An absolute path, or the name of a URL."""
    if not schema.is_url(path):
        return schema.absolute(path)
    from ..fleet.remote import named  # only for remote cassettes

    return named(path)


def _use_servers(path: str, keywords: dict[str, Any]) -> UsedCassette:
    """A tape of several servers: each plays, or records into a common file."""
    from .entries import read
    from .group import Group
    from .playing import Playing
    from .recording import Recording

    for name in ("command", "url"):
        if keywords[name]:
            raise TapeError(f"either servers or {name}, not both")
    entries, common, blocked = read(keywords["servers"]), _settings(path, keywords), keywords["block_live"]
    several = {name: _settings(path, _for_server(keywords, entry), name) for name, entry in entries.items()}
    doors: dict[str, UsedCassette] = {}
    with contextlib.ExitStack() as failing:
        for name, settings in several.items():
            opened = _to_play(settings, can_record=not blocked)
            if opened is not None:
                doors[name] = Playing(settings._replace(mode="none"), opened)
                failing.callback(doors[name].finish, keep=False)
        live = {name: _live(settings, blocked) for name, settings in several.items() if name not in doors}
        file = None
        if live:
            first, *others = {settings.mode for settings in live.values()}
            common = common._replace(mode="new_episodes" if others else first)
            file = Recording(common, labels=list(live))
            failing.callback(file.finish, keep=False)
            doors |= {name: Recording(settings, file) for name, settings in live.items()}
        else:
            common = common._replace(mode="none")
        failing.pop_all()
    return Group(common, {name: doors[name] for name in entries}, entries, file)


def _for_server(keywords: dict[str, Any], entry: Entry) -> dict[str, Any]:
    """The keywords for one of several servers: those of its entry, and the common ones."""
    own = entry.keywords(os.environ)
    env, headers = ((keywords[name] or {}) | own[name] for name in ("env", "headers"))
    cwd = own["cwd"] or keywords["cwd"]
    around = {"env": {}, "env_from": (), "cwd": None} if entry.url else {"env": env, "cwd": cwd}
    return keywords | own | around | {"headers": headers if entry.url else {}}


def _settings(path: str, keywords: dict[str, Any], label: str | None = None) -> Settings:
    given = _by_name(keywords) | {"label": label}
    command, url = keywords["command"], keywords["url"]
    _check_server(given, command, url)
    web = api.Web(url=url or "", headers=given["headers"], cacert=keywords["cacert"])
    return Settings(path, keywords["mode"], tuple(command), web, api.replay_options(given), given)


def _live(settings: Settings, blocked: bool) -> Settings:
    """The settings of a tape that records, if that is allowed."""
    mode, label = settings.mode, settings.replay.label
    schema.expect_local(settings.path)
    _check_live(settings, mode, blocked)
    is_first = mode == "once" or (mode == "new_episodes" and not modes.can_play(settings.path, label))
    return settings._replace(mode="all") if is_first else settings


def _by_name(keywords: dict[str, Any]) -> dict[str, Any]:
    """Check keywords. Return values by the names of the table, as from a command line; functions separately."""
    given = {row.name: keywords[row.name] for row in USE if row.keyword == row.name}
    given["headers"] = tuple((keywords["headers"] or {}).items())
    given["env"] = tuple(_variable(name, value) for name, value in (keywords["env"] or {}).items())
    given["cwd"] = None if keywords["cwd"] is None else os.path.abspath(keywords["cwd"])
    for row in (MODE, *AROUND, *REPLAYING, *REDACT):
        if row.name in given:
            given[row.name] = _checked(row, given[row.name])
        if row.functions:
            given[row.functions] = tuple(each for each in given[row.name] if not isinstance(each, str))
            given[row.name] = tuple(each for each in given[row.name] if isinstance(each, str))
    return given | {"no_redact": not keywords["redact"], "redactions": tuple(keywords["redactions"])}


def _checked(row: Option, value: Any) -> Any:
    """Refuse at once what would otherwise fail when a client connects, perhaps in another thread or process."""
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


def _variable(name: object, value: object) -> tuple[str, str]:
    """A variable for a server. Errors do not show its value."""
    text = os.fspath(value) if isinstance(value, str | os.PathLike) else None
    if not isinstance(name, str) or not isinstance(text, str):
        raise TapeError(f"env gives {name!r} a value of the type {type(value).__name__}; both must be texts")
    try:
        check_variable(name)
        return variable(f"{name}={text}")
    except ValueError as error:
        raise TapeError(f"env: {error}") from None


def _checked_list(row: Option, value: Any) -> tuple[Any, ...]:
    if row.check and isinstance(value, str) and not row.may_be_one:
        raise TapeError(f"{value!r} must be in a list")
    values = (value,) if isinstance(value, str) and row.may_be_one else tuple(value)
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


def _check_server(given: dict[str, Any], command: Sequence[str], url: str | None) -> None:
    if isinstance(command, str):
        raise TapeError(f"the command must be a list of words, as in {command.split()!r}")
    if command and url:
        raise TapeError(f"either the command {command[0]} or the URL {hidden(url)}, not both")
    for row in AROUND if url else ():
        if given[row.name]:
            raise TapeError(f"{row.name} needs a command; the server at {hidden(url or '')} is not started by mcp-tape")


def _to_play(settings: Settings, *, can_record: bool) -> Cassette | None:
    """Open the cassette to play it; None if it must be recorded.

    A recording without a request plays like any other, except with `once`, which records the requests now.
    """
    path, mode = settings.path, settings.mode
    if mode not in ("none", "once"):
        return None
    cassette = modes.opened(path, settings.replay.label)
    if cassette is not None:
        with contextlib.ExitStack() as failing:
            failing.enter_context(cassette)
            if modes.holds_whole(cassette, say) if mode == "once" and can_record else modes.holds_closed(cassette):
                if settings.replay.session.isdecimal():
                    cassette.session(int(settings.replay.session))
                failing.pop_all()
                return cassette
    if mode == "none":
        what = "nothing" if settings.replay.label is None else f"nothing of the server {settings.replay.label!r}"
        raise CassetteError(f"{path} has {what} to play, and mode none records nothing")
    return None


def _check_live(settings: Settings, mode: modes.Mode, blocked: bool) -> None:
    if not settings.command and not settings.web.url:
        raise TapeError(f"mode {mode} needs the live server for {settings.path}: give its command or its url")
    if "${" in settings.web.url:
        raise TapeError(f"the URL {hidden(settings.web.url)} names a variable that is not set; it is needed to record")
    if blocked:
        discreet = Discreet(Rules(environ=os.environ))
        server = discreet.text(settings.web.url) or discreet.command(settings.command)
        raise TapeError(f"live servers are blocked, and mode {mode} would talk to {server} for {settings.path}")

"""`use_cassette`: its keywords, their checks, and the resulting mode."""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import tempfile
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from .. import api, modes
from ..cassette import schema
from ..console import say
from ..errors import CassetteError, TapeError
from ..options import AROUND, MODE, REDACT, REPLAYING, USE, Option, OptionValues, is_given
from ..redaction.diagnostics import DiagnosticRedactor, Rules, hide_secrets
from ..replay.faults import ONLY_LOGIN
from ..replay.faults import parse_fault as parse_fault
from ..values import check_variable, variable
from .used import Inexact, Miss, UsedCassette, UseSettings

if TYPE_CHECKING:
    from ..cassette.reader import Cassette
    from ..redaction.environment import Pairs
    from ..replay.faults import Chooser
    from ..replay.finder import Compare, Repeats
    from .entries import ConfiguredServer

__all__ = ["Inexact", "Miss", "UsedCassette", "use_cassette"]


class UserFunctions(NamedTuple):
    """Functions that keywords take beside texts: `Option.functions` has the field of each."""

    rules: tuple[Compare, ...] = ()
    normalizers: tuple[Callable[[Any], Any], ...] = ()
    choosers: tuple[Chooser, ...] = ()
    redactions: tuple[Callable[[str], str], ...] = ()


def use_cassette(
    path: str | os.PathLike[str] = "",
    mode: modes.Mode = "once",
    *,
    stubs: Sequence[Mapping[str, Any]] | None = None,
    lock: str | os.PathLike[str] | None = None,
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
    auth: bool = False,
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
    `redactions` gets a text and returns it without its secrets. `stubs` are calls with their answers, in place of a
    cassette, and `lock` is a lock with their tools.
    """
    given = dict(locals())  # before another name is bound
    if given.pop("stubs") is not None or lock is not None:
        return _use_stubs(stubs, **given)
    del given["lock"]
    if not path:
        raise TapeError("which cassette? Give its path, or stubs=[…]")
    if isinstance(command, str):
        raise TapeError(f"the command must be a list of words, as in {command.split()!r}")
    path, (values, functions) = os.fspath(path), _check_keywords(given)
    if servers is not None:
        if command or url:
            raise TapeError(f"either servers or {'command' if command else 'url'}, not both")
        return use_servers(path, values, servers, functions, block_live=block_live)
    settings = _settings(_absolute_path(path), values, functions, command)
    opened = _open_to_play(settings, can_record=not block_live and bool(command or url))
    if opened is not None:
        from .playing import PlayingTape

        return PlayingTape(settings._replace(mode="none"), opened)
    from .recorders import RecordingTape

    return RecordingTape(_live_settings(settings, block_live))


def _use_stubs(
    stubs: Sequence[Mapping[str, Any]] | None,
    *,
    path: str | os.PathLike[str],
    lock: str | os.PathLike[str] | None,
    mode: modes.Mode,
    **keywords: Any,
) -> UsedCassette:
    """A tape that plays stubs, from a file that lasts as long as the tape: given, or those of the file at a path."""
    from ..formats.stubs import is_stubs, lines_of

    if stubs is None and not (os.fspath(path) and is_stubs(os.fspath(path))):
        raise TapeError(f"lock goes with stubs, and {os.fspath(path) or 'no path'} is no file of these")
    directory = tempfile.mkdtemp(prefix="mcp-tape-stubs-")
    remove = functools.partial(shutil.rmtree, directory, ignore_errors=True)
    try:
        file = os.path.join(directory, "stubs.jsonl")
        with open(file, "w", encoding="utf-8") as out:
            out.writelines(f"{line}\n" for line in lines_of(stubs if stubs is not None else os.fspath(path), lock))
        tape = use_cassette(file, "none", **keywords)
    except BaseException:
        remove()
        raise
    weakref.finalize(tape, remove)
    return tape


def _absolute_path(path: str) -> str:
    """An absolute path, or the name of a URL."""
    if not schema.is_url(path):
        return schema.absolute(path)
    from ..fleet.stores import safe_name  # only for remote cassettes

    return safe_name(path)


def use_servers(
    path: str,
    values: OptionValues,
    servers: Mapping[str, Any],
    functions: UserFunctions | None = None,
    *,
    block_live: bool = False,
) -> UsedCassette:
    """A tape of several servers: each plays, or records into a common file."""
    from .entries import read_entries
    from .group import TapeGroup
    from .playing import PlayingTape
    from .recorders import RecordingTape

    path, entries, functions = _absolute_path(path), read_entries(servers), functions or UserFunctions()
    common = _settings(path, values, functions)
    several = {
        name: _settings(path, _values_for_server(values, server, name), functions, server.command)
        for name, server in ((name, entry.expand(os.environ)) for name, entry in entries.items())
    }
    doors: dict[str, UsedCassette] = {}
    with contextlib.ExitStack() as failing:
        for name, settings in several.items():
            opened = _open_to_play(settings, can_record=not block_live)
            if opened is not None:
                doors[name] = PlayingTape(settings._replace(mode="none"), opened)
                failing.callback(doors[name].finish, keep=False)
        live = {name: _live_settings(settings, block_live) for name, settings in several.items() if name not in doors}
        file = None
        if live:
            first, *others = {settings.mode for settings in live.values()}
            common = common._replace(mode="new_episodes" if others else first)
            file = RecordingTape(common, labels=list(live))
            failing.callback(file.finish, keep=False)
            doors |= {name: RecordingTape(settings, file) for name, settings in live.items()}
        else:
            common = common._replace(mode="none")
        failing.pop_all()
    return TapeGroup(common, {name: doors[name] for name in entries}, entries, file)


def _values_for_server(values: OptionValues, server: ConfiguredServer, label: str) -> OptionValues:
    """The values for one of several servers: those of its entry, and the common ones."""
    values = values._replace(label=label, url=server.url)
    if server.url:
        return values._replace(headers=_merge(values.headers, server.headers), env=(), env_from=(), cwd=None)
    cwd = values.cwd if not server.cwd else os.path.abspath(server.cwd)
    return values._replace(headers=(), env=_merge(values.env, dict(_variables(server.env))), cwd=cwd)


def _merge(pairs: Pairs, others: Mapping[str, str]) -> Pairs:
    return tuple((dict(pairs) | dict(others)).items())


def _settings(path: str, values: OptionValues, functions: UserFunctions, command: Sequence[str] = ()) -> UseSettings:
    if command and values.url:
        raise TapeError(f"either the command {command[0]} or the URL {hide_secrets(values.url)}, not both")
    for row in AROUND if values.url else ():
        if is_given(row, values):
            where = hide_secrets(values.url or "")
            raise TapeError(f"{row.name} needs a command; the server at {where} is not started by mcp-tape")
    for source in values.faults:
        if not values.auth and parse_fault(source).kind in ONLY_LOGIN:
            raise TapeError(f"the fault {source} is for a server that needs a login: add auth=True, and use the URL")
    web = api.Web(url=values.url or "", headers=values.headers, cacert=values.cacert)
    replay = api.replay_options(values)._replace(
        rules=functions.rules,
        normalizers=functions.normalizers,
        choosers=functions.choosers,
        redactions=functions.redactions,
    )
    return UseSettings(path, values.mode, tuple(command), web, replay, values)


def _live_settings(settings: UseSettings, blocked: bool) -> UseSettings:
    """The settings of a tape that records, if that is allowed."""
    mode, label = settings.mode, settings.replay.label
    schema.expect_local(settings.path)
    _check_live(settings, mode, blocked)
    is_first = mode == "once" or (mode == "new_episodes" and not modes.can_play(settings.path, label))
    return settings._replace(mode="all") if is_first else settings


def _check_keywords(keywords: Mapping[str, Any]) -> tuple[OptionValues, UserFunctions]:
    """Check keywords. Return the values as of a command line, and functions separately."""
    given = {row.name: keywords[row.name] for row in USE if row.keyword == row.name}
    given["headers"] = tuple((keywords["headers"] or {}).items())
    given["env"] = _variables(keywords["env"] or {})
    given["cwd"] = None if keywords["cwd"] is None else os.path.abspath(keywords["cwd"])
    given["no_redact"] = not keywords["redact"]
    functions: dict[str, Any] = {"redactions": tuple(keywords["redactions"])}
    for row in (MODE, *AROUND, *REPLAYING, *REDACT):
        if row.name in given:
            given[row.name] = _check_value(row, given[row.name])
        if row.functions:
            functions[row.functions] = tuple(each for each in given[row.name] if not isinstance(each, str))
            given[row.name] = tuple(each for each in given[row.name] if isinstance(each, str))
    return OptionValues(**given), UserFunctions(**functions)


def _check_value(row: Option, value: Any) -> Any:
    """Refuse at once what would otherwise fail when a client connects, perhaps in another thread or process."""
    if isinstance(row.kind, tuple):
        if value not in row.kind and (value, row.default) != (None, None):
            raise TapeError(f"there is no {row.name} {value!r}: choose one of {', '.join(row.kind)}")
    elif row.kind == "number" and not value >= 0:
        raise TapeError(f"{row.name} {value} is less than 0")
    elif row.multiple or row.parse:
        return _check_list(row, value)
    elif row.check:
        value = str(value)
        _check_source(row, value, row.name)
    return value


def _variables(env: Mapping[Any, Any]) -> Pairs:
    return tuple(_variable(name, value) for name, value in env.items())


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


def _check_list(row: Option, value: Any) -> tuple[Any, ...]:
    if row.check and isinstance(value, str) and not row.may_be_one:
        raise TapeError(f"{value!r} must be in a list")
    values = (value,) if isinstance(value, str) and row.may_be_one else tuple(value)
    what = f"no {row.noun}" if row.noun else f"nothing for {row.name}"
    for source in values if row.check else ():
        if isinstance(source, str) or not row.functions:
            _check_source(row, source, f"{source!r} is {what}:")
        elif not callable(source):
            raise TapeError(f"{source!r} is neither a text nor a function")
    return values


def _check_source(row: Option, source: str, refused: str) -> None:
    try:
        row.check_text(source)
    except (ValueError, TypeError) as error:
        raise TapeError(f"{refused} {error.__cause__ or error}") from None


def _open_to_play(settings: UseSettings, *, can_record: bool) -> Cassette | None:
    """Open the cassette to play it; None if it must be recorded.

    A recording without a request plays like any other, except with `once`, which records the requests now.
    """
    path, mode = settings.path, settings.mode
    if mode not in ("none", "once"):
        return None
    cassette = modes.open_existing(path, settings.replay.label)
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


def _check_live(settings: UseSettings, mode: modes.Mode, blocked: bool) -> None:
    if not settings.command and not settings.web.url:
        raise TapeError(f"mode {mode} needs the live server for {settings.path}: give its command or its url")
    if "${" in settings.web.url:
        raise TapeError(
            f"the URL {hide_secrets(settings.web.url)} names a variable that is not set; it is needed to record"
        )
    if blocked:
        discreet = DiagnosticRedactor(Rules(environ=os.environ))
        server = discreet.text(settings.web.url) or discreet.command(settings.command)
        raise TapeError(f"live servers are blocked, and mode {mode} would talk to {server} for {settings.path}")

"""Settings of a test's tape: their precedence, their checks, and the path of the cassette."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import pytest

from ..cassette.schema import is_remote
from ..options import FORMATS, LEVELS, MODES, USE

_LONGEST = 80  # characters of a file's name, before its ending
_DIRECTORY = "cassettes"
_DEFAULTS = {"mode": "none", "unplayed": "ignore", "inexact": "ignore", "block_live": False, "format": "db"}
_INI = {
    "mode": "mcp_record", "unplayed": "mcp_unplayed", "inexact": "mcp_inexact", "block_live": "mcp_block_live",
    "dir": "mcp_tape_dir", "format": "mcp_tape_format",
}  # fmt: skip
# Each gives the live server, or several.
_LIVE = {"server": "command", "command": "command", "url": "url", "servers": "servers"}
_OUTER = (pytest.Session, pytest.Directory, pytest.File)
_REPETITION = "__pytest_repeat_step_number"
_OURS = {"name", "dir", "format", "unplayed", "inexact", "live"}  # not keywords of use_cassette
_KEYWORDS = {row.keyword for row in USE if row.keyword} | {"block_live", "stubs", "lock"}  # keywords of use_cassette


class Setting(NamedTuple):
    value: Any
    source: str


class TapeSettings(NamedTuple):
    """Settings of one tape."""

    name: str | None
    directory: Setting
    format: str
    unplayed: str
    inexact: str
    mode: str
    has_server: bool  # whether a live server is given, or several
    labels: tuple[str | None, ...]  # the names of several servers; None stands for the only one
    keywords: Mapping[str, Any]  # of use_cassette: all that its user gave, and the mode


def resolve(name: str, config: pytest.Config, marks: Sequence[dict[str, Any]], configured: dict[str, Any]) -> Setting:
    """Resolve a setting: command line, nearest mark, farther marks, config fixture, ini, default."""
    ini = _INI.get(name)
    given = config.getoption(f"--{ini.replace('_', '-')}") if ini else None
    if given is not None:
        return Setting(given, "command line")
    for number, mark in enumerate(marks):
        if mark.get(name) is not None:
            return Setting(mark[name], "farther mark" if number else "nearest mark")
    if configured.get(name) is not None:
        return Setting(configured[name], "mcp_tape_config")
    if ini and config.getini(ini) not in (None, ""):
        return Setting(config.getini(ini), "ini")
    return Setting(_DEFAULTS.get(name), "default")


def describe_settings(config: pytest.Config) -> str:
    """Describe the settings of all tests, and their sources."""
    words = {"mode": "record", "block_live": "block live", "dir": "tapes in"}
    settings = {name: resolve(name, config, (), {}) for name in _INI}
    said = {name: s for name, s in settings.items() if name != "format" or s.source != "default"}
    shown = [(words.get(name, name), s) for name, s in said.items() if s.value not in (None, False)]
    return ", ".join(f"{word}{'' if s.value is True else f' {s.value}'} ({s.source})" for word, s in shown)


def resolve_tape(config: pytest.Config, marks: Iterable[dict[str, Any]], configured: dict[str, Any]) -> TapeSettings:
    """Resolve and check all settings of one tape."""
    near = [_merge_live(mark) for mark in marks]
    far = _merge_live(configured)
    names = {*_DEFAULTS, "name", "dir", *(name for given in (*near, far) for name in given)}
    chosen = {name: resolve(name, config, near, far) for name in names}
    _check(chosen)
    live = chosen["live"].value if "live" in chosen else {}
    others = {name: setting.value for name, setting in chosen.items() if name not in _OURS}
    keywords = {name: value for name, value in (others | live).items() if value is not None}
    name, given_form = (None, None) if chosen["name"].value is None else _split(chosen["name"].value)
    return TapeSettings(
        name,
        chosen["dir"],
        given_form or chosen["format"].value,
        chosen["unplayed"].value,
        chosen["inexact"].value,
        chosen["mode"].value,
        bool(live),
        tuple(servers) if isinstance(servers := live.get("servers"), Mapping) else (None,),
        keywords,
    )


def marks_of(item: pytest.Item) -> list[dict[str, Any]]:
    """Arguments of a test's marks, nearest first."""
    return [_mark_arguments(mark) for mark in item.iter_markers("mcp_tape")]


def name_of(item: pytest.Item) -> str | None:
    """The name that a test's marks give to its cassette."""
    names = (mark.args[0] if mark.args else mark.kwargs.get("name") for mark in item.iter_markers("mcp_tape"))
    return next((_split(name)[0] for name in names if name is not None), None)


def place_of(item: pytest.Item | None, config: pytest.Config, directory: Setting) -> Path:
    """The directory of a test's cassettes or, without a test, of shared ones."""
    if directory.value:
        here = config.invocation_params.dir if directory.source == "command line" else config.rootpath
        return Path(os.path.normpath(here / directory.value))
    return (item.path.parent if item else config.rootpath) / _DIRECTORY


def path_of(item: pytest.Item, place: Path, want: TapeSettings) -> Path | str:
    if want.name is not None:
        return path_for_name(place, want.name, want.format)
    test, bracket, parameters = "::".join(_names(item)).partition("[")
    # In a common directory, test files with the same name must not collide.
    above = os.path.relpath(item.path.parent, item.config.rootpath) if want.directory.value else ""
    folders = [part for part in Path(above).parts if part != ".."]
    name = safe_name(test.replace("::", ".") + bracket + parameters)
    return place.joinpath(*folders, item.path.stem, f"{name}.{want.format}")


def id_of(item: pytest.Item) -> str:
    """The argument that makes pytest run this test from its start directory. (xdist may extend the test's own id.)"""
    return "::".join([os.path.relpath(item.path, item.config.invocation_params.dir), *_names(item)])


def _names(item: pytest.Item) -> list[str]:
    *classes, _ = (node.name for node in item.listchain() if not isinstance(node, _OUTER))
    return [*classes, _name(item)]


def _name(item: pytest.Item) -> str:
    """A test's name without the number that pytest-repeat adds: all repetitions are one test."""
    callspec = getattr(item, "callspec", None)
    step = callspec.params.get(_REPETITION) if callspec else None
    if not isinstance(step, int):
        return item.name
    return re.sub(rf"(\[|-){step + 1}-\d+\]$", lambda found: "]" if found[1] == "-" else "", item.name)


def path_for_name(place: Path, name: str, form: str) -> Path | str:
    """The path for a name; a URL is unchanged."""
    return name if is_remote(name) else Path(os.path.normpath(place / f"{name}.{form}"))


def _split(name: object) -> tuple[str, str | None]:
    """A name without the ending of a cassette, and the format of that ending."""
    text = str(name)
    if is_remote(text):
        return text, None
    given = next((form for form in FORMATS if text.endswith(f".{form}")), None)
    return text.removesuffix(f".{given}"), given


def safe_name(text: str) -> str:
    """A file name made from a test's id: safe everywhere, bounded, and unique to the id."""
    safe = re.sub(r"[^\w.\[\]=,+-]+", "-", text, flags=re.ASCII).strip("-.")
    parameters = text.partition("[")[2]
    # On a case-insensitive file system, [GET] and [get] would collide.
    if safe == text and len(safe) <= _LONGEST and parameters == parameters.lower():
        return safe
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{safe[: _LONGEST - 9].rstrip('-.')}-{digest}"


def refuse(why: str) -> NoReturn:
    """Fail the current test, without a traceback through the plugin."""
    pytest.fail(why, pytrace=False)


def _mark_arguments(mark: pytest.Mark) -> dict[str, Any]:
    if len(mark.args) > 1:
        refuse(f"the marker mcp_tape takes one name, not {len(mark.args)}: {', '.join(map(repr, mark.args))}")
    return dict(mark.kwargs) | ({"name": mark.args[0]} if mark.args else {})


def _merge_live(given: Any) -> dict[str, Any]:
    """Put the live server under one name: a command or a URL replaces either of a farther source."""
    if not isinstance(given, dict):
        refuse(f"the fixture mcp_tape_config must give a dict, not {given!r}")
    live = {_LIVE[name]: value for name, value in given.items() if name in _LIVE and value is not None}
    rest = {name: value for name, value in given.items() if name not in _LIVE}
    return rest | ({"live": live} if live else {})


def _check(chosen: dict[str, Setting]) -> None:
    known = {*_KEYWORDS, *_OURS, *_LIVE}
    unknown = sorted(chosen.keys() - known)
    if unknown:
        refuse(f"mcp_tape has no option {', '.join(unknown)}; it has {', '.join(sorted(known - {'live'}))}")
    if not isinstance(chosen["name"].value, str | os.PathLike | None):
        refuse(f"the name of a cassette is a text, not {chosen['name'].value!r}")
    if is_remote(str(chosen["dir"].value)):
        refuse(f"dir is {chosen['dir'].value!r}, which is not a directory; give each remote cassette's URL as its name")
    for name, choices in (("mode", MODES), ("unplayed", LEVELS), ("inexact", LEVELS), ("format", FORMATS)):
        value, source = chosen[name]
        if value not in choices:
            refuse(f"{name} is {value!r} ({source}); it may be one of {', '.join(choices)}")

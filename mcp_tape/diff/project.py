"""A project's settings: `[tool.mcp-tape]` in its pyproject.toml, and its `.mcp-tape-ignore`."""

from __future__ import annotations

import difflib
import errno
import os
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Literal, NamedTuple, get_args

from ..compare.judging import Comparison, Ignores, JudgingSettings, added_lines, parse_ignores
from ..compare.rule_table import CATEGORIES, LEVELS, RULES, Category, Level
from ..errors import SettingsError
from ..wire.jsonpath import JsonPath

IGNORE_FILE = ".mcp-tape-ignore"
FailOn = Literal["error", "warn", "info", "never"]
_OFF = "off"
_LARGEST = 16 << 20  # bytes of a file that people write


class Project(NamedTuple):
    """The settings of a project. `ignore_path`: where its ignore file is, or would be."""

    category: Category = "call"
    fail_on: FailOn = "error"
    levels: Mapping[str, Level | None] = {}  # None: not at all
    ignore_paths: tuple[str, ...] = ()
    ignores: Ignores = Ignores(())
    ignore_path: str = IGNORE_FILE

    def settings(self, slower_than: float | None = None) -> JudgingSettings:
        return JudgingSettings(self.category, self.levels, self.ignores, self.ignore_paths, slower_than)

    def fails(self, comparison: Comparison) -> bool:
        """Return whether a change is at or above the level that fails."""
        return self.fail_on != "never" and bool(comparison.at_least(self.fail_on))


def working_directory() -> str:
    try:
        return os.getcwd()
    except FileNotFoundError:
        raise SettingsError("the working directory is gone; change to one that exists, then try again") from None


def load(
    directory: str, *, category: Category | None = None, fail_on: FailOn | None = None, ignore_paths: Iterable[str] = ()
) -> Project:
    """Read the settings that hold in a directory. Options of a command win, or are added."""
    project = _find_settings(directory)
    where = _ignore_path(directory)
    return project._replace(
        category=category or project.category,
        fail_on=fail_on or project.fail_on,
        ignore_paths=(*project.ignore_paths, *ignore_paths),
        ignores=parse_ignores(_read(where), _near_path(where)),
        ignore_path=where,
    )


def ignore(path: str, lines: Iterable[tuple[str, str]]) -> None:
    """Append lines, each with its reason, to an ignore file, except lines that it has already.

    Appends with one write: lines that other processes append stay, and no process reads half a line.
    """
    more = added_lines(_read(path), lines)
    if not more:
        return
    try:
        with open(path, "ab", buffering=0) as file:
            file.write(more.encode())
    except OSError as error:
        raise SettingsError(f"{_near_path(path)} cannot be written: {error.strerror}") from None


def _ignore_path(directory: str) -> str:
    """The nearest ignore file up to the top of the project; without one, its path at the top, or here."""
    top = directory
    for place in _upwards(directory):
        if os.path.isfile(os.path.join(place, IGNORE_FILE)):
            return os.path.join(place, IGNORE_FILE)
        if _has(place, ".git") or _has(place, "pyproject.toml"):
            top = place
            break
    return os.path.join(top, IGNORE_FILE)


def _find_settings(directory: str) -> Project:
    """Read the nearest pyproject.toml within the repository."""
    for place in _upwards(directory):
        if _has(place, "pyproject.toml"):
            return _from_file(os.path.join(place, "pyproject.toml"))
        if _has(place, ".git"):
            break
    return Project()


def _upwards(directory: str) -> Iterator[str]:
    place = os.path.abspath(directory)
    yield place
    while (above := os.path.dirname(place)) != place:
        place = above
        yield place


def _has(place: str, name: str) -> bool:
    return os.path.exists(os.path.join(place, name))


def read_file(path: str) -> bytes:
    """Read a file that people write. Raises OSError for a file that is too large, and for a pipe or a device.

    The project may not be trusted, and a pipe may have no end.
    """
    if not stat.S_ISREG(os.stat(path).st_mode):  # opening a pipe would wait for a writer
        raise OSError(errno.EINVAL, "it is not a regular file", path)
    with open(path, "rb") as file:
        data = file.read(_LARGEST + 1)
    if len(data) > _LARGEST:
        raise OSError(errno.EFBIG, f"it has more than {_LARGEST >> 20} MiB", path)
    return data


def _read(path: str) -> str:
    try:
        return read_file(path).decode("utf-8-sig")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        why = (error.strerror or error) if isinstance(error, OSError) else "it is not UTF-8"
        raise SettingsError(f"{_near_path(path)} cannot be read: {why}") from None


def _near_path(path: str) -> str:
    """A path as seen from the working directory, unless that is far away."""
    near = os.path.relpath(path)
    return path if near.startswith(os.path.join("..", "..", "..")) else near


def _from_file(path: str) -> Project:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib

    try:
        value = tomllib.loads(_read(path))
    except (ValueError, RecursionError) as error:  # also a number of thousands of digits, and endless nesting
        raise SettingsError(f"{_near_path(path)} is not TOML: {error}") from None
    tool = value.get("tool", {})
    table = tool.get("mcp-tape", {}) if isinstance(tool, dict) else {}
    try:
        return Project(**_parse_table(table))
    except ValueError as error:
        raise SettingsError(f"{_near_path(path)}, {error}") from None


def _parse_table(table: Any) -> dict[str, Any]:
    if not isinstance(table, dict):
        raise ValueError(f"[tool.mcp-tape] is a table, not {table!r}")
    chosen = {}
    for key, value in table.items():
        if key not in _KEYS:
            raise ValueError(f"[tool.mcp-tape] has no {_wrong(key, _KEYS)}")
        chosen[key.replace("-", "_")] = _KEYS[key](key, value)
    return chosen


def _one_of(*allowed: str) -> Callable[[str, Any], str]:
    def check(key: str, value: Any) -> str:
        if value not in allowed:
            raise ValueError(f"[tool.mcp-tape] {key} = {value!r}: it may be one of {', '.join(allowed)}")
        return str(value)

    return check


def _paths(key: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(path, str) for path in value):
        raise ValueError(f'[tool.mcp-tape] {key} is a list of JSONPaths, as in ["$.result.uptime"], not {value!r}')
    for path in value:
        try:
            JsonPath(path)
        except ValueError as error:
            raise ValueError(f"[tool.mcp-tape] {key}: {error}") from None
    return tuple(value)


def _levels(key: str, value: Any) -> dict[str, str | None]:
    if not isinstance(value, dict):
        raise ValueError(f"[tool.mcp-tape.levels] is a table of rules and levels, not {value!r}")
    for rule, level in value.items():
        if rule not in RULES:
            raise ValueError(
                f"[tool.mcp-tape.levels] knows no {_wrong(rule, RULES, 'the rules: mcp-tape diff --rules')}"
            )
        if level not in (*LEVELS, _OFF):
            allowed = ", ".join((*LEVELS, _OFF))
            raise ValueError(f"[tool.mcp-tape.levels] {rule} = {level!r}: it may be one of {allowed}")
    return {rule: None if level == _OFF else level for rule, level in value.items()}


def _wrong(given: str, known: Iterable[str], where: str = "") -> str:
    """An unknown word, the likeliest correction, and the words that are known."""
    names = list(known)
    near = difflib.get_close_matches(given, names, 1)
    meant = f"; did you mean {near[0]}?" if near else ""
    return f"{given!r}{meant} ({where or 'it may have ' + ', '.join(names)})"


_KEYS: dict[str, Callable[[str, Any], Any]] = {
    "category": _one_of(*CATEGORIES),
    "fail-on": _one_of(*get_args(FailOn)),
    "ignore-paths": _paths,
    "levels": _levels,
}

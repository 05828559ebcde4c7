"""What the pytest plugin does with tapes: which one a test has, how it is used, and what is to be said of it."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from . import use_cassette
from .errors import TapeError
from .using import Miss, UsedCassette

_LONGEST = 80  # characters of a file's name, before its ending
_DIRECTORY = "cassettes"
_DEFAULTS = {"mode": "none", "unplayed": "ignore", "block_live": False}
_INI = {"mode": "mcp_record", "unplayed": "mcp_unplayed", "block_live": "mcp_block_live", "dir": "mcp_tape_dir"}
_MOST = 10  # unplayed requests that are told one by one


class Setting(NamedTuple):
    value: Any
    source: str


def resolve(name: str, config: pytest.Config, marks: Sequence[dict[str, Any]], configured: dict[str, Any]) -> Setting:
    """The one precedence: command line, nearest mark, farther marks, config fixture, ini, default."""
    ini = _INI.get(name)
    given = config.getoption(f"--{ini.replace('_', '-')}") if ini else None
    if given is not None:
        return Setting(given, "command line")
    for mark in marks:
        if mark.get(name) is not None:
            return Setting(mark[name], "mark")
    if configured.get(name) is not None:
        return Setting(configured[name], "mcp_tape_config")
    if ini and config.getini(ini) not in (None, ""):
        return Setting(config.getini(ini), "ini")
    return Setting(_DEFAULTS.get(name), "default")


class TapeWarning(UserWarning):
    """Something about a tape that fails no test."""


class _Use:
    """One test's use of a tape, or that of all tests that have one from the factory."""

    def __init__(self, tape: UsedCassette, unplayed: str) -> None:
        self.tape = tape
        self.unplayed = unplayed
        self._seen = 0

    def new_misses(self) -> list[Miss]:
        """Those that were not told of before."""
        new = self.tape.misses[self._seen :]
        self._seen += len(new)
        return new


class _Kept:
    """A cassette that several tests record: all of them must pass for it to be kept."""

    def __init__(self, tape: UsedCassette) -> None:
        self.tape = tape
        self.tests: set[str] = set()


class Tapes:
    """The tapes of one pytest run."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._of_test: dict[str, _Use] = {}
        self._of_factory: list[_Use] = []
        self._kept: dict[str, _Kept] = {}
        self._locks: dict[str, Any] = {}
        self._failed: set[str] = set()
        self._places: set[Path] = set()
        self.used: set[str] = set()

    def header(self) -> str:
        settings = {name: resolve(name, self._config, (), {}) for name in ("mode", "unplayed", "block_live", "dir")}
        words = {"mode": "record", "block_live": "block live"}
        shown = [(name, setting) for name, setting in settings.items() if setting.value not in (None, False)]
        return "mcp-tape: " + ", ".join(f"{words.get(n, n)} {s.value} ({s.source})" for n, s in shown)

    # -- for tests

    def of_test(self, item: pytest.Item, configured: dict[str, Any]) -> Iterator[UsedCassette]:
        """The tape of a test, until that ends."""
        marks = [_given(mark) for mark in item.iter_markers("mcp_tape")]
        name = next((mark["name"] for mark in marks if mark.get("name")), None)
        path = self._path(item, name, resolve("dir", self._config, marks, configured).value)
        options = self._options(marks, configured)
        unplayed = options.pop("unplayed")
        tape = self._open(path, options, item.nodeid, is_shared=name is not None)
        self._of_test[item.nodeid] = _Use(tape, unplayed)
        yield tape
        del self._of_test[item.nodeid]
        tape.finish(keep=item.nodeid not in self._failed)
        if name is None:
            self._unlock(path)

    def factory(self) -> Iterator[Callable[..., UsedCassette]]:
        """What makes tapes for several tests: those that have it, directly or through other fixtures."""

        def make(name: str, *, directory: str | os.PathLike[str] | None = None, **given: Any) -> UsedCassette:
            options = self._options([given], {})
            unplayed = options.pop("unplayed")
            place = self._config.rootpath / (directory or resolve("dir", self._config, (), {}).value or _DIRECTORY)
            self._places.add(place)
            tape = self._open(_named(place, name), options, name, is_shared=True)
            self._of_factory.append(_Use(tape, unplayed))
            return tape

        yield make
        for use in self._of_factory:
            _check_unplayed(use, None)
            use.tape.finish(keep=True)
        self._of_factory.clear()

    def check(self, item: pytest.Item) -> None:
        """Fail a test whose calls were not on its tape, or that did not make all of those that are."""
        own = self._of_test.get(item.nodeid)
        shared = self._of_factory if _has_factory(item) else []
        for use in [*([own] if own else []), *shared]:
            misses = use.new_misses()
            if misses:
                item.add_report_section("call", "mcp-tape", "\n\n".join(miss.report for miss in misses))
                calls = ", ".join(dict.fromkeys(_shown(miss.call) for miss in misses))
                pytest.fail(f"{len(misses)} calls of this test missed on {use.tape.path}: {calls}", pytrace=False)
        if own is not None:
            _check_unplayed(own, item)

    def ended(self, item: pytest.Item, failed: bool) -> None:
        if failed:
            self._failed.add(item.nodeid)
        if _has_factory(item):
            for use in self._of_factory:
                if use.tape.path in self._kept:
                    self._kept[use.tape.path].tests.add(item.nodeid)

    def finish(self) -> None:
        """The run is over: what was recorded for several tests is kept if all of them passed."""
        for path, kept in self._kept.items():
            kept.tape.finish(keep=not kept.tests & self._failed)
            self._unlock(path)
        self._kept.clear()

    def list_orphans(self, reporter: Any) -> None:
        """The cassettes in the places of tests that ran which none of them used."""
        found = {str(path) for place in self._places for path in place.rglob("*.db")}
        orphans = sorted(found - self.used)
        reporter.section("mcp-tape: cassettes that no test has used")
        for path in orphans:
            reporter.line(os.path.relpath(path, self._config.rootpath))
        reporter.line(f"{len(orphans)} of {len(found)}")

    # -- how

    def _options(self, marks: Sequence[dict[str, Any]], configured: dict[str, Any]) -> dict[str, Any]:
        names = {*_DEFAULTS, *(name for given in (*marks, configured) for name in given)} - {"name", "dir"}
        chosen = {name: resolve(name, self._config, marks, configured).value for name in names}
        options = {name: value for name, value in chosen.items() if value is not None}
        if "server" in options:
            options["command"] = options.pop("server")
        return options

    def _path(self, item: pytest.Item, name: str | None, directory: str | None) -> Path:
        place = self._config.rootpath / directory if directory else item.path.parent / _DIRECTORY
        self._places.add(place)
        if name is not None:
            return _named(place, name)
        own = item.nodeid.partition("::")[2].replace("::", ".")
        return place / item.path.stem / f"{safe_name(own)}.db"

    def _open(self, path: Path, options: dict[str, Any], who: str, *, is_shared: bool) -> UsedCassette:
        """A tape in use. Of one that several tests record, each records its part."""
        key = str(path)
        self.used.add(key)
        if key in self._kept:
            self._kept[key].tests.add(who)
            return self._kept[key].tape.another()
        if is_shared:
            options = {"session": "all"} | options
        tape = _used(path, options, who)
        if not tape.is_recording:
            return tape
        self._lock(path)
        if not is_shared:
            return tape
        self._kept[key] = _Kept(tape)
        self._kept[key].tests.add(who)
        return tape.another()

    def _lock(self, path: Path) -> None:
        """Two processes that record one cassette would each throw the other's away."""
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = open(f"{path}.lock", "w")  # noqa: SIM115 - held until the recording is done
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.close()
            pytest.fail(
                f"{path} is being recorded by another process at this moment; tests that record one cassette must run "
                "in one: without -n, or with --dist loadgroup and one xdist_group for them",
                pytrace=False,
            )
        self._locks[str(path)] = lock

    def _unlock(self, path: Path | str) -> None:
        lock = self._locks.pop(str(path), None)
        if lock is not None:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(lock.name)
            lock.close()


def _used(path: Path, options: dict[str, Any], who: str) -> UsedCassette:
    try:
        return use_cassette(path, **options)
    except (TapeError, ValueError) as error:
        why = f"{error}\n{_advice(who, options)}"
    pytest.fail(why, pytrace=False)


def _check_unplayed(use: _Use, item: pytest.Item | None) -> None:
    left = use.tape.unplayed if use.unplayed != "ignore" else []
    if not left:
        return
    lines = [f"#{call.seq} {_shown(call)}" for call in left[:_MOST]]
    lines += [f"and {len(left) - _MOST} more"] if len(left) > _MOST else []
    text = f"{len(left)} recorded requests were not made on {use.tape.path}: {'; '.join(lines)}"
    if use.unplayed != "error":
        warnings.warn(TapeWarning(text), stacklevel=2)
        return
    if item is not None:
        item.add_report_section("call", "mcp-tape", "\n".join(lines))
    pytest.fail(text, pytrace=False)


def _has_factory(item: pytest.Item) -> bool:
    return "mcp_tape_factory" in getattr(item, "fixturenames", ())


def _given(mark: pytest.Mark) -> dict[str, Any]:
    return dict(mark.kwargs) | ({"name": mark.args[0]} if mark.args else {})


def safe_name(text: str) -> str:
    """A file's name made from a test's id: safe everywhere, bounded, and another for another id."""
    safe = re.sub(r"[^\w.\[\]=,+-]+", "-", text, flags=re.ASCII).strip("-.")
    if safe == text and len(safe) <= _LONGEST:
        return safe
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{safe[: _LONGEST - 9].rstrip('-.')}-{digest}"


def _named(place: Path, name: str) -> Path:
    path = place / (name if name.endswith(".db") else f"{name}.db")
    return Path(os.path.normpath(path))


def _shown(call: Any) -> str:
    return " ".join(filter(None, (call.method, call.name)))


def _advice(who: str, options: dict[str, Any]) -> str:
    if options.get("mode") == "none":
        return f"To record it: pytest '{who}' --mcp-record=once"
    return "Give the live server to the marker or to mcp_tape_config: server=[...] or url=..."

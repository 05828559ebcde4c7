"""diff_one: compares two recordings of a server, or one with a live server; and the pairs of two directories.

Settings are plain values, with the directory of their project: loaded objects can't be passed to other processes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from ...cassette.schema import is_remote, is_url
from ...compare.judging import Comparison, JudgingSettings, UnknownPart
from ...compare.rule_table import CATEGORIES, LEVELS, RULES, Category
from ...compare.versions import PARTS, ComparisonPart, Version, compare
from ...diff.base import RevisionMatches, reference
from ...diff.project import FailOn, Project, load
from ...diff.sources import Sides, parse, sides
from ...diff.surveys import LiveTarget
from ...errors import CassetteError
from ...redaction.diagnostics import DiagnosticRedactor, Rules
from ..cassette_paths import find_below, is_directory, printable_place
from .results import Result, count_levels, findings_of, run_for_result, status_of


class JudgingOptions(NamedTuple):
    """How changes are judged. `directory`: where the project's settings are found; None for no project."""

    category: Category | None = None
    fail_on: FailOn | None = None
    ignore_paths: tuple[str, ...] = ()
    only: tuple[str, ...] = ()  # rules
    slower_than: float | None = None
    directory: str | None = None

    def project(self) -> Project:
        """The project's settings, overridden by these. Raises SettingsError if they are malformed."""
        off = dict.fromkeys(RULES.keys() - set(self.only)) if self.only else {}
        if self.directory is None:
            project = Project(self.category or "call", self.fail_on or "error", {}, self.ignore_paths)
        else:
            chosen = {"category": self.category, "fail_on": self.fail_on, "ignore_paths": self.ignore_paths}
            project = load(self.directory, **chosen)  # type: ignore[arg-type]
        return project._replace(levels={**project.levels, **off})


def parse_judging_options(
    category: Category | None,
    fail_on: FailOn | None,
    ignore_paths: Sequence[str],
    only: Sequence[str],
    slower_than: float | None,
    project: str | os.PathLike[str] | None,
) -> JudgingOptions:
    """Check a caller's arguments. Raises ValueError for an unknown rule, category or level."""
    for rule in only:
        if rule not in RULES:
            raise ValueError(f"there is no rule {rule!r}; the rules: mcp-tape diff --rules")
    if category not in (None, *CATEGORIES):
        raise ValueError(f"{category!r} is not a category; they are {', '.join(CATEGORIES)}")
    if fail_on not in (None, *LEVELS, "never"):
        raise ValueError(f"{fail_on!r} is not a level; they are {', '.join(LEVELS)}, or never")
    directory = None if project is None else os.fspath(project)
    return JudgingOptions(category, fail_on, tuple(ignore_paths), tuple(only), slower_than, directory)


def words(command: Sequence[str]) -> tuple[str, ...]:
    """A command line as words. Raises ValueError for a single text, as for a shell."""
    if isinstance(command, str):
        raise ValueError(f"a command is a list of words; for {command!r}: {command.split()!r}")
    return tuple(command)


Look = Callable[[Version, Version, Comparison], object]
_WHOLE = "the cassette"
_GONE = "NEW: there is no cassette of this name"


class DiffTask(NamedTuple):
    """The settings for all pairs. `rules`: redaction rules for a live server, besides the environment's secrets.

    `allows_gone`: a cassette that is only on the old side is not a failure.
    """

    judging: JudgingOptions = JudgingOptions()
    parts: tuple[ComparisonPart, ...] = PARTS
    rules: Rules = Rules()
    allows_gone: bool = False
    command: str = "diff"

    @property
    def is_gate(self) -> bool:
        """True if an unknown part is a failure."""
        return self.command != "diff"


class CassettePair(NamedTuple):
    """An old cassette, and a new one or a live server; None for a missing side. `revision`: the old one's, in git."""

    old: str | None
    new: str | LiveTarget | None
    revision: str | None = None


def diff_one(
    old: str | os.PathLike[str],
    new: str | os.PathLike[str] | None = None,
    *,
    command: Sequence[str] = (),
    url: str | None = None,
    headers: Mapping[str, str] | None = None,
    cacert: str | None = None,
    timeout: float = 30.0,
    parts: Sequence[ComparisonPart] = PARTS,
    category: Category | None = None,
    fail_on: FailOn | None = None,
    only: Sequence[str] = (),
    ignore_paths: Sequence[str] = (),
    slower_than: float | None = None,
    project: str | os.PathLike[str] | None = None,
) -> Result:
    """Compare a cassette with another one, or with a live server: see docs/api.md.

    Raises ValueError for arguments that do not go together. All other failures are in the result.
    """
    if sum(map(bool, (new, command, url))) != 1:
        raise ValueError("give one of: new, command, url")
    live = LiveTarget(words(command), url or "", tuple((headers or {}).items()), cacert, timeout)
    judging = parse_judging_options(category, fail_on, ignore_paths, only, slower_than, project)
    return compare_pair(CassettePair(os.fspath(old), os.fspath(new) if new else live), DiffTask(judging, tuple(parts)))


def pairs(old: str, new: str | LiveTarget) -> list[CassettePair]:
    """The pairs to compare: in two directories, the cassettes of the same name, including those on one side only."""
    if not is_directory(old):
        return [CassettePair(old, new)]
    before = _by_name(old)
    if isinstance(new, LiveTarget):
        return [CassettePair(path, new) for path in before.values()]
    if not is_directory(new):
        raise CassetteError(f"{old} is a directory, and {new} is not; give two cassettes, or two directories")
    after = _by_name(new)
    return [CassettePair(before.get(name), after.get(name)) for name in sorted({*before, *after})]


def pairs_with_revision(revision: str, found: RevisionMatches) -> list[CassettePair]:
    """The pairs to compare with a git revision: the cassettes that it has."""
    there = [(before, after) for before, after in found.pairs] + [(name, None) for name in found.gone]
    return [CassettePair(before, after, revision) for before, after in there]


def _by_name(directory: str) -> dict[str, str]:
    """The cassettes below a directory, by relative path."""
    start = directory.rstrip("/") if is_url(directory) else os.path.normpath(directory)
    return {path.removeprefix(start).lstrip("/"): path for path in find_below(directory)}


def name_of(pair: CassettePair) -> str:
    """The cassette to name in a result: the new one, if there is one."""
    return pair.new if isinstance(pair.new, str) else pair.old or ""


def files_of(pair: CassettePair) -> list[str]:
    """The files whose content counts."""
    return [parse(path).path for path in pair[:2] if isinstance(path, str)]


def compare_pair(pair: CassettePair, task: DiffTask, look: Look | None = None) -> Result:
    """Compare a pair. `look` is called with both sides while they are open."""
    return run_for_result(task.command, name_of(pair), lambda: files_of(pair), lambda: _compare_sides(pair, task, look))


def _compare_sides(pair: CassettePair, task: DiffTask, look: Look | None) -> Result:
    project, name = task.judging.project(), printable_place(name_of(pair))
    rules = task.rules._replace(environ=os.environ)
    settings = project.settings(task.judging.slower_than)
    if pair.old is None or pair.new is None:
        comparisons = [
            _one_sided_comparison(pair, task.allows_gone)._replace(category=settings.category, cassette=name)
        ]
    else:
        before = reference(pair.revision, pair.old) if pair.revision else pair.old
        with sides(before, pair.new, rules, settings.ignore_paths) as several:
            comparisons = [_of_sides(one, name, task, settings, look) for one in several]
    if isinstance(pair.new, LiveTarget) and not is_remote(pair.old or ""):
        file = parse(pair.old or "").path
        comparisons = [one._replace(file=one.file or file) for one in comparisons]
    is_unknown = task.is_gate and any(entry.grave for one in comparisons for entry in one.unknown)
    has_gone = any(_is_gone(one) for one in comparisons) and project.fail_on != "never" and not task.allows_gone
    return Result(
        task.command,
        name,
        status_of(int(has_gone or is_unknown or any(map(project.fails, comparisons)))),
        count_levels(comparisons),
        findings_of(comparisons),
        comparisons=tuple(comparisons),
        details={"old": pair.old and printable_place(pair.old), "new": _printable_new(pair.new, rules)},
    )


def _of_sides(several: Sides, name: str, task: DiffTask, settings: JudgingSettings, look: Look | None) -> Comparison:
    cassette = f"{name}#{several.name}" if several.name else name
    if several.old is None or several.new is None:
        here = (cassette, None) if several.new is None else (None, cassette)
        return _one_sided_comparison(CassettePair(*here), task.allows_gone)._replace(
            category=settings.category, cassette=cassette
        )
    comparison = compare(several.old, several.new, settings, task.parts)
    if look is not None:
        look(several.old, several.new, comparison)
    comparison = comparison._replace(cassette=cassette, alignment=None)  # large, and needed only for a page
    if several.lock is None:
        return comparison
    lock, server = several.lock
    changes = (*comparison.changes, *comparison.ignored)
    return comparison._replace(file=lock.path, lines={one.fingerprint: lock.line(server, one) for one in changes})


def _is_gone(comparison: Comparison) -> bool:
    return any(entry.what == _WHOLE and entry.is_new for entry in comparison.unknown)


def _one_sided_comparison(pair: CassettePair, allows_gone: bool) -> Comparison:
    """Compare a cassette that is only on one side: clients may miss a removed one, and a new one breaks none."""
    if pair.new is None:
        why = f"NEW: it was removed after {pair.revision}" if pair.revision else _GONE
        if pair.revision or allows_gone:
            why += ", as --allow-gone allows" if allows_gone else "; if that is intended: --allow-gone"
        gone = UnknownPart(_WHOLE, why, not allows_gone)
        return Comparison(pair.old or "", "gone", "call", (), (gone,))
    new = UnknownPart(_WHOLE, "OLD: there is no cassette of this name, so no client can break", False)
    return Comparison("none", name_of(pair), "call", (), (new,))


def _printable_new(new: str | LiveTarget | None, rules: Rules) -> str | None:
    """The new side, safe to print: a URL or a command may contain a password."""
    if not isinstance(new, LiveTarget):
        return new and printable_place(new)
    discreet = DiagnosticRedactor(rules._replace(headers=new.headers))
    return discreet.text(new.url) if new.url else discreet.command(new.command)

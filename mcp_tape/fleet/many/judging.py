"""Settings of a comparison as plain values, and the project that they belong to: what is loaded cannot be handed on."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple

from ...compare.rules import CATEGORIES, LEVELS, RULES, Category
from ...diff.project import FailOn, Project, load


class Judging(NamedTuple):
    """How changes are judged. `directory`: where a project's settings hold; None: there is none."""

    category: Category | None = None
    fail_on: FailOn | None = None
    ignore_paths: tuple[str, ...] = ()
    only: tuple[str, ...] = ()  # rules
    slower_than: float | None = None
    directory: str | None = None

    def project(self) -> Project:
        """The project's settings, overridden by these. SettingsError: they are malformed."""
        off = dict.fromkeys(RULES.keys() - set(self.only)) if self.only else {}
        if self.directory is None:
            project = Project(self.category or "call", self.fail_on or "error", {}, self.ignore_paths)
        else:
            chosen = {"category": self.category, "fail_on": self.fail_on, "ignore_paths": self.ignore_paths}
            project = load(self.directory, **chosen)  # type: ignore[arg-type]
        return project._replace(levels={**project.levels, **off})


def made(
    category: Category | None,
    fail_on: FailOn | None,
    ignore_paths: Sequence[str],
    only: Sequence[str],
    slower_than: float | None,
    project: str | os.PathLike[str] | None,
) -> Judging:
    """What a caller gives, checked. ValueError: there is no such rule, category or level."""
    for rule in only:
        if rule not in RULES:
            raise ValueError(f"there is no rule {rule!r}; the rules: mcp-tape diff --rules")
    if category not in (None, *CATEGORIES):
        raise ValueError(f"{category!r} is not a category; they are {', '.join(CATEGORIES)}")
    if fail_on not in (None, *LEVELS, "never"):
        raise ValueError(f"{fail_on!r} is not a level; they are {', '.join(LEVELS)}, or never")
    directory = None if project is None else os.fspath(project)
    return Judging(category, fail_on, tuple(ignore_paths), tuple(only), slower_than, directory)


def words(command: Sequence[str]) -> tuple[str, ...]:
    """A command line. ValueError: it is one text, as for a shell."""
    if isinstance(command, str):
        raise ValueError(f"a command is a list of words; for {command!r}: {command.split()!r}")
    return tuple(command)

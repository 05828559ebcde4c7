"""Settings of a comparison as plain values, and the project that they belong to: what is loaded cannot be handed on."""

from __future__ import annotations

from typing import NamedTuple

from ...compare.project import FailOn, Project, load
from ...compare.rules import RULES, Category


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

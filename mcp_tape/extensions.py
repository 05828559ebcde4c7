"""Parts of mcp-tape that installed packages add, found by their entry points.

    mcp_tape.readers    convert recordings of other tools to cassettes: `Readers` in formats/foreign.py
    mcp_tape.stores     turn URLs into files: by scheme, a function of the URL that returns a context manager
    mcp_tape.commands   click commands, for `mcp-tape NAME`

mcp-tape registers its own readers and stores in the same way, only in pyproject.toml. So the cassette can use them
without naming a module above it.

A search reads the metadata of all installed packages, which takes as long as a whole replay. Plain local cassettes and
built-in commands need no search, so this module is imported only for others.
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, NamedTuple

from .errors import TapeError

READERS, STORES, COMMANDS = "mcp_tape.readers", "mcp_tape.stores", "mcp_tape.commands"
_OWN = {READERS: "others", STORES: "s3"}  # one of our own entry points in each group


class ExtensionError(TapeError):
    """An installed package registers an extension that can't be used."""


class Extension(NamedTuple):
    """An entry point, or several with the same name."""

    entries: tuple[EntryPoint, ...]

    @property
    def packages(self) -> str:
        """The packages that register it, with their versions."""
        return " and ".join(sorted(f"{entry.dist.name} {entry.dist.version}" for entry in self.entries if entry.dist))

    def load(self) -> Any:
        """Import its object. ExtensionError: several packages claim the name, or the import fails."""
        entry = self.entries[0]
        what = f"{entry.name!r} in the group {entry.group}"
        if len(self.entries) > 1:
            raise ExtensionError(f"{self.packages} both register {what}; uninstall one of them")
        try:
            return entry.load()
        except Exception as error:  # importing another package's module may raise anything
            why = f"{type(error).__name__}: {error}"
            raise ExtensionError(
                f"{self.packages} registers {what}, which cannot be imported: {why}; upgrade or uninstall that package"
            ) from error


@cache
def find_extensions(group: str) -> dict[str, Extension]:
    """Return all extensions in a group of entry points, by name."""
    found: dict[str, Extension] = {}
    for entry in sorted(entry_points(group=group), key=lambda entry: entry.name):
        before = found[entry.name].entries if entry.name in found else ()
        found[entry.name] = Extension((*before, entry))
    own = _OWN.get(group)
    if own is not None and own not in found:
        raise ExtensionError(
            f"mcp-tape's own entry points are missing from the group {group}: its files are newer than its "
            "installation, or are not installed; install it again, e.g. with: pip install -e ."
        )
    return found


def load_extensions(group: str) -> tuple[list[tuple[str, Any]], list[str]]:
    """Return the objects of a group, each with its package, and the errors of those that can't be loaded."""
    loaded: list[tuple[str, Any]] = []
    broken: list[str] = []
    for one in find_extensions(group).values():
        try:
            loaded.append((one.packages, one.load()))
        except ExtensionError as error:
            broken.append(str(error))
    return loaded, broken

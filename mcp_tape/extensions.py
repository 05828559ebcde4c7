"""Parts of mcp-tape that installed packages add, found by their entry points.

    mcp_tape.readers    a recording of another tool becomes a cassette: `Readers` of formats/foreign.py
    mcp_tape.stores     a URL becomes a file: a function of the URL, by its scheme, that makes a context manager
    mcp_tape.commands   a command of click, for `mcp-tape NAME`

mcp-tape registers its own readers and stores in the same way, in pyproject.toml and nowhere else. So the cassette can
open them, and yet nothing in it names a module above it.

A search looks through all installed packages, which takes as long as a whole replay. Plain local cassettes and built-in
commands need none, so this module is only imported where something else is asked for.
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, NamedTuple

from .errors import TapeError

READERS, STORES, COMMANDS = "mcp_tape.readers", "mcp_tape.stores", "mcp_tape.commands"
_OWN = {READERS: "others", STORES: "s3"}  # an entry point of ours in each group that has some


class ExtensionError(TapeError):
    """An installed package adds something that cannot be used."""


class Extension(NamedTuple):
    """An entry point, or several of the same name."""

    entries: tuple[EntryPoint, ...]

    @property
    def packages(self) -> str:
        """The packages that it comes from, with their versions."""
        return " and ".join(sorted(f"{entry.dist.name} {entry.dist.version}" for entry in self.entries if entry.dist))

    def load(self) -> Any:
        """Import what it names. ExtensionError: several packages claim the name, or the import fails."""
        entry = self.entries[0]
        what = f"{entry.name!r} in the group {entry.group}"
        if len(self.entries) > 1:
            raise ExtensionError(f"{self.packages} both register {what}; uninstall one of them")
        try:
            return entry.load()
        except Exception as error:  # whatever the module of another package does while it is imported
            why = f"{type(error).__name__}: {error}"
            raise ExtensionError(
                f"{self.packages} registers {what}, which cannot be imported: {why}; upgrade or uninstall that package"
            ) from error


@cache
def find_extensions(group: str) -> dict[str, Extension]:
    """Return everything in a group of entry points, by name."""
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
    """Return everything in a group that can be loaded, with its package; and why the rest cannot be."""
    loaded: list[tuple[str, Any]] = []
    broken: list[str] = []
    for one in find_extensions(group).values():
        try:
            loaded.append((one.packages, one.load()))
        except ExtensionError as error:
            broken.append(str(error))
    return loaded, broken

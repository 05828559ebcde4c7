"""A small JSONPath: `$.params.arguments.now`, `$..token`, `$.items[*].id`, `$['a b'][0]`."""

from __future__ import annotations

import re
from collections.abc import Callable

from .jsontext import Path

_STEP = re.compile(
    r"""\.\.(?P<deep>[\w$-]+|\*)|\.(?P<name>[\w$-]+|\*)|\[(?P<index>\d+)\]|\[(?P<any>\*)\]"""
    r"""|\[(?P<quote>['"])(?P<quoted>.*?)(?P=quote)\]"""
)
_ANY = "*"
_DEEP = ".."


def compile_path(source: str) -> Callable[[Path], bool]:
    """A test of whether a path lies at the place that a JSONPath names; ValueError if it is none."""
    steps: list[str | int] = []
    at = 1
    if not source.startswith("$"):
        raise ValueError(f"a JSONPath starts with $, this one does not: {source!r}")
    while at < len(source):
        step = _STEP.match(source, at)
        if step is None:
            raise ValueError(f"cannot read the JSONPath {source!r} at {source[at:]!r}")
        if step["deep"] is not None:
            steps += [_DEEP, step["deep"]]
        elif step["index"] is not None:
            steps.append(int(step["index"]))
        else:
            steps.append(step["quoted"] if step["quoted"] is not None else step["name"] or _ANY)
        at = step.end()
    wanted = tuple(steps)
    return lambda path: _fits(wanted, path)


def _fits(wanted: tuple[str | int, ...], path: Path) -> bool:
    if not wanted:
        return not path
    if wanted[0] == _DEEP:
        return any(_fits(wanted[1:], path[skip:]) for skip in range(len(path)))
    return bool(path) and wanted[0] in (_ANY, path[0]) and _fits(wanted[1:], path[1:])

"""A small JSONPath: `$.params.arguments.now`, `$..token`, `$.items[*].id`, `$['a b'][0]`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from enum import Enum

from .jsontext import Path

# A step, with `..` before it when it may lie at any depth.
_STEP = re.compile(
    r"""(?P<deep>\.\.(?=[\w$*\[-]))?(?:(?(deep)|\.)(?:(?P<name>[\w$-]+)|\*)"""
    r"""|\[(?:(?P<index>\d+)|\*|'(?P<single>(?:[^'\\]|\\.)*)'|"(?P<double>(?:[^"\\]|\\.)*)")\])"""
)


class _Wild(Enum):
    """What is no key: a key may be called `*` or `..` too."""

    ANY = "*"
    DEEP = ".."


_Step = str | int | _Wild


def compile_path(source: str) -> Callable[[Path], bool]:
    """A test of whether a path lies at the place that a JSONPath names; ValueError if it is none."""
    wanted = _steps(source)
    return lambda path: _fits(wanted, path)


def read_path(source: str) -> Path:
    """The path that a JSONPath without wildcards stands for; ValueError if it is none."""
    steps = _steps(source)
    if any(isinstance(step, _Wild) for step in steps):
        raise ValueError(f"this JSONPath names more than one place: {source!r}")
    return tuple(step for step in steps if not isinstance(step, _Wild))


def names_of(source: str) -> list[str]:
    """The keys that a JSONPath names, in their order."""
    return [step for step in _steps(source) if isinstance(step, str)]


def _steps(source: str) -> tuple[_Step, ...]:
    if not source.startswith("$"):
        raise ValueError(f"a JSONPath starts with $, this one does not: {source!r}")
    steps: list[_Step] = []
    at = 1
    while at < len(source):
        step = _STEP.match(source, at)
        if step is None:
            raise ValueError(f"cannot read the JSONPath {source!r} at {source[at:]!r}")
        steps += [_Wild.DEEP] if step["deep"] else []
        steps.append(_named(step))
        at = step.end()
    return tuple(steps)


def _named(step: re.Match[str]) -> _Step:
    if step["index"] is not None:
        return int(step["index"])
    quoted = step["single"] if step["single"] is not None else step["double"]
    if quoted is not None:
        return re.sub(r"\\(.)", r"\1", quoted)
    return step["name"] or _Wild.ANY


def _fits(wanted: tuple[_Step, ...], path: Path) -> bool:
    if not wanted:
        return not path
    if wanted[0] is _Wild.DEEP:
        return any(_fits(wanted[1:], path[skip:]) for skip in range(len(path)))
    return bool(path) and wanted[0] in (_Wild.ANY, path[0]) and _fits(wanted[1:], path[1:])


def path_text(path: Iterable[str | int]) -> str:
    """A path written as JSONPath."""
    return "$" + "".join(_step_text(step) for step in path)


def _step_text(step: str | int) -> str:
    if isinstance(step, int):
        return f"[{step}]"
    return f".{step}" if re.fullmatch(r"[\w$-]+", step) else f"[{step!r}]"

"""A subset of JSONPath: `$.params.arguments.now`, `$..token`, `$.items[*].id`, `$['a b'][0]`.

https://www.rfc-editor.org/rfc/rfc9535
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import Enum

from ..light import pattern
from .jsontext import Path, escape_letter, unquote

# One step; `..` before it means any depth.
_STEP = pattern(
    r"""(?P<deep>\.\.(?=[\w$*\[-]))?(?:(?(deep)|\.)(?:(?P<name>[\w$-]+)|\*)"""
    r"""|\[(?:(?P<index>\d+)|\*|'(?P<single>(?:[^'\\]|\\.)*)'|"(?P<double>(?:[^"\\]|\\.)*)")\])"""
)
# JSON escapes, of which two may form one character. Any other character may be escaped too.
_ESCAPE = pattern(r"(?s)(?:\\u[0-9A-Fa-f]{4})+|\\.")
_ONE_OF_LIST = pattern(r"""(?s)(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[^,])+""")


class _Wild(Enum):
    """Steps that are not keys: a key may also be named `*` or `..`."""

    ANY = "*"
    DEEP = ".."


_Step = str | int | _Wild


class JsonPath:
    """A JSONPath, matched step by step in linear time, however many `..` it has. ValueError if it is malformed.

    The state of a match is a set of positions, held as the bits of an integer (the shift-and algorithm): bit n is set
    if the path so far can match the first n steps.
    """

    def __init__(self, source: str) -> None:
        steps = _steps(source)
        self._deep = sum(1 << at for at, step in enumerate(steps) if step is _Wild.DEEP)
        self._any = sum(1 << at for at, step in enumerate(steps) if step is _Wild.ANY)
        self._named: dict[str | int, int] = {}
        for at, step in enumerate(steps):
            if not isinstance(step, _Wild):
                self._named[step] = self._named.get(step, self._any) | 1 << at
        self._end = 1 << len(steps)
        self.start = self._skip_deep(1)

    def next_state(self, state: int, step: str | int) -> int:
        """Return the state one step below."""
        return self._skip_deep((state & self._named.get(step, self._any)) << 1 | state & self._deep)

    def ends(self, state: int) -> bool:
        return state & self._end != 0

    def __call__(self, path: Path) -> bool:
        state = self.start
        for step in path:
            state = self.next_state(state, step)
        return self.ends(state)

    def covers(self, path: Path) -> bool:
        """Return whether the path or one of its ancestors matches."""
        state = self.start
        for step in path:
            if self.ends(state) or not state:
                break
            state = self.next_state(state, step)
        return self.ends(state)

    def _skip_deep(self, state: int) -> int:
        """Skip `..`, which can match no step at all; the step after it is never a `..`."""
        return state | (state & self._deep) << 1


def split_paths(source: str) -> list[str]:
    """Split JSONPaths at commas outside of quotes."""
    return _ONE_OF_LIST.findall(source)


def read_path(source: str) -> Path:
    """Return the path of a JSONPath without wildcards; ValueError for any other."""
    steps = _steps(source)
    if any(isinstance(step, _Wild) for step in steps):
        raise ValueError(f"this JSONPath names more than one place: {source!r}")
    return tuple(step for step in steps if not isinstance(step, _Wild))


def names_of(source: str) -> list[str]:
    """Return the keys in a JSONPath, in order."""
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
        steps.append(_read_step(step))
        at = step.end()
    return tuple(steps)


def _read_step(step: re.Match[str]) -> _Step:
    if step["index"] is not None:
        return int(step["index"])
    quoted = step["single"] if step["single"] is not None else step["double"]
    if quoted is not None:
        return _ESCAPE.sub(_decode_escape, quoted)
    return step["name"] or _Wild.ANY


def path_text(path: Iterable[str | int]) -> str:
    return "$" + "".join(_step_text(step) for step in path)


def _step_text(step: str | int) -> str:
    if isinstance(step, int):
        return f"[{step}]"
    if re.fullmatch(r"[\w$-]+", step):
        return f".{step}"
    quote = '"' if "'" in step and '"' not in step else "'"
    return f"[{quote}{''.join(_quote_letter(letter, quote) for letter in step)}{quote}]"


def _quote_letter(letter: str, quote: str) -> str:
    # Escape invisible characters: https://www.rfc-editor.org/rfc/rfc9535#name-normalized-paths
    if letter in ("\\", quote):
        return "\\" + letter
    return letter if letter.isprintable() else escape_letter(letter)


def _decode_escape(escape: re.Match[str]) -> str:
    """Decode a JSON escape, or any other escaped character."""
    text = escape[0]
    return unquote(f'"{text}"') if text[1] in "bfnrt" or len(text) > 2 else text[1]

"""Rules that hide secrets in plain text: each takes a text and gives it back with placeholders.

Knows no JSON and no MCP. A placeholder is never looked into again, so that hiding twice changes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from ..wire import jsontext, protocol, secret_names
from ..wire.jsonpath import compile_path, names_of
from ..wire.secret_names import MARK, PLACEHOLDER, placeholder
from . import shapes
from .shapes import Shape
from .strings import json_within, strings

Rule = Callable[[str], str]
# Hiding one secret may show that the next one begins there. A text of nothing else would take a pass for each of them.
_MOST_PASSES = 100
_NOT_IN_MARKS = re.compile(r"[\]\r\n]")

_ESCAPED = r"(?<=\\[nrtbf])|(?<=%[0-9A-Fa-f]{2})|(?<=\\u[0-9A-Fa-f]{4})"  # in text that is still escaped
# `name = `, `name: `, `"name": `, `<name>`, and `--name `: what stands before a value. The name may have two words.
_NAMED = re.compile(
    rf"(?:(?<![\w.\\-])|{_ESCAPED})-{{0,2}}(?P<name>[A-Za-z_][\w.-]{{1,63}}(?: [A-Za-z]{{3,16}})?)"
    r"(?:(?:\\{0,7}[\"'`])?(?:[ \t](?:is|was))?[ \t]{0,3}(?:=>|:=|=(?!=)|:(?![:/])|%3[ADad])[ \t]{0,3}"
    r"|(?<=[\w-])>(?=[^<]{1,256}</))"
    r"|(?<![\w-])--?(?P<option>[A-Za-z][\w-]{1,63})[ \t]{1,3}(?!-)",
    re.ASCII,
)
# What has no second quote was cut off: whoever wrote it has crashed.
_VALUE = re.compile(
    r"(?P<quote>\\{0,7}(?:\"\"\"|'''|[\"'`]))(?!(?P=quote))(?P<quoted>[^\r\n]{1,4096}?)(?:(?<!\\)(?P=quote)|\Z)"
    r"|(?P<bare>[^\s\"'&,;<>()\[\]{}\\|`]{6,})(?P<next>[(\[{]?)"
)
# A line of an .env file: the value goes on to the end of the line, whatever is in it.
_ENV_LINE = re.compile(
    r"^[ \t]*(?:export |set |ENV |-e |- )?(?P<name>[A-Z][A-Z0-9_]{2,63})=(?P<bare>[^\s\"'`][^\s]{5,})$", re.M
)
_CALL = re.compile(r"[\w.]+[(\[].*[)\]]")


def mark(source: str) -> str:
    """The placeholder that names where a secret was known from."""
    return _mark(source[:150])


@lru_cache(1000)
def _mark(source: str) -> str:
    return placeholder(_NOT_IN_MARKS.sub("_", source))


def is_mark(text: str) -> bool:
    """Whether a text is one placeholder."""
    return PLACEHOLDER.fullmatch(text) is not None


def settle(text: str, rules: Sequence[Rule]) -> str:
    """The text when no rule finds any more in it. What no pass ends in time is hidden as a whole."""
    for _ in range(_MOST_PASSES):
        before = text
        for rule in rules:
            text = outside_marks(text, rule)
        if text == before:
            return text
    return mark("failed")


def outside_marks(text: str, rule: Rule) -> str:
    """Apply a rule to what stands between the placeholders."""
    if MARK not in text:
        return rule(text)
    out: list[str] = []
    done = 0
    for found in PLACEHOLDER.finditer(text):
        out += (rule(text[done : found.start()]), found.group())
        done = found.end()
    out.append(rule(text[done:]))
    return "".join(out)


def shape_rule(shape: Shape) -> Rule:
    """Hides what has the shape of a token."""
    pattern, hidden_by = shapes.compiled(shape), mark(f"shape:{shape.name}")

    def hidden(found: re.Match[str]) -> str:
        part = found.lastgroup
        if part is None:
            return hidden_by
        value = found[part]
        if not (secret_names.looks_issued(value.rstrip(".:")) if part == "maybe" else _is_real(value)):
            return found.group()
        whole, at = found.group(), found.start()
        return whole[: found.start(part) - at] + hidden_by + whole[found.end(part) - at :]

    return lambda text: pattern.sub(hidden, text)


def pattern_rule(pattern: re.Pattern[str]) -> Rule:
    """Hides what the user's own pattern finds; an empty match is none."""
    hidden_by = mark("value")
    return lambda text: pattern.sub(lambda found: hidden_by if found.group() else "", text)


def assignment_rule(is_secret: Callable[[str], bool], see: Callable[[str, str], None]) -> Rule:
    """Hides what a text gives to a secret name: `K=V`, `"k": "v"`, `--k V`; `see` is told of each."""

    def hide(text: str) -> str:
        text = _without(text, _assigned(text, is_secret), see)
        return _without(text, _secret_cells(text, is_secret), see) if "|" in text else text

    return hide


def _without(text: str, spans: Iterable[tuple[int, int, str]], see: Callable[[str, str], None]) -> str:
    out: list[str] = []
    done = 0
    for start, end, name in spans:
        see(text[start:end], name)
        out += (text[done:start], mark(f"key:{name}"))
        done = end
    out.append(text[done:])
    return "".join(out)


def _assigned(text: str, is_secret: Callable[[str], bool]) -> Iterator[tuple[int, int, str]]:
    lines = _ENV_LINE.finditer(text)
    found = {line.start("bare"): line.end() for line in lines if _is_env_line(line, is_secret)}
    done = 0
    for named in _NAMED.finditer(text):
        name = _secret_name(named["option"] or named["name"], is_secret) if named.end() >= done else ""
        if name:
            start, end = _value_span(text, named.end())
            done = found.get(start, end)
            if start < done:
                yield start, done, name


def _value_span(text: str, at: int) -> tuple[int, int]:
    """Where a secret value stands that starts here; an empty span if it is none."""
    value = _VALUE.match(text, at)
    if value is None:
        return at, at
    part = "quoted" if value["quoted"] else "bare"
    start, end = value.span(part)
    end -= len(value[part]) - len(value[part].rstrip(".:!?"))
    code = value["next"] and end - start < 1000  # a call or an index
    looks = secret_names.looks_issued if part == "quoted" else secret_names.looks_assigned
    return (start, end) if not code and looks(text[start:end]) else (start, start)


def _secret_name(name: str, is_secret: Callable[[str], bool]) -> str:
    """The name, or its last part (`config.token`, `the password`), if that is a secret's; else nothing."""
    last = re.split(r"[. ]", name)[-1]
    return name if is_secret(name) else last if is_secret(last) else ""


def _is_env_line(line: re.Match[str], is_secret: Callable[[str], bool]) -> bool:
    return is_secret(line["name"]) and secret_names.looks_assigned(line["bare"]) and not _CALL.fullmatch(line["bare"])


def _is_real(value: str) -> bool:
    """`user:password@host` in a manual is no secret."""
    return not (secret_names.is_stand_in(value) or secret_names.is_hidden_key(value) or value in ("pass", "pw", "pwd"))


# -- tables of text, as databases and Markdown have them: `| password | V |`, or a column of that name

_CELL = re.compile(r"[^|]+")
_DIVIDER = re.compile(r"[\s|:+-]+")  # between a head and its rows, with dashes
_SPACE = re.compile(r"\s")
_AROUND = " \t\r\n`*\"'"


class _Cell(NamedTuple):
    start: int
    text: str


def _secret_cells(text: str, is_secret: Callable[[str], bool]) -> Iterator[tuple[int, int, str]]:
    """Where values of secret names stand, and the names: under the name of a column, or behind the cell with a name."""
    head: list[_Cell] = []
    before: list[_Cell] = []
    at = 0
    for line in text.splitlines(keepends=True):
        cells = list(_cells(line, at)) if "|" in line else []
        if "--" in line and _DIVIDER.fullmatch(line):
            head, cells = (before or head), []
        elif not cells:
            head = []
        is_row = line.strip()[:1] == line.strip()[-1:] == "|"  # and no types, as in `str | None`
        for name, value in zip(head, cells, strict=False) if head else pairwise(cells) if is_row else ():
            if is_secret(name.text) and secret_names.looks_assigned(value.text) and not _SPACE.search(value.text):
                yield value.start, value.start + len(value.text), name.text
        before, at = cells, at + len(line)


def _cells(line: str, at: int) -> Iterator[_Cell]:
    for found in _CELL.finditer(line):
        text = found.group()
        bare = text.strip(_AROUND)
        if bare:
            yield _Cell(at + found.start() + text.index(bare), bare)


# -- what a user wants hidden besides known secrets: names, places, patterns, functions

_LONGEST_PATH = max(map(len, protocol.UNTOUCHED))
_QUICK_NAME = re.compile(r"[a-z0-9]{1,100}")
_QUICK_STEP = re.compile(r"[\w $./-]{1,100}", re.ASCII)
# The one letter beyond ASCII that is one of ASCII in lower case: escaped and not, as they look when folded quickly.
_KELVIN = ("\\u212a", "\u212a".encode().decode("latin-1"))


class Place(NamedTuple):
    """Where a value stands: under which names, as far as they matter, and how far along each of the paths."""

    names: tuple[str, ...]
    states: tuple[int, ...]
    outermost: bool


class OwnRules:
    """The rules of one user."""

    def __init__(
        self,
        keys: Iterable[str] = (),
        paths: Iterable[str] = (),
        values: Iterable[str] = (),
        functions: Iterable[Rule] = (),
    ) -> None:
        paths = tuple(paths)
        self.names = frozenset(map(secret_names.fold, keys))
        self._marks = [mark(f"path:{path}") for path in paths]
        self._paths = [compile_path(path) for path in paths]
        self.outermost = Place((), tuple(path.start for path in self._paths), True)
        self.rules = (*(pattern_rule(re.compile(value)) for value in values), *functions)
        self._quick_names = all(_QUICK_NAME.fullmatch(name) for name in self.names)
        self._folded = (*self.names, *_KELVIN)
        self._steps = [_quick_steps(path) for path in paths]

    @property
    def has_places(self) -> bool:
        return bool(self._paths)

    def within(self, place: Place, step: str | int) -> Place:
        """The place of what lies there. That of a message in a batch is the same as without it."""
        if isinstance(step, int) and place.outermost:
            return place._replace(outermost=False)
        names = (*place.names, step)[: _LONGEST_PATH + 1] if isinstance(step, str) else place.names
        states = zip(self._paths, place.states, strict=True)
        return Place(names, tuple(path.down(state, step) for path, state in states), False)

    def hidden_at(self, place: Place) -> str | None:
        """What is kept of a value that stands at a place to be hidden."""
        marks = zip(self._marks, self._paths, place.states, strict=True)
        return next((mark for mark, path, state in marks if path.ends(state)), None)

    def may_name(self, probe: bytes) -> bool:
        """Whether one of the names can occur in a text; `probe` is the text without its escapes of ASCII."""
        if not self.names:
            return False
        if not self._quick_names:
            return True
        folded = secret_names.fold_quickly(probe)
        return any(word in folded for word in self._folded)

    def may_hide(self, text: bytes, probe: bytes) -> bool:
        """Whether any rule can find something in a text."""
        if self.may_name(probe) or any(all(step in probe for step in steps) for steps in self._steps):
            return True
        return bool(self.rules) and self._finds_in(text.decode("utf-8", "surrogateescape"))

    def _finds_in(self, source: str) -> bool:
        """Whether a pattern or a function finds something: asked of the same strings as when it is to hide them."""
        if source.lstrip(" \t\r\n").startswith(("{", "[")):
            try:
                jsontext.loads(source)
                return any(map(self._finds, strings(source)))
            except RecursionError:
                return True
            except ValueError:
                pass
        return self._finds(source)

    def _finds(self, text: str) -> bool:
        start, end = json_within(text)
        around = (text[:start], text[end:]) if start < end else (text,)
        if MARK in text or any(rule(part) != part for part in around for rule in self.rules):
            return True
        return start < end and any(map(self._finds, strings(text[start:end])))


def _quick_steps(path: str) -> list[bytes]:
    """Names that a text must hold to have a place; none if only a closer look can tell."""
    names = names_of(path)
    return [name.encode() for name in names] if all(map(_QUICK_STEP.fullmatch, names)) else []

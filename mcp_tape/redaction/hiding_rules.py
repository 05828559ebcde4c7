"""Rules that hide secrets: functions from text to text with placeholders, and a user's own rules.

Text within a placeholder is never matched again, so hiding twice changes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise

from ..light import NamedTuple, pattern
from ..wire import jsontext, protocol, secret_names
from ..wire.jsonpath import JsonPath, names_of
from ..wire.secret_names import MARK, PLACEHOLDER, placeholder
from . import shapes
from .shapes import Shape
from .strings import json_within, strings

Rule = Callable[[str], str]
# Hiding one secret may expose the start of the next: a text of nothing but secrets would take a pass for each.
_MOST_PASSES = 100
_NOT_IN_MARKS = pattern(r"[\]\r\n]")
_MARKS = pattern(f"({PLACEHOLDER.pattern})")

_ESCAPED = r"(?<=\\[nrtbf])|(?<=%[0-9A-Fa-f]{2})|(?<=\\u[0-9A-Fa-f]{4})"  # in text that is still escaped
# What precedes a value: `name = `, `name: `, `"name": `, `[name]=`, `<name>`, `--name `, `'--name', `, `name is `. The
# name may have two words.
_NAMED = pattern(
    rf"(?a)(?:(?<![\w.\\-])|{_ESCAPED})-{{0,2}}(?P<name>[A-Za-z_][\w.-]{{1,63}}(?: [A-Za-z]{{3,16}})?)"
    r"(?P<by>(?:\\{0,7}[\"'`])?(?:\]|%5[Dd])?(?:[ \t](?:is|was))?"
    r"[ \t]{0,3}(?:=>|:=|=(?!=)|:(?![:/])|%3[ADad])[ \t]{0,3}"
    r"|(?<=[\w-])>(?=[^<]{1,256}</)|[ \t](?P<is>is|was)[ \t]{1,3})"
    r"|(?<![\w-])--?(?P<option>[A-Za-z][\w-]{1,63})(?:[ \t]{1,3}|\\{0,7}[\"'],[ \t]{0,2}(?=\\{0,7}[\"'][^-]))(?!-)"
)
# A text may be cut off before its closing quote, as by a crash.
_QUOTED = r"(?P<quote>\\{0,7}(?:\"\"\"|'{3}|[\"'`]))(?!(?P=quote))(?P<quoted>[^\r\n]{1,4096}?)(?:(?<!\\)(?P=quote)|\Z)"
_VALUE = pattern(rf"{_QUOTED}|(?P<bare>[^\s\"'&,;<>()\[\]{{}}\\|`]+)(?P<next>[(\[{{]?)")
# In a URL or a form body, and in a connection string, only these characters end a value.
_IN_QUERY = pattern(r"(?P<quote>(?!))?(?P<quoted>(?!))?(?P<bare>[^\s\"'&;#<>\\`]+)(?P<next>)")
_IN_CONNECTION = pattern(rf"{_QUOTED}|(?P<bare>[^;\r\n\"'\\]{{1,200}}?)(?P<next>)(?=;|[ \t]*(?:[\r\n\"'\\]|\Z))")
_ASSIGNS = pattern(r"(?:\\{0,7}[\"'`])?(?:\]|%5[Dd])?(?:=|%3[Dd])")
_ASSIGNS_FROM_AFAR = pattern(r"(?:\\{0,7}[\"'`])?\]?[ \t]*(?:=>?|:=)[ \t]*")
_CODE_BEFORE = 300  # characters before a name to search for the parenthesis of a call
# A line of an .env file: the value extends to the end of the line, whatever it contains.
_ENV_LINE = pattern(
    r"(?m)^[ \t]*(?:export |set |ENV |-e |- )?(?P<name>[A-Z][A-Z0-9_]{2,63})=(?P<bare>[^\s\"'`][^\s]{5,})$"
)
_CALL = pattern(r"[\w.]+[(\[].*[)\]]")


def mark(source: str) -> str:
    """Return the placeholder that names the source of a secret."""
    return _mark(source[:150])


@lru_cache(1000)
def _mark(source: str) -> str:
    return placeholder(_NOT_IN_MARKS.sub("_", source))


def settle(text: str, rules: Sequence[Rule]) -> str:
    """Apply rules until none finds anything more. A text that needs too many passes is hidden entirely."""
    for _ in range(_MOST_PASSES):
        before = text
        for rule in rules:
            text = outside_marks(text, rule)
        if text == before:
            return text
    return mark("failed")


def outside_marks(text: str, rule: Rule) -> str:
    """Apply a rule to the text between placeholders."""
    if MARK not in text:
        return rule(text)
    return "".join([part if n % 2 else rule(part) for n, part in enumerate(_MARKS.split(text))])


def shape_rule(shape: Shape, see: Callable[[str, str], None] | None = None) -> Rule:
    """Return the rule that hides tokens of a shape; `see` receives each value that follows a name."""
    pattern, hidden_by = shapes.compile_shape(shape), mark(f"shape:{shape.name}")

    def hide_match(found: re.Match[str]) -> str:
        part = found.lastgroup
        if part is None:
            return hidden_by
        value = found[part]
        if not (secret_names.looks_issued(value.rstrip(".:")) if part == "maybe" else _is_real(value)):
            return found.group()
        if see is not None:
            see(value, shape.name)
        whole, at = found.group(), found.start()
        return whole[: found.start(part) - at] + hidden_by + whole[found.end(part) - at :]

    return lambda text: pattern.sub(hide_match, text)


def pattern_rule(pattern: re.Pattern[str]) -> Rule:
    """Return the rule that hides matches of a user's pattern, except empty ones."""
    hidden_by = mark("value")
    return lambda text: pattern.sub(lambda found: hidden_by if found.group() else "", text)


def assignment_rule(
    is_secret: Callable[[str], bool], may_name: Callable[[bytes], bool], see: Callable[[str, str], None]
) -> Rule:
    """Return the rule that hides values of secret names: `K=V`, `"k": "v"`, `--k V`; `see` receives each value.

    `may_name`: a faster check of whether a text without escapes may contain a secret name.
    """

    def hide(text: str) -> str:
        if "\\" not in text and not may_name(text.encode("utf-8", "surrogatepass")):
            return text
        text = _without(text, _assigned_spans(text, is_secret), see)
        if "alue=" in text:
            text = _without(text, _secret_attributes(text, is_secret), see)
        return _without(text, _secret_cells(text, is_secret), see) if "|" in text else text

    return hide


def _without(text: str, spans: Iterable[tuple[int, int, str]], see: Callable[[str, str], None]) -> str:
    splices = []
    for start, end, name in spans:
        see(text[start:end], name)
        splices.append((start, end, mark(f"key:{name}")))
    return jsontext.splice(text, splices) if splices else text


def _assigned_spans(text: str, is_secret: Callable[[str], bool]) -> Iterator[tuple[int, int, str]]:
    lines = (line for line in _ENV_LINE.finditer(text) if is_secret(line["name"]) and not _CALL.fullmatch(line["bare"]))
    found = {line.start("bare"): line.end() for line in lines if secret_names.looks_given(line["name"], line["bare"])}
    done = 0
    for named in _NAMED.finditer(text):
        name = _secret_name(named["option"] or named["name"], is_secret) if named.end() >= done else ""
        if name:
            start, end = _value_span(text, named, name)
            done = found.get(start, end)
            if start < done:
                yield start, done, name


def _value_span(text: str, named: re.Match[str], name: str) -> tuple[int, int]:
    """Return the span of the secret value after a name, or an empty span."""
    at, by = named.end(), named["by"] or ""
    is_given = _ASSIGNS.fullmatch(by) is not None
    kind = _VALUE
    if is_given:
        before = text[max(0, named.start() - 8) : named.start()].rstrip(" \t")[-3:]
        in_query = before[-1:] in ("?", "&") or before in ("%26", "%3F", "%3f")
        kind = _IN_QUERY if in_query else _IN_CONNECTION if before[-1:] == ";" else _VALUE
    value = kind.match(text, at)
    if value is None:
        return at, at
    part = "quoted" if value["quoted"] else "bare"
    start, end = value.span(part)
    kept = ".:!?" if kind is _VALUE else ".:!?)]},*" if kind is _IN_QUERY else " \t"
    end -= len(value[part]) - len(value[part].rstrip(kept))
    found = text[start:end]
    code = value["next"] and end - start < 1000  # a call or an index
    return (start, end) if not code and _is_secret_value(text, named, name, found, part, kind) else (start, start)


def _is_secret_value(text: str, named: re.Match[str], name: str, value: str, part: str, kind: re.Pattern[str]) -> bool:
    """Return whether a value after a secret name is secret, judged by the text between and around them."""
    by, folded = named["by"] or "", secret_names.fold(name)
    if kind is not _VALUE:
        return secret_names.looks_given(name, value, in_url=True)
    if secret_names.is_reference(value) or secret_names.fold(value) == folded:
        return False
    if named["is"]:
        return secret_names.looks_random(value)
    if _ASSIGNS.fullmatch(by) and (part == "quoted" or not _is_argument(text, named, value)):
        return secret_names.looks_given(name, value)
    if folded in secret_names.AMBIGUOUS_KEYS:
        return secret_names.is_ambiguous_secret(name, value) and secret_names.looks_assigned(value, name)
    if part == "quoted":
        is_literal = folded.endswith(_PASSWORDS) and _ASSIGNS_FROM_AFAR.fullmatch(by) is not None
        return secret_names.looks_given(name, value) if is_literal else secret_names.looks_issued(value)
    return secret_names.looks_assigned(value, name)


# The attributes of an element in XML: `<add key="ApiKey" value="V"/>`.
_ATTRIBUTES = pattern(
    r"(?:[Nn]ame|[Kk]ey)=(?P<quote>\\{0,7}[\"'])(?P<name>[\w.: -]{2,64})(?P=quote)\s{1,8}[Vv]alue=(?P=quote)"
    r"(?P<value>[^\"'<>\\\s]{6,4096})"
)


def _secret_attributes(text: str, is_secret: Callable[[str], bool]) -> Iterator[tuple[int, int, str]]:
    for found in _ATTRIBUTES.finditer(text):
        name = _secret_name(found["name"], is_secret)
        if name and secret_names.looks_assigned(found["value"], name):
            yield *found.span("value"), name


_PASSWORDS = ("password", "passwd", "passphrase", "passcode")  # names whose values are often words


def _is_argument(text: str, named: re.Match[str], value: str) -> bool:
    """Return whether `name=value` is code: a variable passed to a call."""
    if not secret_names.is_variable(value):
        return False
    before = text[max(0, named.start() - _CODE_BEFORE) : named.start()]
    is_line = not before.rpartition("\n")[2].strip() and text[named.end() + len(value) :][:2] in (",\n", ",")
    return is_line or before.count("(") > before.count(")") or secret_names.is_hidden_key(value)


def _secret_name(name: str, is_secret: Callable[[str], bool]) -> str:
    """Return the name, or its last part (`config.token`, `the password`), if it may be secret, else ""."""
    word = name.rpartition(" ")[2]
    last = word.rpartition(".")[2]
    for whole in (word, name):
        if is_secret(whole):
            return whole
    return last if is_secret(last) or secret_names.fold(last) in secret_names.AMBIGUOUS_KEYS else ""


def _is_real(value: str) -> bool:
    """Return whether a value is not an example, as in the `user:password@host` of a manual."""
    return not (secret_names.is_stand_in(value) or secret_names.is_hidden_key(value) or value in ("pass", "pw", "pwd"))


# -- tables in text, as databases and Markdown have them: `| password | V |`, or a column of that name

_CELL = pattern(r"[^|]+")
_DIVIDER = pattern(r"[\s|:+-]+")  # the dashes between a head and its rows
_SPACE = pattern(r"\s")
_AROUND = " \t\r\n`*\"'"


class _Cell(NamedTuple):
    start: int
    text: str


def _secret_cells(text: str, is_secret: Callable[[str], bool]) -> Iterator[tuple[int, int, str]]:
    """Yield the spans of secret values, each with its name: the column's, or the text of the cell before it."""
    head: list[_Cell] = []
    before: list[_Cell] = []
    at = 0
    for line in text.splitlines(keepends=True):
        cells = list(_cells(line, at)) if "|" in line else []
        if "--" in line and _DIVIDER.fullmatch(line):
            head, cells = (before or head), []
        elif not cells:
            head = []
        is_row = line.strip()[:1] == line.strip()[-1:] == "|"  # not types, as in `str | None`
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


# -- a user's rules: names, paths, patterns, functions. The redactor applies them string by string, which is slow. Most
# texts contain nothing for them; a fast check here rules those out, with false positives only.

_LONGEST_PATH = max(map(len, protocol.UNTOUCHED))
_QUICK_NAME = pattern(r"[a-z0-9]{1,100}")
_QUICK_STEP = pattern(r"(?a)[\w $./-]{1,100}")
# KELVIN SIGN, whose lower case is the letter k: escaped, and as secret_names.fold_quickly leaves it.
_KELVIN = ("\\u212a", "\u212a".encode().decode("latin-1"))


class RedactedPath(NamedTuple):
    """The place of a value: the keys above it, as far as they matter, and the state of each path."""

    names: tuple[str, ...]
    states: tuple[int, ...]
    outermost: bool


class OwnRules:
    """A user's own rules."""

    def __init__(
        self, keys: Iterable[str], paths: Iterable[str], values: Iterable[str], functions: Iterable[Rule]
    ) -> None:
        paths = tuple(paths)
        self.names = frozenset(map(secret_names.fold, keys))
        self._marks = [mark(f"path:{path}") for path in paths]
        self.paths = [JsonPath(path) for path in paths]
        self.outermost = RedactedPath((), tuple(path.start for path in self.paths), True)
        self.rules = (*(pattern_rule(re.compile(value)) for value in values), *functions)
        self._quick_names = all(_QUICK_NAME.fullmatch(name) for name in self.names)
        self._folded = (*self.names, *_KELVIN)
        self._steps = [_quick_steps(path) for path in paths]

    def within(self, place: RedactedPath, step: str | int) -> RedactedPath:
        """Return the place of an inner value. A message in a batch has the same place as one alone."""
        if isinstance(step, int) and place.outermost:
            return place._replace(outermost=False)
        names = (*place.names, step)[: _LONGEST_PATH + 1] if isinstance(step, str) else place.names
        states = zip(self.paths, place.states, strict=True)
        return RedactedPath(names, tuple(path.next_state(state, step) for path, state in states), False)

    def placeholder_at(self, place: RedactedPath) -> str | None:
        """Return the placeholder for the value at a place; None if no path ends there."""
        marks = zip(self._marks, self.paths, place.states, strict=True)
        return next((mark for mark, path, state in marks if path.ends(state)), None)

    def may_name(self, probe: bytes) -> bool:
        """Return whether a text may contain one of the names; `probe` is the text with ASCII escapes decoded."""
        if not self.names:
            return False
        if not self._quick_names:
            return True
        folded = secret_names.fold_quickly(probe)
        return any(word in folded for word in self._folded)

    def may_hide(self, text: bytes, probe: bytes) -> bool:
        if self.may_name(probe) or any(all(step in probe for step in steps) for steps in self._steps):
            return True
        return bool(self.rules) and self._finds_in(text.decode("utf-8", "surrogateescape"))

    def _finds_in(self, source: str) -> bool:
        """Return whether a pattern or a function finds anything, in the strings that they would be applied to."""
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
    """Return names that a text with such a path must contain; an empty list if only the full check can decide."""
    names = names_of(path)
    return [name.encode() for name in names] if all(map(_QUICK_STEP.fullmatch, names)) else []

"""Rules that hide secrets in plain text: each takes a text and gives it back with placeholders.

Knows no JSON and no MCP. A placeholder is never looked into again, so that hiding twice changes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache

from ..wire import secret_names
from . import shapes, tables
from .shapes import Shape

Rule = Callable[[str], str]
MARK = "[redacted:"
_PLACEHOLDER = re.compile(r"\[redacted:[^\]\r\n]{0,200}\]")
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
    return f"{MARK}{_NOT_IN_MARKS.sub('_', source)}]"


def is_mark(text: str) -> bool:
    """Whether a text is one placeholder."""
    return _PLACEHOLDER.fullmatch(text) is not None


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
    for found in _PLACEHOLDER.finditer(text):
        out += (rule(text[done : found.start()]), found.group())
        done = found.end()
    out.append(rule(text[done:]))
    return "".join(out)


def shape_rule(shape: Shape) -> Rule:
    """Hides what has the shape of a token."""
    pattern, placeholder = shapes.compiled(shape), mark(f"shape:{shape.name}")

    def hidden(found: re.Match[str]) -> str:
        part = found.lastgroup
        if part is None:
            return placeholder
        value = found[part]
        if not (secret_names.looks_issued(value.rstrip(".:")) if part == "maybe" else _is_real(value)):
            return found.group()
        whole, at = found.group(), found.start()
        return whole[: found.start(part) - at] + placeholder + whole[found.end(part) - at :]

    return lambda text: pattern.sub(hidden, text)


def pattern_rule(pattern: re.Pattern[str]) -> Rule:
    """Hides what the user's own pattern finds; an empty match is none."""
    placeholder = mark("value")
    return lambda text: pattern.sub(lambda found: placeholder if found.group() else "", text)


def assignment_rule(is_secret: Callable[[str], bool], see: Callable[[str, str], None]) -> Rule:
    """Hides what a text gives to a secret name: `K=V`, `"k": "v"`, `--k V`; `see` is told of each."""

    def hide(text: str) -> str:
        text = _without(text, _assigned(text, is_secret), see)
        return _without(text, tables.secret_cells(text, is_secret), see) if "|" in text else text

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

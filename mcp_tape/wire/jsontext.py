"""Verbatim JSON: parse a text, find a value's span, splice another in, compare by meaning. Knows nothing of MCP.

Recorded JSON is never re-encoded, because that loses information: `1e2` would become `100.0`, a 30-digit integer a
float, and a lone surrogate an error. To keep start-up short, the json module is imported only for such cases, and
orjson only for many texts or an unusual one (see `smalljson`).
"""

from __future__ import annotations

import sys

from ..light import pattern
from . import smalljson
from .smalljson import UnsureError

TYPE_CHECKING = False  # as in the package's __init__
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any, TypeVar

    _State = TypeVar("_State")
    _Found = tuple[_State, int, int]


Path = tuple[str | int, ...]
Splice = tuple[int, int, str]

DEEPEST = 200  # levels of nesting that are accepted
_SPACE = " \t\r\n"
_VALUE = "{[s"  # kinds of tokens that begin a value; s is a scalar, k a key
_ONCE = "+" if sys.version_info >= (3, 11) else ""  # possessive: backtracking would need memory for each escape
STRING = rf'"[^"\\]*(?:\\.[^"\\]*)*{_ONCE}"'
# An unterminated string extends to the end of the text: nothing is scanned twice, and nothing is skipped.
TOKEN = pattern(rf'(?s)"[^"\\]*(?:\\.[^"\\]*)*{_ONCE}(?:"|\\?\Z)|[{{}}\[\],:]|[^\s{{}}\[\],:"]+')


_LOADING = 15_000_000  # nanoseconds to load orjson
_orjson: Any = sys.modules.get("orjson")
_lost = 0  # nanoseconds that orjson would have saved so far, roughly


def load_orjson() -> Any:
    """Load orjson on first use, or where start-up takes longer than that anyway."""
    global _orjson
    if _orjson is None:
        import orjson

        _orjson = orjson
    return _orjson


def loads(text: str | bytes) -> Any:
    """Parse a JSON text; ValueError if it is malformed, RecursionError if it is nested too deep."""
    global _lost
    if _orjson is None and _lost < _LOADING:
        try:
            value = smalljson.loads(text)
            _lost += 1000 + 4 * len(text)
            return value
        except UnsureError:
            pass
    fast = _orjson or load_orjson()
    try:
        value = fast.loads(text)
    except fast.JSONDecodeError:
        import json

        source = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
        # The second parser accepts lone surrogates; NaN and Infinity are not JSON for either.
        value = json.loads(source, parse_constant=_refuse, parse_int=_integer)
    return value if len(text) <= 2 * DEEPEST else check_depth(value, text)


def loads_exact(text: str) -> Any:
    """Parse with exact integers of any size, and `1.0` as an integer.

    Only needed where loads returns a float, which it also does for large integers.
    """
    import json

    value = json.loads(text, parse_constant=_refuse, parse_int=_integer, parse_float=_number)
    return check_depth(value, text)


def loads_frugally(text: str, number: Callable[[str], Any] | None = None) -> Any:
    """Parse with half the memory of loads, at half its speed; `number` converts the text of each number."""
    import json

    return check_depth(json.loads(text, parse_constant=_refuse, parse_int=number, parse_float=number), text)


def check_depth(value: Any, text: str | bytes) -> Any:
    """Refuse deep nesting: callers recurse over the value, and each Python's parser has another limit."""
    if len(text) <= 2 * DEEPEST:
        return value
    brackets = text.count(b"[") + text.count(b"{") if isinstance(text, bytes) else text.count("[") + text.count("{")
    if brackets <= DEEPEST:
        return value
    level, depth = [value], 0
    while level:
        level = [
            inner
            for outer in level
            for inner in (outer.values() if type(outer) is dict else outer if type(outer) is list else ())
            if type(inner) is dict or type(inner) is list
        ]
        depth += 1
        if depth > DEEPEST:
            raise RecursionError(f"nested deeper than {DEEPEST} levels")
    return value


def canonical_bytes(value: Any) -> bytes:
    """Return equal bytes for equal values: sorted keys, no white space. For comparing, not for parsing."""
    global _lost
    if _orjson is None and _lost < _LOADING:
        try:
            found = smalljson.dumps(value, sort_keys=True)
            _lost += 1500 + 30 * len(found)
            return found
        except UnsureError:
            pass
    fast = _orjson or load_orjson()
    try:
        return bytes(fast.dumps(value, option=fast.OPT_SORT_KEYS))
    except (TypeError, RecursionError):
        # Integers beyond 64 bits, lone surrogates and deep nesting: orjson writes none of them, so a value always takes
        # the same branch.
        return "".join(_canonical_parts(value)).encode("ascii")


def _canonical_parts(value: Any) -> Iterator[str]:
    """Yield the parts of a canonical form, without recursion."""
    import json

    stack: list[tuple[bool, Any]] = [(False, value)]  # True with text to write, False with a value
    while stack:
        done, item = stack.pop()
        if done:
            yield item
        elif isinstance(item, dict):
            yield "{"
            stack.append((True, "}"))
            for key in sorted(item, reverse=True):
                stack += [(False, item[key]), (True, json.dumps(key) + ":")]
        elif isinstance(item, list):
            yield "["
            stack.append((True, "]"))
            for part in reversed(item):
                stack += [(True, ","), (False, part)]
        else:
            yield json.dumps(item)


def compact_text(value: Any) -> str:
    """Return a value on one line, keys in their order, for people."""
    import json

    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def dumps(value: Any) -> str:
    """Return JSON text to send; lone surrogates are escaped."""
    if _orjson is None:
        try:
            return smalljson.dumps(value).decode()
        except UnsureError:
            pass
    try:
        return str((_orjson or load_orjson()).dumps(value).decode())
    except TypeError:
        import json

        return json.dumps(value)


quote = dumps  # a string as a JSON token


def escape_letter(letter: str) -> str:
    """Escape a character in printable ASCII."""
    import json

    return json.dumps(letter)[1:-1] if letter != "\x7f" else "\\u007f"


def unquote(token: str) -> str:
    """Decode a JSON string token."""
    if "\\" not in token:
        return token[1:-1]
    fast = _orjson or load_orjson()
    try:
        return str(fast.loads(token))
    except fast.JSONDecodeError:  # a lone surrogate, or an unescaped control character
        import json

        return str(json.loads(token, strict=False))


def is_well_formed(text: str) -> bool:
    """Return whether a text is JSON, without recursion, for text that is nested too deep to parse."""
    stack: list[str] = []  # for each open container, the tokens that may follow a value
    expected, at = _VALUE, 0
    for token in TOKEN.finditer(text):
        kind = _kind(token[0], expected)
        if kind not in expected or text[at : token.start()].strip(_SPACE):
            return False
        at = token.end()
        if kind in "{[":
            stack.append(",}" if kind == "{" else ",]")
            expected = "k}" if kind == "{" else _VALUE + "]"
        elif kind == ",":
            expected = "k" if stack[-1] == ",}" else _VALUE
        elif kind in "k:":
            expected = ":" if kind == "k" else _VALUE
        else:
            if kind in "}]":
                stack.pop()
            expected = stack[-1] if stack else ""
    return not expected and not text[at:].strip(_SPACE)


def walk(text: str, root: _State, down: Callable[[_State, str | int], _State | None]) -> Iterator[_Found[_State]]:
    """Yield each value in a valid JSON text with its state and span, containers when they close.

    `root` is the state of the outermost value. `down` derives the state of an inner value from its container's state
    and its key or index; None skips the value and everything in it. Iterative, so nesting has no limit. States rather
    than paths, because building the paths of a deep text would take quadratic time.
    """
    starts: list[int] = []  # of the open containers
    states: list[_State | None] = []
    steps: list[int | None] = []  # index within a list; None for an object
    here: _State | None = root
    key: tuple[int, int] | None = None  # a string in an object; a key if a colon follows
    for token in TOKEN.finditer(text):
        start, end = token.span()
        first = text[start]
        if first in "{[":
            starts.append(start)
            states.append(here)
            steps.append(None if first == "{" else 0)
            here = None if first == "{" or here is None else down(here, 0)
        elif first == ":":
            within = states[-1]
            here = None if within is None else down(within, unquote(text[slice(*key)]) if key else "")
            key = None
        elif first in ",]}":
            if key is not None and here is not None:
                yield here, *key
            key = None
            if first == ",":
                within, step = states[-1], steps[-1]
                if step is not None:
                    steps[-1] = step + 1
                    here = None if within is None else down(within, step + 1)
                continue
            opened, within = starts.pop(), states.pop()
            steps.pop()
            if within is not None:
                yield within, opened, end
        elif first == '"' and steps and steps[-1] is None:
            key = (start, end)
        elif here is not None:
            yield here, start, end


def values(text: str, depth: int) -> Iterator[_Found[Path]]:
    """Yield each value down to a depth, with its path and span."""
    return walk(text, (), lambda path, step: (*path, step) if len(path) < depth else None)


class PathNumbers:
    """Numbers for the paths of a walk: equal paths have equal numbers, and the outermost value has 0."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[int, str | int], int] = {}
        self._steps: list[tuple[int, str | int]] = [(0, "")]

    def number_below(self, within: int, step: str | int) -> int:
        number = self._numbers.setdefault((within, step), len(self._steps))
        if number == len(self._steps):
            self._steps.append((within, step))
        return number

    def last_step(self, place: int) -> tuple[int, str | int]:
        """Return the container's number, and the key or index in it."""
        return self._steps[place]

    def path(self, place: int) -> Path:
        steps: list[str | int] = []
        while place:
            place, step = self._steps[place]
            steps.append(step)
        return tuple(reversed(steps))


def find(text: str, path: Path) -> tuple[int, int] | None:
    """Return the span of the value at a path. The last of duplicate keys counts, as in parsers."""
    found = None
    for at, start, end in values(text, len(path)):
        if at == path:
            found = (start, end)
        elif found and start > found[0] and at == path[: len(at)]:
            found = None  # superseded by a later duplicate of one of its ancestors
    return found


def element_spans(text: Any) -> list[tuple[int, int]]:
    """Return the spans of an array's elements, in units of the text; an empty list if it is malformed."""
    source = text.decode("latin-1") if isinstance(text, bytes) else text  # one character per byte
    try:
        return [(start, end) for path, start, end in values(source, 1) if path]
    except (IndexError, ValueError, TypeError):
        return []


def splice(text: str, splices: Iterable[Splice]) -> str:
    """Replace spans of a text. Of two nested spans, the outer one wins; an empty one before it is an insertion."""
    out: list[str] = []
    done = 0
    for start, end, new in sorted(splices, key=lambda item: (item[0], item[0] < item[1], -item[1])):
        if start < done:
            continue
        out += (text[done:start], new)
        done = end
    out.append(text[done:])
    return "".join(out)


def number_text(value: float) -> str:
    """Return a number as text by its value: `1` and `1.0` give the same."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else repr(value)


def _kind(token: str, expected: str) -> str:
    """Classify a token: punctuation as itself, `k` for a key, `s` for a scalar, `!` for anything else."""
    if token[0] in "{}[],:":
        return token
    try:
        loads(token)
    except ValueError:
        return "!"
    return "k" if token[0] == '"' and "k" in expected else "s"


def _number(text: str) -> Any:
    from decimal import Decimal, InvalidOperation

    value = float(text)
    if value in (float("inf"), float("-inf")):
        return f"number {text}"  # beyond any double: compared by digits
    try:
        exact = Decimal(text)
    except InvalidOperation:  # an exponent beyond Decimal: effectively zero
        return value
    return int(exact) if exact == exact.to_integral_value() else value


def _integer(text: str) -> Any:
    # Python refuses to convert thousands of digits, because that takes quadratic time. Such numbers are compared by
    # digits.
    return int(text) if len(text) < 4000 else f"number {text}"


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")

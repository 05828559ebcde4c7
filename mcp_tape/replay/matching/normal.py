"""Normalizes values for comparison: replaces the parts that vary from run to run by marks, and returns those parts.

Each normalizer reads a text once and leaves a mark at each match. Later normalizers skip marks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from datetime import date
from decimal import Decimal
from email.utils import parsedate
from typing import Any, NamedTuple

from ...errors import TapeError
from ...redaction.diagnostics import hide_secrets
from ...wire import match
from ...wire.secret_names import MARK, PLACEHOLDER
from .targets import READY, Normalizer

_STOPS = r"""\s"'`<>|;,:?*(){}\[\]\\\0"""
_PATH = rf"\0[a-z]+\0[^{_STOPS}]*|(?<![\w.~-])/(?!/)[^{_STOPS}]*"
# The beginning of a path varies: pytest's directory of a run, a random name, a home directory.
_BASES = r"(?:/var/folders/[^/]+/[^/]+/[A-Z]|/tmp|/var/tmp|/dev/shm)"
_ROOT = (
    r"(?P<private>/private)?(?:"
    r"(?P<made>(?:/[^/]+)*?/tmp[a-z0-9_]{8})"  # also inside the directory of a run
    r"|(?P<run>(?:/[^/]+)*/(?:pytest-of-[^/]+/pytest-\d+(?:/popen-gw\d+)?|popen-gw\d+))"
    rf"|(?P<temporary>{_BASES}/[^/]+)"
    r"|(?P<home>/(?:home|Users)/[^/]+|/root)"
    r")(?=/|\Z)"
)
_NAME = re.compile(r"\.?\w{4,}")  # a random part; mktemp puts a dot before it
_END = ".!"  # punctuation after a path at the end of a sentence

_HEX = "[0-9a-fA-F]"
_UUID = (  # not beside a mark: it was part of a longer word before
    rf"(?<![0-9A-Za-z\0-])(?:{_HEX}{{8}}(?:-{_HEX}{{4}}){{3}}-{_HEX}{{12}}"
    rf"|{_HEX}{{12}}[1-8]{_HEX}{{3}}[89abAB]{_HEX}{{15}})(?![0-9A-Za-z\0-])"
)
_ONLY_UUID = re.compile(_UUID)
HOSTS = r"(?:localhost|127\.0\.0\.1|\[::1\]|0\.0\.0\.0)"
_PORT = rf"(?<=://)(?P<host>{HOSTS}):(?P<port>\d{{1,5}})(?!\d)"

_MONTHS = "Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec"
_CLOCK = r"(?:[01]\d|2[0-3]):[0-5]\d"
_DATE = r"\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])"
_TIMES = (
    rf"(?P<time>(?<!\d){_DATE}[T ]{_CLOCK}(?::[0-5]\d(?:[.,]\d+)?)?(?: ?(?:Z|UTC|[+-]\d\d:?\d\d))?(?!\d)"
    r"|(?<!\d)\d{8}T\d{6}Z?(?!\d)"
    rf"|(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d{{1,2}} (?:{_MONTHS}) \d{{4}} {_CLOCK}:[0-5]\d (?:GMT|UTC|[+-]\d{{4}}))"
    rf"|(?P<date>(?<!\d){_DATE}(?!\d))"
    rf"|(?P<clock>(?<![\d:]){_CLOCK}:[0-5]\d(?:[.,]\d+)?(?![\d:]))"
)
# Seconds since 1970 look like any number, so the key decides. Milliseconds and smaller units are distinctive.
_SECONDS = (10**9, 4_102_444_800)
_TIMELY = re.compile(r"(?i)time|date|(?:^|_)(?:at|ts|now|since|until|after|before|expir\w*)(?:_|$)|[a-z]At$")


class VaryingValue(NamedTuple):
    """A varying part of a value: a path's root, an id, a port, a number, the day of a time."""

    kind: str
    text: Any


Pair = tuple[VaryingValue, VaryingValue]  # recorded and live


class Form:
    """Applies a set of normalizers to values."""

    def __init__(self, normalizers: Iterable[Normalizer]) -> None:
        given = list(normalizers)
        self.names = names = frozenset(one.name for one in given)
        self._functions = [one.function for one in given if one.function is not None]
        self._spaces, self._case, self._times = "space" in names, "case" in names, "times" in names
        tolerances = [one.tolerance for one in given if one.tolerance is not None]
        self._tolerance = max(tolerances, key=float) if tolerances else None
        flags = re.I if self._case else 0
        self._root = re.compile(_ROOT, flags)
        readers: dict[str, tuple[str, Callable[[re.Match[str], list[VaryingValue]], str]]] = {
            "paths": (_PATH, self._mark_path),
            "uuids": (_UUID, _mark_uuid),
            "ports": (_PORT, _mark_port),
            "times": (_TIMES, _mark_time),
        }
        self._readers = [(re.compile(source, flags), read) for name, (source, read) in readers.items() if name in names]

    def read(self, value: Any) -> tuple[Any, list[VaryingValue]]:
        """Return a value with its varying parts replaced by marks, and those parts, in the order of sorted keys.

        Two values may match if the marked values are equal and the varying parts pair up one by one.
        """
        found: list[VaryingValue] = []
        return self._read(value, "", found), found

    def _read(self, value: Any, key: str, found: list[VaryingValue]) -> Any:
        if isinstance(value, dict):
            return {name: self._read(value[name], name, found) for name in sorted(value)}
        if isinstance(value, list):
            return [self._read(item, key, found) for item in value]
        shape, inner = self.normalize_leaf(value, key)
        found += inner
        return shape

    def normalize_leaf(self, value: Any, key: str = "") -> tuple[Any, list[VaryingValue]]:
        """Return a leaf value, normalized, and its varying parts, in order. `key`: the member that holds it."""
        found: list[VaryingValue] = []
        for function in self._functions:
            value = _call_normalizer(function, value)
        if isinstance(value, str):
            return self._normalize_text(value, key, found), found
        if not _is_number(value):
            return value, found
        if self._times and _is_epoch(value, key):
            return "\0time\0", [VaryingValue("day", _epoch_day(value))]
        if self._tolerance is not None:
            return "\0number\0", [VaryingValue("number", value)]
        return value, found

    def pair_leaves(self, recorded: Any, live: Any, key: str = "") -> list[Pair] | None:
        """Return the pairs under which two leaves are the same; None if they are not.

        A placeholder in the recorded leaf matches any text.
        """
        one, ours = self.normalize_leaf(recorded, key)
        other, theirs = self.normalize_leaf(live, key)
        if type(one) is not type(other) or one != other:
            is_hidden = isinstance(one, str) and MARK in one and match.fits_redacted(one, other)
            return [] if is_hidden else None
        return self.pair_values(ours, theirs)

    def comparable_leaves(self, recorded: Any, live: Any, key: str = "") -> tuple[Any, Any]:
        """Return the values to compare for two leaves: equal ones if the leaves are the same."""
        if self.pair_leaves(recorded, live, key) is not None:
            return live, live
        one, other = (value if _is_number(value) else self.normalize_leaf(value, key)[0] for value in (recorded, live))
        return (one, other) if one != other else (recorded, live)

    def pair_values(self, recorded: list[VaryingValue], live: list[VaryingValue]) -> list[Pair] | None:
        """Return the pairs of varying parts of two values with equal shapes; None if they can't be paired."""
        if len(recorded) != len(live):  # a value contained marks of its own
            return None
        pairs = list(zip(recorded, live, strict=True))
        return pairs if all(self._may_pair(*pair) for pair in pairs) else None

    @property
    def is_tolerant(self) -> bool:
        """Whether numbers may differ."""
        return self._tolerance is not None

    def pairs(self, recorded: Any, live: Any, key: str = "") -> Iterator[Pair]:
        """Yield the pairs of varying parts in all leaves of two values that are the same."""
        if isinstance(recorded, dict) and isinstance(live, dict):
            for name in sorted(recorded.keys() & live.keys()):
                yield from self.pairs(recorded[name], live[name], name)
        elif isinstance(recorded, list) and isinstance(live, list):
            for one, other in zip(recorded, live, strict=False):
                yield from self.pairs(one, other, key)
        elif not isinstance(recorded, dict | list) and not isinstance(live, dict | list):
            yield from self.pair_leaves(recorded, live, key) or ()

    def _may_pair(self, recorded: VaryingValue, live: VaryingValue) -> bool:
        if recorded.kind == "number":
            return live.kind == "number" and _is_close(recorded.text, live.text, self._tolerance or "0")
        if recorded.kind != live.kind:
            return False
        return recorded.kind != "temporary" or are_random(_last_name(recorded.text), _last_name(live.text))

    def _normalize_text(self, text: str, key: str, found: list[VaryingValue]) -> str:
        if self._spaces:
            text = " ".join(text.split())
        if self._times and text.isascii() and text.isdecimal() and _is_epoch(int(text[:20]), key):
            found.append(VaryingValue("day", _epoch_day(int(text[:20]))))
            return "\0time\0"
        for pattern, read in self._readers:
            text = pattern.sub(lambda hit, read=read: read(hit, found), text)  # type: ignore[misc]
        if not self._case:
            return text
        return _lower_but_placeholders(text) if MARK in text else text.lower()

    def _mark_path(self, hit: re.Match[str], found: list[VaryingValue]) -> str:
        whole = hit[0]
        bare = whole.rstrip(_END)
        root = None if whole.startswith("\0") else self._root.match(bare)
        if root is None:
            return whole
        group = str(root.lastgroup)
        kind = "temporary" if group == "made" else group
        found.append(VaryingValue(kind, root[group]))
        return f"\0{kind}\0{whole[root.end() :]}"


def _mark_uuid(hit: re.Match[str], found: list[VaryingValue]) -> str:
    found.append(VaryingValue("uuid", hit[0]))
    return "\0uuid\0"


def _mark_port(hit: re.Match[str], found: list[VaryingValue]) -> str:
    found.append(VaryingValue("port", hit["port"]))
    return f"{hit['host']}:\0port\0"


def _mark_time(hit: re.Match[str], found: list[VaryingValue]) -> str:
    if hit.lastgroup != "clock":
        found.append(VaryingValue("day", _day(hit[0])))
    return f"\0{hit.lastgroup}\0"


def _day(text: str) -> int | None:
    """The ordinal of a date; None if it is not a valid date."""
    digits = "".join(filter(str.isdigit, text[:10]))
    try:
        parts = parsedate(text)[:3] if text[:1].isalpha() else (digits[:4], digits[4:6], digits[6:8])  # type: ignore[index]
        return date(*map(int, parts)).toordinal()
    except (TypeError, ValueError):
        return None


def _epoch_day(value: Any) -> int:
    """The ordinal of the day of a time since 1970, in any unit."""
    last = _SECONDS[1]
    while abs(value) >= last:
        value /= 1000
    return date(1970, 1, 1).toordinal() + int(value // 86_400)


def _is_epoch(value: Any, key: str) -> bool:
    first, last = _SECONDS
    if not abs(value) < last * 10**9:
        return False
    whole = int(value)
    if first <= whole < last:
        return value != whole or _TIMELY.search(key) is not None
    return any(first * unit <= whole < last * unit for unit in (10**3, 10**6, 10**9))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_close(one: Any, other: Any, tolerance: str) -> bool:
    """Compare numbers in decimal: 0.3 and 0.2 are 0.1 apart."""
    return one == other or abs(Decimal(str(one)) - Decimal(str(other))) <= Decimal(tolerance)


def distance(pairs: Iterable[Pair]) -> Decimal:
    """Return the sum of the distances between paired numbers."""
    numbers = [(one.text, other.text) for one, other in pairs if one.kind == "number"]
    return sum((abs(Decimal(str(one)) - Decimal(str(other))) for one, other in numbers), Decimal(0))


def _last_name(path: str) -> str:
    return path.rpartition("/")[2]


def are_random(one: str, other: str) -> bool:
    """Return whether two names are equal except for a random part, as one call that makes up names returns them.

    Such as `tempfile`, `mktemp` and `fs.mkdtemp`: https://docs.python.org/3/library/tempfile.html#tempfile.mkdtemp
    """
    if one == other or all(map(_ONLY_UUID.fullmatch, (one, other))):
        return True
    is_tmp = one.startswith("tmp") and other.startswith("tmp")
    head = 3 if is_tmp else _common_head(one, other)
    (one, ending), (other, other_ending) = _split_ending(one[head:]), _split_ending(other[head:])
    is_made_up = is_tmp or _looks_random(one) or _looks_random(other)
    are_names = _NAME.fullmatch(one) and _NAME.fullmatch(other)
    return bool(is_made_up and are_names and len(one) == len(other) and ending == other_ending)


def _split_ending(name: str) -> tuple[str, str]:
    dot = name.find(".", 1)
    return (name, "") if dot < 0 else (name[:dot], name[dot:])


def _common_head(one: str, other: str) -> int:
    """Return the length of the common beginning of two names, up to a separator."""
    same = next((at for at, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), 0)
    return max(one.rfind(mark, 0, same) for mark in "-_.") + 1


def _looks_random(name: str) -> bool:
    return any(map(str.isdigit, name)) or (name != name.lower() and name != name.upper())


def _lower_but_placeholders(text: str) -> str:
    done, parts = 0, []
    for hit in PLACEHOLDER.finditer(text):
        parts += [text[done : hit.start()].lower(), hit[0]]
        done = hit.end()
    return "".join([*parts, text[done:].lower()])


def _call_normalizer(function: Callable[[Any], Any], value: Any) -> Any:
    """Apply a normalizer to a value. Refuse a result that JSON can't hold: it may differ each time."""
    name = getattr(function, "__qualname__", repr(function))
    try:
        made = function(value)
    except Exception as error:
        raise TapeError(
            f"the normalizer {name} has failed: {type(error).__name__}: {hide_secrets(str(error))}"
        ) from error
    if made is not None and not isinstance(made, str | int | float | list | dict):
        what = f"a value of the type {type(made).__name__}"
        raise TapeError(f"the normalizer {name} has returned {what}; it must be one of JSON: a text, a number, None …")
    return made


def explaining_normalizer(recorded: Any, live: Any, step: str | int) -> str | None:
    """Return the first built-in normalizer that makes two values at the end of a path the same."""
    if any(isinstance(value, dict | list) or match.is_absent(value) for value in (recorded, live)):
        return None
    forms = ((name, Form([Normalizer(name)])) for name in READY)
    return next((name for name, form in forms if form.pair_leaves(recorded, live, str(step)) is not None), None)

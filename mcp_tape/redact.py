"""Hides known secrets before anything is written anywhere.

Secrets are found on decoded strings and replaced in the verbatim text by the string's span, so all
else stays as it crossed the wire. It fails closed: what cannot be redacted is not kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from . import jsontext, protocol, secrecy
from .jsonpath import compile_path
from .jsontext import Path, Splice

FAILED = b"[redacted:failed]"
_MARK = "[redacted:"
_MOST_SEEN = 512  # values found under secret keys that are looked for later; the newest count
_ESCAPED_ASCII = re.compile(r"\\u00[0-7]|\\/")
_PEM_BEGIN = re.compile(r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY")
_PEM_END = re.compile(r"-----END (?:[A-Z0-9]+ )*PRIVATE KEY")
_PEM_LINES = 400  # a key that never ends must not swallow the rest of the log


@dataclass(frozen=True, slots=True)
class Redacted:
    """Text to store, the text that match keys are made of, and how many values were hidden."""

    text: bytes
    matched: bytes
    count: int


class _SecretNames(dict[str, bool]):
    """Remembers which names are secret: traffic repeats the same few keys."""

    def __init__(self, more: frozenset[str]) -> None:
        self._more = more

    def __missing__(self, name: str) -> bool:
        if len(self) > 10_000:
            self.clear()
        bare = name.strip('"').lstrip("-")
        self[name] = secret = secrecy.is_secret_key(bare) or _fold(bare) in self._more
        return secret


class Redactor:
    """Redacts the frames of one session: what it saw under a secret key, it hides later too."""

    def __init__(
        self,
        environ: Mapping[str, str],
        keys: Iterable[str] = (),
        paths: Iterable[str] = (),
        values: Iterable[str] = (),
    ) -> None:
        self._names = _SecretNames(frozenset(map(_fold, keys)))
        self._paths = [(source, compile_path(source)) for source in paths]
        self._rules: list[tuple[str, re.Pattern[str]]] = [("value", re.compile(v)) for v in values]
        self._hint = re.compile("|".join([secrecy.HINT, *(f"(?:{v})" for v in values)]))
        self._shapes = [(f"shape:{name}", re.compile(shape)) for name, shape in secrecy.SHAPES.items()]
        self._environ = _environment(environ)
        self._literals = _any_of(self._environ)
        self._odd_literals = any(_is_escaped_in_json(value) for value in self._environ)
        self._seen: dict[str, str] = {}
        self._seen_pattern: re.Pattern[str] | None = None
        self._pem: dict[str, int] = {}  # lines left, per channel within a private key

    def redact(self, text: bytes, channel: str = "") -> Redacted:
        """The text without its secrets."""
        source = text.decode("utf-8", "surrogateescape")
        in_pem = self._in_private_key(channel, source)
        if in_pem is not None:
            hidden = in_pem.encode()
            return Redacted(hidden, hidden, 1)
        if not self._suspicious(source):
            return Redacted(text, text, 0)
        document = _is_json(source)
        static, count = self._document(source) if document else self._free_text(source)
        stored, later = self._hide_seen(static, document)
        return Redacted(
            stored.encode("utf-8", "surrogateescape"),
            static.encode("utf-8", "surrogateescape"),
            count + later,
        )

    def arguments(self, command: Iterable[str]) -> list[str]:
        """A command line without its secrets: `--api-key V`, `--api-key=V`, `K=V` and shapes."""
        out: list[str] = []
        flag = ""
        for word in command:
            if flag and not secrecy.is_flag(word):
                self._see(word, flag.lstrip("-"))
                out.append(_mark(f"key:{flag.lstrip('-')}"))
            else:
                name, equals, value = word.partition("=")
                if equals and value and self._names[name]:
                    self._see(value, name.lstrip("-"))
                    out.append(f"{name}={_mark('key:' + name.lstrip('-'))}")
                else:
                    out.append(self._free_text(word)[0])
            flag = word if secrecy.is_flag(word) and self._names[word] else ""
        return out

    def _suspicious(self, source: str) -> bool:
        """Whether a closer look is needed: quick, and never wrong when it says no."""
        return bool(
            self._hint.search(source)
            or any(map(self._names.__getitem__, secrecy.NAMES.findall(source)))
            or (self._literals and self._literals.search(source))
            or (self._seen_pattern and self._seen_pattern.search(source))
            or self._paths
            or ("\\" in source and (self._odd_literals or _ESCAPED_ASCII.search(source)))
        )

    def _document(self, source: str) -> tuple[str, int]:
        splices: list[Splice] = []
        for path, start, end in jsontext.values(source):
            for name, fits in self._paths:
                if fits(path):
                    splices.append((start, end, jsontext.quote(_mark(f"path:{name}"))))
            if source[start] != '"' or end - start < 5:
                continue
            named = tuple(step for step in path if isinstance(step, str))
            if named in protocol.UNTOUCHED:
                continue
            value = jsontext.unquote(source[start:end])
            hidden = self._string(value, named)
            if hidden != value:
                splices.append((start, end, jsontext.quote(hidden)))
        return jsontext.splice(source, splices), len(splices)

    def _string(self, value: str, named: Path) -> str:
        key = named[-1] if named else ""
        if self._names[str(key)] and not value.startswith(_MARK) and not _in_schema(named):
            self._see(value, str(key))
            return _mark(f"key:{key}")
        return self._free_text(value)[0]

    def _free_text(self, text: str) -> tuple[str, int]:
        count = 0
        if self._literals:
            text, n = self._literals.subn(lambda m: _mark(f"env:{self._environ[m.group()]}"), text)
            count += n
        for name, rule in (*self._rules, *self._shapes):
            text, n = _hide(rule, name, text)
            count += n
        text, n = self._assignments(text)
        return text, count + n

    def _assignments(self, text: str) -> tuple[str, int]:
        splices: list[Splice] = []
        for found in secrecy.ASSIGNMENT.finditer(text):
            name, value = found["name"], found["value"]
            spaced = not found["by"].strip()  # `--api-key V`: only options part name and value so
            if spaced and not found.group().startswith("-"):
                continue
            if found["next"] != "(" and self._names[name] and secrecy.looks_assigned(value):
                self._see(value, name)
                splices.append((found.start("value"), found.end("value"), _mark(f"key:{name}")))
        return jsontext.splice(text, splices), len(splices)

    def _see(self, value: str, key: str) -> None:
        if not secrecy.is_distinctive(value) or value in self._seen or value.startswith(_MARK):
            return
        if len(self._seen) >= _MOST_SEEN:
            del self._seen[next(iter(self._seen))]
        self._seen[value] = key
        self._seen_pattern = _any_of(self._seen)

    def _hide_seen(self, source: str, document: bool) -> tuple[str, int]:
        """Storage only, never part of a match key: it depends on what the session held before."""
        pattern = self._seen_pattern
        if pattern is None:
            return source, 0

        def hide(text: str) -> str:
            return pattern.sub(lambda m: _mark(f"key:{self._seen[m.group()]}"), text)

        if not document:
            hidden = hide(source)
            return hidden, int(hidden != source)
        splices: list[Splice] = []
        for path, start, end in jsontext.values(source):
            if source[start] != '"' or tuple(s for s in path if isinstance(s, str)) in protocol.UNTOUCHED:
                continue
            value = jsontext.unquote(source[start:end])
            hidden = hide(value)
            if hidden != value:
                splices.append((start, end, jsontext.quote(hidden)))
        return jsontext.splice(source, splices), len(splices)

    def _in_private_key(self, channel: str, source: str) -> str | None:
        """A key printed over several lines is hidden line by line, as each line is a frame."""
        left = self._pem.pop(channel, 0)
        begins, ends = _PEM_BEGIN.search(source), _PEM_END.search(source)
        if begins and not ends and not _is_json(source):
            self._pem[channel] = _PEM_LINES
        elif left and not ends:
            self._pem[channel] = left - 1
        return _mark("shape:private-key") if left else None


def _environment(environ: Mapping[str, str]) -> dict[str, str]:
    return {
        value: name for name, value in environ.items() if secrecy.is_secret_env(name) and secrecy.is_env_value(value)
    }


def _any_of(values: Iterable[str]) -> re.Pattern[str] | None:
    longest_first = sorted(values, key=len, reverse=True)
    return re.compile("|".join(map(re.escape, longest_first))) if longest_first else None


def _is_escaped_in_json(value: str) -> bool:
    return not value.isascii() or jsontext.quote(value) != f'"{value}"'


def _hide(rule: re.Pattern[str], name: str, text: str) -> tuple[str, int]:
    def hidden(found: re.Match[str]) -> str:
        if "hide" not in rule.groupindex:
            return _mark(name)
        if found["hide"].startswith(_MARK):
            return found.group()
        before, after = found.span("hide")
        whole, at = found.group(), found.start()
        return whole[: before - at] + _mark(name) + whole[after - at :]

    return rule.subn(hidden, text)


def _in_schema(named: Path) -> bool:
    return not protocol.SCHEMA_KEYS.isdisjoint(named)


def _is_json(source: str) -> bool:
    if not source.lstrip(" \t\r\n").startswith(("{", "[")):
        return False
    try:
        jsontext.loads(source)
    except ValueError:
        return False
    except RecursionError:  # too deep to parse, not to scan
        return True
    return True


def _mark(source: str) -> str:
    return f"{_MARK}{source}]"


def _fold(name: str) -> str:
    return re.sub(r"[-_. ]", "", name).lower()

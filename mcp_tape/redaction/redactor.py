"""The redactor: hides known secrets before anything is written.

It finds secrets in decoded strings and replaces them in the verbatim text by the span of the string, so that the rest
stays as it crossed the wire. It fails closed: a text that cannot be redacted is not kept.
"""

from __future__ import annotations

import re
from binascii import a2b_base64
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress

from ..light import NamedTuple, pattern
from ..wire import jsontext, protocol, secret_names
from ..wire.channels import STDERR
from ..wire.jsontext import PathNumbers, Splice
from ..wire.secret_names import AMBIGUOUS_KEYS, MARK, PLACEHOLDER, fold
from . import command_lines, hiding_rules, shapes
from .hiding_rules import OwnRules, Rule, mark
from .literals import Literals
from .strings import Names, StringValue, StringValues, is_json, json_within, replace_strings

TYPE_CHECKING = False  # as in the package's __init__
if TYPE_CHECKING:
    from typing import Any

FAILED = mark("failed").encode()
# Values seen under secret keys, hidden later: the newest ones only, up to a length.
_MOST_SEEN, _LONGEST_SEEN = 256, 8192
_MOST_ENVIRON = 1000
_LONG = 1 << 16
_SHORTEST = 6  # characters below which only a user's rules apply
_PAYLOAD = pattern(r"(?:data:[\w/+.;=-]{0,100},)?[A-Za-z0-9+/]{1000,}={0,2}")
_PAYLOADS = pattern(rb'"[A-Za-z0-9+/]{1000,}={0,2}"')
_ESCAPED_ASCII = pattern(rb"(?<!\\)\\+(?:u00([2-7][0-9A-Fa-f])|/)")
_URL_PASSWORD = pattern(r"://[^/\s:@]*:([^/\s@]{8,})@")
_COOKIE = pattern(r"(?:\A|; ?)[\w.-]{1,64}=([^;\s\"]{8,})(?=;|\Z)")
_LABELS = ("name", "key", "header")  # {"name": "X-Api-Key", "value": V}
_LONGEST_LABEL = 100


class RedactedText(NamedTuple):
    """The text to store, the text that match keys are made of, and the number of hidden values."""

    text: bytes
    matched: bytes
    hidden: int


class _Look(NamedTuple):
    """The rules to apply to one text, in order. In a JSON Schema, names have no meaning."""

    rules: tuple[Rule, ...]
    in_schema: tuple[Rule, ...]


_SEEN_ONLY = _Look((), ())  # only values seen before can occur


class _SecretNames(dict[str, bool]):
    """A cache of which names are secret: the same few keys recur in traffic."""

    def __init__(self, more: frozenset[str]) -> None:
        self._more = more

    def __missing__(self, name: str) -> bool:
        bare = name.removeprefix(protocol.PARAM_HEADER)
        secret = secret_names.is_hidden_key(bare) or (bool(self._more) and fold(bare) in self._more)
        if len(self) < 10_000 and len(name) <= 100:
            self[name] = secret
        return secret


class Redactor:
    """Redacts the frames of one session. A value seen under a secret key is hidden wherever it occurs later."""

    def __init__(
        self,
        environ: Mapping[str, str],
        keys: Iterable[str] = (),
        paths: Iterable[str] = (),
        values: Iterable[str] = (),
        functions: Iterable[Rule] = (),
        headers: Iterable[tuple[str, str]] = (),
        most_seen: int | None = None,
        known: Iterable[tuple[str, str]] = (),
    ) -> None:
        """`known`: variables that are missing from the environment, or have another value there."""
        self._own = OwnRules(keys, paths, values, functions)
        self._names = _SecretNames(self._own.names)
        self._environ = Literals(_MOST_ENVIRON)
        for name, value in (*environ.items(), *known):
            if hidden := hidden_part(name, value):
                self._environ.add(hidden, f"env:{name}")
        for name, value in headers:
            for word in (value, value.rpartition(" ")[2]):  # Bearer TOKEN
                if secret_names.is_distinctive(word):
                    self._environ.add(word, f"header:{name}")
        self._seen = Literals(_MOST_SEEN if most_seen is None else most_seen)
        self._assignments = hiding_rules.assignment_rule(self._names.__getitem__, self._may_name, self._see)
        self._private_keys = shapes.PrivateKeys()

    def clears(self, lines: bytes) -> bool:
        """Return whether none of several lines has anything to hide. One check of all is faster than one of each."""
        # A user's patterns and functions take single strings, and long texts are checked without their payloads.
        each_by_itself = self._private_keys or self._own.rules or len(lines) > _LONG
        return not each_by_itself and self._look(lines, in_detail=False) is None

    def redact(self, text: bytes, channel: str = "", session: int = 0) -> RedactedText:
        """Redact a frame's text. `session`: its number, if one redactor serves several sessions."""
        if self._private_keys and self._private_keys.holds(text, (session, channel)):
            hidden = mark("shape:private-key").encode()
            return RedactedText(hidden, hidden, 1)
        look = self._look(text)
        if look is None:
            return RedactedText(text, text, 0)
        source = text.decode("utf-8", "surrogateescape")
        static, is_document = self._hide_static(source, look, channel)
        if not is_document:
            self._private_keys.watch(source, (session, channel))
        stored = self._hide_seen(static, _within(channel), is_document)
        if stored == source:
            return RedactedText(text, text, 0)
        count = max(1, stored.count(MARK) - source.count(MARK))
        kept = _bytes(stored)
        return RedactedText(kept, kept if stored is static else _bytes(static), count)

    facts = redact  # of a control frame: redacted like a message

    def learn(self, text: bytes, channel: str = "") -> None:
        """Remember the values of secret names in a text, to hide them elsewhere. Paths and patterns are not applied."""
        look = self._look(text, names_only=True)
        if look is not None:
            self._hide_static(text.decode("utf-8", "surrogateescape"), look, channel)

    def remember(self, secrets: Mapping[str, str]) -> None:
        """Hide values wherever they occur from now on."""
        for name, value in secrets.items():
            self._see(value, name)

    def text(self, text: str) -> str:
        """Redact a diagnostic, or any other text."""
        hidden = self.redact(_bytes(text)).text.decode("utf-8", "surrogateescape")
        self._private_keys.leave((0, ""))  # the next text does not continue this one
        return hidden

    def remark(self, text: str) -> str:
        """Redact a text for display, not for parsing: keys of JSON within it are redacted too."""
        text = self.text(text)
        look = self._look(_bytes(text))
        return self._seen.hide(hiding_rules.settle(text, look.rules)) if look else text

    def arguments(self, command: Iterable[str]) -> list[str]:
        """Redact a command line: `--api-key V`, `--api-key=V`, `K=V`, and secrets within a word."""
        words = list(command)
        out = []
        for word, secret in zip(words, command_lines.find_word_secrets(words, self._names.__getitem__), strict=True):
            at, name = secret or (len(word), "")
            out.append(self.text(word[:at]) + self._under(name, word[at:]))
        return out

    def target(self, target: Mapping[str, Any]) -> dict[str, Any]:
        """Redact the target of a recording: a command line or a URL."""
        hidden = {name: self.text(value) if isinstance(value, str) else value for name, value in target.items()}
        return hidden | ({"command": self.arguments(target["command"])} if "command" in target else {})

    def _look(self, text: bytes, names_only: bool = False, in_detail: bool = True) -> _Look | None:
        """Return the rules to apply, or quickly None if there are none.

        With `names_only`, a user's rules are reduced to names. Without `in_detail`, the result only shows whether there
        may be something to hide.
        """
        probe = _PAYLOADS.sub(b'""', text) if len(text) > _LONG else text
        literal = self._environ.occur(text)
        if b"\\" in probe:
            probe = _ESCAPED_ASCII.sub(_decode_escape, probe)
            # An escape that decodes to another escape: nobody writes that, and it must not be a way to hide.
            if _ESCAPED_ASCII.search(probe):
                return self._rules(shapes.ALL, True)
            literal = literal or self._environ.occur(probe)
        named = secret_names.may_name_secrets(probe)
        if named and not in_detail:
            return _SEEN_ONLY
        found = shapes.hinted_shapes(probe, named)
        own = self._own.may_name(probe) if names_only else self._own.may_hide(text, probe)
        if named or found or literal or own:
            return self._rules(found, named or own)
        if names_only:
            return None
        return _SEEN_ONLY if self._seen.occur(text) or (probe is not text and self._seen.occur(probe)) else None

    def _may_name(self, text: bytes) -> bool:
        return secret_names.may_name_secrets(text) or self._own.may_name(text)

    def _rules(self, found: Iterable[shapes.Shape], named: bool) -> _Look:
        # Rules that hide more go first: a token within a cookie must not split the cookie.
        by_name = [hiding_rules.shape_rule(shape, self._see) for shape in found if shape in shapes.NAMED]
        by_shape = [hiding_rules.shape_rule(shape) for shape in found if shape not in shapes.NAMED]
        exact = (self._environ.hide, *self._own.rules, *by_shape)
        return _Look((*by_name, *([self._assignments] if named else ()), *exact), (*by_name, *exact))

    def _hide_static(self, source: str, look: _Look, channel: str) -> tuple[str, bool]:
        """Return a text without the secrets that it reveals on its own, and whether it is JSON."""
        if not is_json(source):
            return self._free_text(source, look, _within(channel)), False
        if look is _SEEN_ONLY:
            return source, True
        return self._document(self._hide_places(source) if self._own.paths else source, look, _within(channel)), True

    def _document(self, source: str, look: _Look, within: Names) -> str:
        values = StringValues(source)
        labels = self._find_labels(source, values) if self._assignments in look.rules else {}
        return replace_strings(
            source, values, within, lambda value, start, named: self._string(value, named, look, labels.get(start))
        )

    def _string(self, value: str, named: Names, look: _Look, label: str | None) -> str:
        in_schema = not protocol.SCHEMA_KEYS.isdisjoint(named)
        if not in_schema:
            key = str(named[-1]) if named else ""
            if self._names[key] or secret_names.is_ambiguous_secret(key, value):
                return self._under(key, value)
            if label and self._is_labelled(label, value):
                return self._under(label.lstrip("-"), value)
        if len(value) < _SHORTEST and not self._own.rules:
            return value
        if _PAYLOAD.fullmatch(value):
            return self._environ.hide(value)  # an image: anything like a token in it is chance
        return self._free_text(value, _Look(look.in_schema, look.in_schema) if in_schema else look, named)

    def _is_labelled(self, label: str, value: str) -> bool:
        """Return whether a value that a neighbour names is secret."""
        name = label.lstrip("-")
        if not self._names[name]:
            return secret_names.is_ambiguous_secret(name, value) and (
                len(value) >= 8 or secret_names.looks_assigned(value, name)
            )
        return secret_names.looks_issued(value) or (label[0] == "-" and not secret_names.is_flag(value))

    def _under(self, name: str, value: str) -> str:
        """Return what to keep of a value under a secret name."""
        if not value or PLACEHOLDER.fullmatch(value) or secret_names.is_stand_in(value):
            return value
        self._see(value, name)
        return mark(f"key:{name}")

    def _free_text(self, text: str, look: _Look, named: Names) -> str:
        """Redact free text and JSON within it, until nothing more is found."""
        before = None
        while text != before:
            before = text
            start, end = json_within(text)
            if start < end:
                inner = self._document(text[start:end], look, (*named, ""))
                text = (
                    hiding_rules.settle(text[:start], look.rules) + inner + hiding_rules.settle(text[end:], look.rules)
                )
            else:
                text = hiding_rules.settle(text, look.rules)
                if "{" not in text and text[:1] != "[":
                    break  # no JSON was uncovered
        return text

    def _find_labels(self, source: str, values: Iterable[StringValue]) -> dict[int, str]:
        """Return the starts of values that a neighbour names: {"name": N, "value": V}, ["--flag", V], [N, V]."""
        if not self._may_label(source, values):
            return {}
        places, labels = PathNumbers(), dict[int, str]()
        for place, start, end in jsontext.walk(source, 0, places.number_below):
            if not place or source[start] != '"' or end - start > _LONGEST_LABEL:
                continue
            within, step = places.last_step(place)
            if step not in _LABELS and not isinstance(step, int):
                continue
            word = jsontext.unquote(source[start:end])
            if not self._may_be_label(word):
                continue
            if step in _LABELS:
                labels[places.number_below(within, "value")] = word
            elif step == 0 or (isinstance(step, int) and secret_names.is_flag(word)):
                labels[places.number_below(within, int(step) + 1)] = word
        spans = jsontext.walk(source, 0, places.number_below)
        return {start: labels[place] for place, start, _ in spans if place in labels}

    def _may_label(self, source: str, values: Iterable[StringValue]) -> bool:
        """Return whether a string may name a neighbour: fast, with false positives but no false negatives."""
        for start, end, names, listed in values:
            may = (listed or names[-1] in _LABELS) and end - start <= _LONGEST_LABEL
            if may and self._may_be_label(jsontext.unquote(source[start:end])):
                return True
        return False

    def _may_be_label(self, word: str) -> bool:
        """Return whether a string may be the name of a secret."""
        name = word.lstrip("-")
        return self._names[name] or fold(name) in AMBIGUOUS_KEYS

    def _hide_places(self, source: str) -> str:
        splices: list[Splice] = []
        for place, start, end in jsontext.walk(source, self._own.outermost, self._own.within):
            hidden = self._own.placeholder_at(place) if place.names not in protocol.UNTOUCHED else None
            splices += [(start, end, jsontext.quote(hidden))] if hidden else []
        return jsontext.splice(source, splices)

    def _see(self, value: str, name: str) -> None:
        if len(value) <= _LONGEST_SEEN:
            for part in (value, *_parts(value)):
                if secret_names.is_distinctive(part):
                    self._seen.add(part, f"key:{name}")

    def _hide_seen(self, source: str, within: Names, document: bool) -> str:
        """Hide values seen before, in the stored text only: match keys must not depend on earlier frames."""
        hide = self._seen.hide
        # An escape may stand for any character, so the decoded strings decide.
        if not self._seen or not ((document and "\\" in source) or self._seen.occur(_bytes(source))):
            return source
        if not document:
            return hide(source)
        return replace_strings(source, StringValues(source), within, lambda value, *_: hide(value))


def _parts(value: str) -> Iterator[str]:
    """Yield the parts of a value that may occur alone: a token after `Bearer`, a password after `Basic`, cookies."""
    scheme, _, rest = value.partition(" ")
    if scheme.isalpha() and rest and " " not in rest:
        yield rest
    if scheme.lower() == "basic":
        with suppress(ValueError):
            yield a2b_base64(rest).decode().partition(":")[2]
    for cookie in _COOKIE.finditer(value):
        if secret_names.looks_random(cookie[1]):
            yield cookie[1]


def _within(channel: str) -> Names:
    return (STDERR,) if channel == STDERR else ()  # no path on stderr belongs to the protocol


def hidden_part(name: str, value: str) -> str | None:
    """Return the secret part of a variable's value: all of it if the name is secret, or the password in a URL."""
    if secret_names.is_secret_env(name) and secret_names.is_distinctive(value) and not secret_names.is_path(value):
        return value
    password = _URL_PASSWORD.search(value)
    return password[1] if password and secret_names.is_distinctive(password[1]) else None


def _decode_escape(found: re.Match[bytes]) -> bytes:
    return bytes.fromhex(found[1].decode()) if found[1] else b"/"


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")

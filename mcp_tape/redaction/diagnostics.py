"""Redacted diagnostics of live traffic, by the rules that would redact its recording.

All text for a person, a report or a client's error passes through here. The redactor is loaded with the first remark,
because most replays make none.
"""

from __future__ import annotations

import os
from collections import deque

from ..light import NamedTuple
from ..wire import jsontext
from ..wire.channels import STDERR
from ..wire.secret_names import placeholder

TYPE_CHECKING = False  # as in the package's __init__
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, Protocol

    from .redactor import Redactor

    class RequestLike(Protocol):
        """A request, live or recorded."""

        @property
        def method(self) -> str | None: ...
        @property
        def name(self) -> str | None: ...


FAILED = placeholder("failed")
_REMEMBERED, _LONGEST = 256, 1 << 16  # messages kept to learn secrets from, and the most bytes of each


class Rules(NamedTuple):
    """Rules besides names and shapes: a user's own rules, and values known to be secret."""

    keys: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    functions: tuple[Callable[[str], str], ...] = ()
    named: tuple[str, ...] = ()  # functions, as module:function
    headers: tuple[tuple[str, str], ...] = ()
    environ: Mapping[str, str] = {}
    known: tuple[tuple[str, str], ...] = ()  # variables from elsewhere, such as .env files


_NONE = Rules()


def redactor(rules: Rules, most_seen: int | None = None) -> Redactor:
    from ..values import named_function
    from .redactor import Redactor

    functions = [*rules.functions, *map(named_function, rules.named)]
    own = rules.keys, rules.paths, rules.values, functions
    return Redactor(rules.environ, *own, headers=rules.headers, known=rules.known, most_seen=most_seen)


def hide_secrets(text: str) -> str:
    """Redact a text by this process's environment, for errors that quote a URL or a server."""
    return DiagnosticRedactor(Rules(environ=os.environ)).text(text)


class DiagnosticRedactor:
    """Hides whatever a recorder of the same conversation would hide. Fails closed instead of raising."""

    def __init__(self, rules: Rules = _NONE) -> None:
        self._rules = rules
        self._heard: deque[bytes] = deque(maxlen=_REMEMBERED)
        self._redactor: Redactor | None = None

    def hear(self, text: bytes) -> None:
        """Take a live message. Its values under secret names are hidden elsewhere too."""
        if len(text) <= _LONGEST:
            self._heard.append(text)

    def text(self, text: str) -> str:
        """Redact a remark or a name."""
        return self._redact_closed(lambda redactor: redactor.remark(text.encode("utf-8", "replace").decode()))

    def line(self, line: bytes) -> str:
        """Redact the next line of a server's stderr, where a private key may span several."""
        return self.text(
            self._redact_closed(lambda redactor: redactor.redact(line, STDERR).text.decode("utf-8", "replace"))
        )

    def command(self, words: Sequence[str]) -> str:
        return self._redact_closed(lambda redactor: " ".join(redactor.arguments(words)))

    def remark(self, text: str) -> str:
        """Redact a text and put it on one line.

        A name with line breaks must not forge lines of output, such as CI commands.
        """
        return " ".join(self.text(text).split())

    def call(self, asked: RequestLike) -> str:
        """Redact the method and name of a request, on one line."""
        return self.remark(" ".join(filter(None, (asked.method, asked.name))))

    def document(self, value: Any) -> Any:
        """Redact a JSON value, or return a placeholder if that fails."""

        def hide(redactor: Redactor) -> Any:
            text = jsontext.dumps(value).encode("utf-8", "surrogateescape")
            return jsontext.loads(redactor.redact(text).text.decode("utf-8", "surrogateescape"))

        return self._redact_closed(hide)

    def _redact_closed(self, hide: Callable[[Redactor], str]) -> str:
        """Redact. Fails closed, even if a user's function raises or a value is nested too deep."""
        try:
            if self._redactor is None:
                self._redactor = redactor(self._rules)
            while self._heard:
                self._redactor.learn(self._heard.popleft())
            return hide(self._redactor)
        except Exception:
            return FAILED

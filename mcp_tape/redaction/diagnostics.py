"""What is said of live traffic, without its secrets: by the same rules that a recording of it has.

All that reaches a person, a report or a client's error goes through here. Redaction is loaded when there is something
to say, as most replays have nothing.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from ..wire import jsontext
from ..wire.channels import STDERR
from ..wire.secret_names import placeholder

if TYPE_CHECKING:
    from .redactor import Redactor

FAILED = placeholder("failed")
_REMEMBERED, _LONGEST = 256, 1 << 16  # messages that are learnt from when something is to be said, and bytes of each


class Rules(NamedTuple):
    """What is to be hidden besides names and shapes: a user's own rules, and values that are known to be secret."""

    keys: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    functions: tuple[Callable[[str], str], ...] = ()
    named: tuple[str, ...] = ()  # functions, as module:function
    headers: tuple[tuple[str, str], ...] = ()
    environ: Mapping[str, str] = {}
    known: tuple[tuple[str, str], ...] = ()  # variables of others


_NONE = Rules()


class Asked(Protocol):
    """A request, live or recorded."""

    @property
    def method(self) -> str | None: ...
    @property
    def name(self) -> str | None: ...


def redactor(rules: Rules, most_seen: int | None = None) -> Redactor:
    """What hides by these rules."""
    from ..values import named_function
    from .redactor import Redactor

    functions = [*rules.functions, *map(named_function, rules.named)]
    own = rules.keys, rules.paths, rules.values, functions
    return Redactor(rules.environ, *own, headers=rules.headers, known=rules.known, most_seen=most_seen)


def hidden(text: str) -> str:
    """A text without what is known to be secret here: for errors that name a URL, or say what a server said."""
    return Discreet(Rules(environ=os.environ)).text(text)


class Discreet:
    """Hides in texts what a recorder of the same conversation would hide. It never raises: it fails closed."""

    def __init__(self, rules: Rules = _NONE) -> None:
        self._rules = rules
        self._heard: deque[bytes] = deque(maxlen=_REMEMBERED)
        self._redactor: Redactor | None = None

    def hear(self, text: bytes) -> None:
        """A live message: what stands under secret names in it is not repeated elsewhere."""
        if len(text) <= _LONGEST:
            self._heard.append(text)

    def text(self, text: str) -> str:
        """A remark, a name."""
        try:
            return self._loaded().remark(text.encode("utf-8", "replace").decode())
        except Exception:  # fails closed, also where a function of the user's raises
            return FAILED

    def line(self, line: bytes) -> str:
        """A line of a server's stderr, behind those before it: a private key is printed over several."""
        try:
            return self.text(self._loaded().redact(line, STDERR).text.decode("utf-8", "replace"))
        except Exception:
            return FAILED

    def command(self, words: Sequence[str]) -> str:
        """A command line."""
        try:
            return " ".join(self._loaded().arguments(words))
        except Exception:
            return FAILED

    def remark(self, text: str) -> str:
        """The same on one line: a name with a line break must not write lines of its own, such as a CI's commands."""
        return " ".join(self.text(text).split())

    def call(self, asked: Asked) -> str:
        """The method and name of a request, on one line."""
        return self.remark(" ".join(filter(None, (asked.method, asked.name))))

    def document(self, value: Any) -> Any:
        """A JSON value with its secrets hidden, or a placeholder in its place."""
        try:
            text = jsontext.dumps(value).encode("utf-8", "surrogateescape")
            return jsontext.loads(self._loaded().redact(text).text.decode("utf-8", "surrogateescape"))
        except Exception:  # fails closed, also for what is too deep
            return FAILED

    def _loaded(self) -> Redactor:
        if self._redactor is None:
            self._redactor = redactor(self._rules)
        while self._heard:
            self._redactor.learn(self._heard.popleft())
        return self._redactor

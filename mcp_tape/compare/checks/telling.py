"""Which call a change is of, where neither its place nor its values tell: one that was accepted stands for no other."""

from __future__ import annotations

from typing import Any

from ...wire import jsontext, match, protocol
from ..changes import ABSENT, Difference
from ..minted.bound import general_name

# That a call fails, or has no answer, is the same of every call of a tool.
_TELL_NOTHING = {
    "call-ok-to-error",
    "call-error-to-ok",
    "call-error-code-changed",
    "call-result-type-changed",
    "call-answer-malformed",
    "call-unanswered",
}
_MOST = 80  # characters of a request in a note
_MADE_UP = "*"


def tells_nothing(found: Difference) -> bool:
    """Whether a change needs its call to be told from others."""
    return found.rule in _TELL_NOTHING


def of_call(found: Difference, method: str, old: Any, new: Any) -> Difference:
    """A change with what its call asked for: the params of both sides, without what was made up."""
    what = _common(match.asked(method, old), match.asked(method, new))
    return found._replace(of=what, note="; ".join(filter(None, (found.note, _words(what)))))


def _common(old: Any, new: Any) -> Any:
    """A copy in which whatever differs, as ids do that the server gave, is the same each time."""
    if isinstance(old, dict) and isinstance(new, dict):
        return {general_name(key): _common(value, new.get(key, ABSENT)) for key, value in old.items()}
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        return [_common(*pair) for pair in zip(old, new, strict=True)]
    return old if jsontext.canonical(old) == _canonical(new) else _MADE_UP


def _canonical(value: Any) -> bytes:
    return b"" if value is ABSENT else jsontext.canonical(value)


def _words(what: Any) -> str:
    given = protocol.member(what, "arguments")
    text = jsontext.compact(given) if given else ""
    return f"asked with {text if len(text) <= _MOST else text[:_MOST] + '…'}" if text else ""

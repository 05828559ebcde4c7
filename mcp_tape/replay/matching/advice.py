"""The rung of matching that would answer a miss, as advice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from ...redaction.diagnostics import Discreet
from ...wire import match
from ...wire.frames import Message
from ...wire.jsontext import Path
from . import nearness, targets
from .ladder import Plan
from .normal import explaining

Rung = tuple[str, Literal["ignore", "normalize", "match"], str]  # when to take it, the option, its value

_NEAR = 0.5  # how similar a recording is that may be advised
_VARYING = {
    "paths": "if only the directory is another", "times": "if it is only a time", "uuids": "if it is only an id",
    "ports": "if it is only a port", "case": "if capitals do not matter", "space": "if white space does not matter",
}  # fmt: skip


def rungs(
    message: Message,
    plan: Plan | None,
    recorded: Any,
    differing: Sequence[tuple[Path, Any, Any]],
    paths: Sequence[str],
    discreet: Discreet,
) -> list[Rung]:
    """Return the strictest rungs that would take a recording for a request, of those that were not asked for yet.

    `differing`: where they differ, with both values; `paths` is the same in words.
    """
    method = message.method or ""
    # To be pasted, so names must be as they are; one that hides something, or would break the line, is left out.
    own, name = (text if text and discreet.remark(text) == text else None for text in (method, message.name))

    def only_there(value: str) -> str:
        return targets.written(own, name, value) if own else value

    names = [explaining(old, new, path[-1]) for path, old, new in differing]
    asked_for = plan.form.names if plan and plan.form else ()
    found: list[Rung] = [
        (_VARYING[each], "normalize", each) for each in dict.fromkeys(names) if each and each not in asked_for
    ]
    rest = [path for path, explained in zip(paths, names, strict=True) if not explained]
    if len(rest) == 1:
        found.append(("if that may differ", "ignore", only_there(rest[0])))
    elif rest:
        live = match.asked(method, message.body.get("params"))
        two = (nearness.arguments(method, asked) for asked in (recorded, live))
        enough = int(nearness.similarity(*two) * 10) / 10
        manner = "nearest" if enough >= targets.NEAREST else f"nearest:{enough}"
        if enough >= _NEAR:
            found.append(("if the nearest recording will do", "match", only_there(manner)))
    return found

"""The rung of matching that would answer a miss, as advice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from ...redaction.diagnostics import Discreet
from ...wire import match
from ...wire.frames import Message
from ...wire.jsontext import Path
from . import targets
from .ladder import Plan, near_for
from .nearness import NEAREST, arguments, unread
from .normal import explaining

if TYPE_CHECKING:
    from ..selection import Selection

Rung = tuple[str, Literal["ignore", "normalize", "match"], str]  # when to take it, the option, its value

_NEAR = 0.5  # how similar a recording is that may be advised
_VARYING = {
    "paths": "if only the directory is another", "times": "if it is only a time", "uuids": "if it is only an id",
    "ports": "if it is only a port", "case": "if capitals do not matter", "space": "if white space does not matter",
}  # fmt: skip


def rungs(
    selection: Selection,
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
    if not rest:
        return found
    live = match.asked(method, message.body.get("params"))
    read = plan.form.compared if plan and plan.form else unread
    two = [match.counted(plan.counts, asked) if plan and plan.counts else asked for asked in (recorded, live)]
    near = near_for(selection, method, message.name, read).of(*(arguments(method, asked) for asked in two))
    enough = NEAREST if near >= NEAREST else int(near * 10) / 10
    if enough >= _NEAR and own:
        manner = "nearest" if enough == NEAREST else f"nearest:{enough}"
        found.append(("if it asks the same in other words", "match", only_there(manner)))
    if len(rest) == 1 and near < NEAREST:
        found.append(("if that may differ", "ignore", only_there(rest[0])))
    return found

"""Checks the calls of a test against a contract.

They are written to a temporary cassette, so that filters work exactly as in every command.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from os.path import join
from tempfile import TemporaryDirectory

from ..cassette.build import Builder, building
from ..cassette.reader import Cassette
from ..errors import count, harmless
from ..wire import frames, jsontext, protocol
from ..wire.channels import STDIO
from ..wire.frames import Exchange, Frame, Side
from .run import check
from .terms import Terms

_MADE = {"started_at": "1970-01-01T00:00:00Z", "target": {}, "recorder": "mcp-tape"}
_MOST_SHOWN = 10


def report(path: str, calls: Sequence[Exchange], terms: Terms) -> str | None:
    """The breaches, one line each, as the message of an AssertionError; None if there are none."""
    with TemporaryDirectory() as directory:
        place = join(directory, "calls.db")
        with building(place, place) as builder:
            numbers = _put(builder, calls)
        with Cassette(place) as cassette:
            broken = list(check(cassette, [1], terms))
    if not broken:
        return None
    lines = [f"{one.term}: {f'call {numbers[one.seq]}, ' if one.seq else ''}{one.why}" for one in broken]
    return "\n  ".join([f"{path}: the contract is broken", *map(harmless, lines), f"called: {_summary(calls)}"])


def _put(builder: Builder, calls: Sequence[Exchange]) -> dict[int, int]:
    """Write the calls in order; return the number of each, by the number of its frame."""
    builder.begin(_MADE)
    at, numbers = 0, {}
    for number, call in enumerate(calls, 1):
        rpc_id = number if call.id is None else jsontext.loads(call.id)
        message = {"jsonrpc": "2.0", "id": rpc_id}
        outcome = {name: value for name in ("result", "error") if (value := getattr(call, name)) is not None}
        params = {} if call.params is None else {"params": call.params}
        _add(builder, 2 * number - 1, at, "client", {**message, "method": call.method, **params})
        at += call.microseconds or 0
        if outcome:
            _add(builder, 2 * number, at, "server", message | outcome)
        numbers[2 * number - 1] = numbers[2 * number] = number
    return numbers


def _add(builder: Builder, seq: int, at: int, sender: Side, message: dict[str, object]) -> None:
    text = jsontext.dumps(message).encode()
    kind, messages = frames.parse(text)
    builder.add(Frame(seq, at, sender, STDIO, kind, text, b"\n"), messages)


def _summary(calls: Sequence[Exchange]) -> str:
    """The calls by name, the most frequent first."""
    titles = Counter(protocol.call_title(call.method, call.name) for call in calls)
    shown = [
        harmless(title) if times == 1 else f"{harmless(title)} ×{times}"
        for title, times in titles.most_common(_MOST_SHOWN)
    ]
    left = len(titles) - len(shown)
    return ", ".join([*shown, *([f"{left} more"] if left else [])]) or count(0, "call")

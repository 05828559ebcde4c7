"""Requests that are one piece of work: the rounds of a call that asks for input, and a task with its polls.

A server that needs input says so in its result, and the client sends the request again, with another id and with what
was asked for. A server that makes a task of a call answers with the task's id, and the client asks for it until it is
done: https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/tasks
"""

from __future__ import annotations

from typing import Any

from ..cassette.query.rows import Row
from ..wire import jsontext, protocol

_POLLS = (protocol.TASK, protocol.TASK_RESULT, protocol.TASK_CANCEL, protocol.TASK_UPDATE)
_ROUND, _STATE, _TASK = "inputResponses", "requestState", "taskId"
_LONGEST = 1 << 20  # characters that are looked into


class Spans:
    """Reads the rows of a session in their order, and tells the requests that continue others."""

    def __init__(self) -> None:
        self._roots: dict[int, int] = {}  # of requests that continue another
        self._waiting: dict[tuple[Any, ...], int] = {}  # what a later request names → the first one

    def root(self, row: Row, text: str) -> int | None:
        """The place of the first request of the work that a request of the client continues; None for others."""
        if row.kind == "response" and row.sender == "server" and row.answers is not None:
            self._answered(row, text)
        if row.kind != "request" or row.sender != "client":
            return None
        found = self._continued(row, text)
        if found is not None:
            self._roots[row.seq] = found
        return found

    def _continued(self, row: Row, text: str) -> int | None:
        if row.method in _POLLS:
            return self._waiting.get((_TASK, row.name))
        if _ROUND not in text and _STATE not in text:
            return None
        params = _member(text, "params")
        state, given = protocol.member(params, _STATE), protocol.member(params, _ROUND)
        if state is None and given is None:
            return None
        by_state = self._waiting.get((_STATE, str(state)))
        return self._waiting.get((_ROUND, row.method, row.name)) if by_state is None else by_state

    def _answered(self, row: Row, text: str) -> None:
        asks, may_be_task = row.status == "input-required", _TASK in text
        if row.answers is None or not (asks or may_be_task) or row.method in _POLLS:
            return
        root = self._roots.get(row.answers, row.answers)
        result = _member(text, "result")
        if asks:
            self._waiting[_ROUND, row.method, row.name] = root
            if (state := protocol.member(result, _STATE)) is not None:
                self._waiting[_STATE, str(state)] = root
        task = protocol.member(result, "task")
        number = protocol.member(result if task is None else task, _TASK)
        if isinstance(number, str):
            self._waiting[_TASK, number] = root


def _member(text: str, name: str) -> Any:
    if len(text) > _LONGEST:
        return None
    try:
        return protocol.member(jsontext.loads(text), name)
    except (ValueError, RecursionError):
        return None

"""Requests that belong to one call: the rounds of a call that asks for input, and a task with its polls.

A server that needs input returns a request for it, and the client repeats the call with another id and that input. A
server that runs a call as a task returns the task's id, and the client polls until the task is done:
https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/tasks
"""

from __future__ import annotations

from typing import Any

from ..cassette.query.rows import Row
from ..wire import jsontext, protocol

_POLLS = (protocol.TASK, protocol.TASK_RESULT, protocol.TASK_CANCEL, protocol.TASK_UPDATE)
_ROUND, _STATE, _TASK = "inputResponses", "requestState", "taskId"
_LONGEST = 1 << 20  # characters to parse


class Spans:
    """Reads the rows of a session in order, and finds the requests that continue others."""

    def __init__(self) -> None:
        self._roots: dict[int, int] = {}  # of requests that continue another
        self._waiting: dict[tuple[Any, ...], int] = {}  # the id or state that a later request names → the first request

    def root(self, row: Row, text: str) -> int | None:
        """The first request of the call that a client request continues; None for any other row."""
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

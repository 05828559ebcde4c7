"""Requests that belong together: rounds of a call that asks for input, and a task with its polls."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from mcp_tape.cassette.query.rows import session_rows, whole_text
from mcp_tape.cassette.reader import Cassette
from mcp_tape.viewer.spans import Spans
from tests.support.reading import GOLDEN, Frames, call, make, message, said
from tests.support.viewing import evaluated

MODERN = next(path for path in GOLDEN if path.stem == "modern")


def roots(tape: Path) -> dict[int, int]:
    """The requests that continue others."""
    spans = Spans()
    with Cassette(tape) as cassette:
        found = {row.seq: spans.root(row, whole_text(cassette, row)) for row in session_rows(cassette, 1)}
    return {seq: root for seq, root in found.items() if root is not None}


def asks(number: int, state: str | None) -> bytes:
    result = {"resultType": "input_required", "inputRequests": {"a": {"method": "elicitation/create"}}}
    return message(id=number, result=result | ({} if state is None else {"requestState": state}))


def again(number: int, tool: str, **more: Any) -> bytes:
    return message(id=number, method="tools/call", params={"name": tool, "inputResponses": {"a": {}}} | more)


def test_rounds_and_polls_of_a_real_recording() -> None:
    assert roots(MODERN) == {10: 7, 13: 7, 19: 17, 21: 17, 23: 17, 26: 17}


def test_rounds_belong_together_by_their_state_else_by_their_tool(tmp_path: Path) -> None:
    talk = (
        Frames()
        .client(call(1, "x"))
        .client(call(2, "x"))
        .server(asks(1, "one"))
        .server(asks(2, "two"))
        .client(again(3, "x", requestState="one"))  # 5
        .client(again(4, "x", requestState="two"))  # 6
        .server(asks(3, None))
        .client(again(5, "x"))  # 8
        .client(again(6, "y"))  # a tool that requested no input
        .server(said(5, "done"))
    )
    assert roots(make(tmp_path / "tape.db", talk)) == {5: 1, 6: 2, 8: 1}


@pytest.mark.parametrize("result", [{"task": {"taskId": "t"}}, {"resultType": "task", "taskId": "t"}])
def test_a_task_has_its_polls_and_its_result(tmp_path: Path, result: dict[str, Any]) -> None:
    talk = Frames().client(call(1, "x")).server(message(id=1, result=result))
    for number, (method, task) in enumerate([("get", "t"), ("get", "other"), ("result", "t"), ("cancel", "t")], 2):
        talk.client(message(id=number, method=f"tasks/{method}", params={"taskId": task}))
    assert roots(make(tmp_path / "tape.db", talk)) == {3: 1, 5: 1, 6: 1}


def test_what_a_stranger_wrote_there_is_no_error(tmp_path: Path) -> None:
    talk = (
        Frames().client(again(1, "x", requestState={"a": [1]})).server(message(id=1, result={"task": 5, "taskId": 7}))
    )
    talk.client(b'{"jsonrpc":"2.0","id":2,"method":"tools/call","params":["inputResponses","requestState"]}')
    assert roots(make(tmp_path / "tape.db", talk)) == {}


needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="needs node")


@needs_node
def test_sessions_that_overlapped_do_so_on_the_page_and_the_time_between_others_is_left_out() -> None:
    sessions = [
        {"id": 1, "started_at": "2026-01-01T00:00:00.000500Z"},
        {"id": 2, "started_at": "2026-01-01T00:00:00.002000Z"},
        {"id": 3, "started_at": "2026-01-02T00:00:00Z"},
        {"id": 4, "started_at": "no time"},
    ]
    lasted = "new Map([[1, 3000], [2, 5000], [3, 70], [4, 10]])"
    found = evaluated(
        "spans.mjs", f"(({{offsets, cuts}}) => [[...offsets], cuts])(m.offsetsOf({json.dumps(sessions[:3])}, {lasted}))"
    )
    assert found == [[[1, 0], [2, 1500], [3, 6500]], [6500]]
    unknown = evaluated("spans.mjs", f"[...m.offsetsOf({json.dumps(sessions[3:])}, {lasted}).offsets]")
    assert unknown == [[4, 0]]


@needs_node
def test_rows_of_several_sessions_are_merged_by_time() -> None:
    by_session, offsets = "new Map([[1, [0, 1, 2]], [2, [3, 4]]])", "new Map([[1, 0], [2, {}]])"
    at = "[0, 10, 20, 0, 5]"
    assert evaluated("spans.mjs", f"m.merged({by_session}, {offsets.format(7)}, {at})") == [0, 3, 1, 4, 2]
    assert evaluated("spans.mjs", f"m.merged({by_session}, {offsets.format(50)}, {at})") == [0, 1, 2, 3, 4]


@needs_node
def test_calls_are_spans_and_requests_of_the_server_stand_below_their_call() -> None:
    # Two overlapping calls, a second round of the first, a server request during the second, a notification.
    store = """{
      kinds: ["request", "request", "request", "response", "request", "response", "notification", "response"],
      columns: { client: [1, 1, 0, 0, 1, 0, 0, 0] }, mates: [3, 7, null, 0, 5, 4, null, 1],
      word(name, row) { return name === "kind" ? this.kinds[row] : "message"; },
      root: (row) => (row === 4 ? 0 : row), caller: (row) => (row === 2 ? 1 : null),
    }"""
    spans = evaluated("spans.mjs", f"m.layout({store}, [0, 1, 2, 3, 4, 5, 6, 7], (row) => row * 10)")
    brief = [(one["row"], one["lane"], one["start"], one["end"], one["deep"], one["rounds"]) for one in spans]
    assert brief == [(0, 0, 0, 50, 0, [0, 4]), (1, 0, 10, 70, 1, [1]), (2, 0, 20, 20, 1, [2]), (6, 2, 60, 60, 0, [6])]
    assert spans[2]["under"]["row"] == 1

"""Rows in the page's format: nothing is lost, and numbers and words survive."""

from __future__ import annotations

import json
import shutil
import zlib
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_tape.cassette.query.timeline import session_rows, whole_text
from mcp_tape.cassette.reader import Cassette
from mcp_tape.viewer.pack import BYTES, CallSpans, Packer, pack_columns, unpack_columns
from tests.support.reading import GOLDEN, Frames, call, make, message, said
from tests.support.viewing import evaluated


@pytest.mark.parametrize("golden", GOLDEN, ids=lambda path: path.stem)
def test_a_recording_comes_back(golden: Path) -> None:
    packer = Packer(whole=False)
    with Cassette(golden) as cassette:
        rows = list(session_rows(cassette, 1))
        blocks = [*packer.pack(cassette, rows), *packer.rest()]
        texts = [whole_text(cassette, row) for row in rows]
    index, columns = unpack_columns(packer.index())
    words = index["words"]
    assert list(accumulate(columns["seq"])) == [row.seq for row in rows]
    assert list(accumulate(columns["at"])) == [row.at for row in rows]
    for name in ("method", "status"):
        assert [None if n is None else words[n] for n in columns[name]] == [getattr(row, name) for row in rows]
    assert columns["took"] == [row.microseconds for row in rows]
    assert sum(index["blocks"]) == len(rows)
    packed = texts_of(blocks, columns)
    for row, text in enumerate(texts):
        assert packed[row] == text or (columns["flags"][row] or 0) & BYTES


def texts_of(blocks: list[bytes], columns: dict[str, list[int | None]]) -> dict[int, str]:
    """The texts by row, split by their lengths in UTF-16, as JavaScript does; equal texts are stored together."""
    texts, first = {}, 0
    for block in blocks:
        heads, _, data = zlib.decompress(block).partition(b"\n")
        units, at, found = data.decode().encode("utf-16-le"), 0, json.loads(heads)
        rows = range(first, first + len(found["lines"]))
        first = rows.stop
        for place, row in enumerate(sorted(rows, key=partial(alike, columns))):
            end = at + 2 * found["sizes"].get(str(place), columns["size"][row])
            texts[row] = units[at:end].decode("utf-16-le")
            at = end
        assert at == len(units)
    return texts


def alike(columns: dict[str, list[int | None]], row: int) -> list[int]:
    found = (columns[name][row] for name in ("client", "kind", "method", "name"))
    return [-1 if value is None else value for value in found]


def test_ids_equal_the_sent_ones(tmp_path: Path) -> None:
    ids = [7, 8, "x", 3, "5", 1.5, 2**60, -4, 9]
    talk = Frames()
    for one in ids:
        talk.client(call(one, "a"))
    packer = Packer()
    with Cassette(make(tmp_path / "tape.db", talk)) as cassette:
        list(packer.pack(cassette, session_rows(cassette, 1)))
    index, columns = unpack_columns(packer.index())
    assert columns["id"] == [7, 1, None, -5, None, None, None, None, 6]
    assert index["ids"] == {"2": '"x"', "4": '"5"', "5": "1.5", "6": str(2**60), "7": "-4"}


def test_later_rows_continue_the_indexes(tmp_path: Path) -> None:
    packer = Packer()
    with Cassette(make(tmp_path / "tape.db", Frames().client(call(1, "a")).client(call(2, "b")))) as cassette:
        first, second = session_rows(cassette, 1)
        assert [*packer.pack(cassette, [first])] == [] and len([*packer.rest()]) == 1
        before, columns = unpack_columns(packer.index())
        assert [*packer.pack(cassette, [second])] == [] and len([*packer.rest()]) == 1
        after, later = unpack_columns(packer.index())
    assert (columns["seq"], later["seq"]) == ([1], [1])
    assert after["words"] == ["b"] and later["name"] == [len(before["words"])]
    assert [*packer.rest()] == [] and unpack_columns(packer.index())[0]["blocks"] == []


# -- requests that belong together: rounds of a call that asks for input, and a task with its polls
MODERN = next(path for path in GOLDEN if path.stem == "modern")


def roots(tape: Path) -> dict[int, int]:
    """The requests that continue others."""
    spans = CallSpans()
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


def test_foreign_values_are_not_an_error(tmp_path: Path) -> None:
    talk = (
        Frames().client(again(1, "x", requestState={"a": [1]})).server(message(id=1, result={"task": 5, "taskId": 7}))
    )
    talk.client(b'{"jsonrpc":"2.0","id":2,"method":"tools/call","params":["inputResponses","requestState"]}')
    assert roots(make(tmp_path / "tape.db", talk)) == {}


needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="needs node")


@needs_node
@pytest.mark.slow
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
@pytest.mark.slow
def test_rows_of_several_sessions_are_merged_by_time() -> None:
    runs, offsets = "new Map([[1, [[0, 2]]], [2, [[3, 4]]]])", "new Map([[1, 0], [2, {}]])"
    at = "[0, 10, 20, 0, 5]"
    assert evaluated("spans.mjs", f"[...m.merged({runs}, {offsets.format(7)}, {at})]") == [0, 3, 1, 4, 2]
    assert evaluated("spans.mjs", f"[...m.merged({runs}, {offsets.format(50)}, {at})]") == [0, 1, 2, 3, 4]


# Two overlapping calls, a second round of the first, a server request during the second, a notification, and a call
# that is not answered before the session ends.
STORE = """{
  kinds: ["request", "request", "request", "response", "request", "response", "notification", "response", "request"],
  columns: {
    at: { length: 9 }, session: Array(9).fill(1), client: [1, 1, 0, 0, 1, 0, 0, 0, 1],
    mate: [3, 7, -1, 0, 5, 4, -1, 1, -1],
    root: [0, 1, 2, 3, 0, 5, 6, 7, 8], caller: [-1, -1, 1, 0, -1, 0, -1, 1, -1],
  },
  word(name, row) { return name === "kind" ? this.kinds[row] : "message"; },
  odd: (row) => row === 8, duration: (row) => 100 - 10 * row, ends: new Map(),
}"""


@needs_node
@pytest.mark.slow
def test_calls_are_spans_in_lanes_and_requests_of_the_server_are_below_their_call() -> None:
    columns = "row lane start end deep under bad".split()
    wanted = ", ".join(f"{name}: [...s.{name}]" for name in columns)
    expression = f"((s) => ({{ {wanted} }}))(m.layout({STORE}, [0, 1, 2, 3, 4, 5, 6, 7, 8], (row) => row * 10))"
    spans = evaluated("spans.mjs", expression)
    assert list(zip(*(spans[name] for name in columns), strict=True)) == [
        (0, 0, 0, 50, 0, -1, 0),  # two rounds
        (1, 0, 10, 70, 1, -1, 0),
        (2, 1, 20, 100, 0, 1, 0),  # below the second call
        (6, 2, 60, 60, 0, -1, 0),
        (8, 0, 80, 100, 0, -1, 1),  # to the end
    ]


@needs_node
@pytest.mark.slow
def test_there_are_as_many_lanes_as_calls_that_overlap() -> None:
    store = """((n) => ({
      columns: { at: { length: n }, client: Array(n).fill(1), mate: Array(n).fill(-1), session: Array(n).fill(1),
                 root: Array.from({ length: n }, (_, row) => row), caller: Array(n).fill(-1) },
      word: (name) => name === "kind" ? "request" : "message", odd: () => false, duration: () => 100, ends: new Map(),
    }))(300)"""
    rows = "Array.from({ length: 300 }, (_, row) => row)"
    deep = evaluated("spans.mjs", f"[...m.layout({store}, {rows}, (row) => row).deep]")
    assert deep == [number % 100 for number in range(300)]  # a lane is taken again as soon as it is free


# -- columns as bytes: every number survives
NUMBERS = st.lists(st.none() | st.integers(-(2**52), 2**52))


@given(NUMBERS)
def test_packed_rows_come_back(numbers: list[int | None]) -> None:
    columns = {"a": numbers, "b": list(range(len(numbers)))}
    assert unpack_columns(pack_columns({"x": "y\nz"}, columns)) == ({"x": "y\nz"}, columns)


def test_equal_values_take_no_room() -> None:
    assert len(pack_columns({}, {"a": [None] * 1000})) < 100
    assert len(pack_columns({}, {"a": [100] * 1000})) < 1100

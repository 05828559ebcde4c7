"""mcp-tape stats --context: the cost of each tool to a model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.reading import GOLDEN, Frames, call, invoke, lines, make, message, objects, said


def tool(name: str, size: int) -> dict[str, Any]:
    return {"name": name, "description": "x" * size, "inputSchema": {"type": "object"}, "annotations": {"a": "y" * 999}}


@pytest.fixture
def tape(tmp_path: Path) -> Path:
    frames = Frames().client(message(id=0, method="tools/list"))
    frames.server(message(id=0, result={"tools": [tool("add", 400), tool("draw", 10)]}))
    frames.client(call(1, "add")).server(said(1, "12345")).client(call(2, "add")).server(said(2, "x" * 100))
    image = {"content": [{"type": "image", "data": "A" * 5000, "mimeType": "image/png"}]}
    frames.client(call(3, "draw")).server(message(id=3, result=image))
    return make(tmp_path / "tape.db", frames.client(call(4, "unlisted")))


def test_definitions_and_results_are_measured(tape: Path) -> None:
    add, draw, unlisted = objects("stats", tape, "--context")
    assert add == {
        "tool": "add", "calls": 2, "definition_bytes": 463, "definition_tokens": 116,
        "result_bytes": 105, "result_tokens": 27, "largest_result_bytes": 100, "media": 0,
    }  # fmt: skip
    assert (draw["calls"], draw["result_bytes"], draw["media"]) == (1, 0, 1)
    assert unlisted == dict.fromkeys(add, 0) | {"tool": "unlisted", "calls": 1}


def test_a_line_is_a_tool_and_the_last_one_is_all(tape: Path) -> None:
    result = invoke("stats", tape, "--context")
    head, *rows = result.stdout.splitlines()
    assert head.split() == ["calls", "definition", "results", "largest", "tool"]
    assert [row.split() for row in rows] == [
        ["2", "463", "~116", "105", "~27", "100", "add"],
        ["1", "74", "~19", "-", "-", "draw", "+1", "media"],
        ["1", "-", "-", "-", "unlisted"],
        ["4", "537", "~135", "105", "~27", "100", "(3", "tools)", "+1", "media"],
    ]
    assert "estimated" in result.stderr


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
@pytest.mark.parametrize(
    ("sort", "figure"),
    [("definition", "definition_tokens"), ("results", "result_tokens"), ("calls", "calls"), ("name", "")],
)
def test_tools_are_sorted_as_asked(path: Path, sort: str, figure: str) -> None:
    rows = objects("stats", path, "--context", "--sort", sort)
    assert rows == sorted(rows, key=lambda row: (-row.get(figure, 0), row["tool"]))


def test_a_cassette_without_tools_says_so(tmp_path: Path) -> None:
    tape = make(tmp_path / "tape.db", Frames().client(message(id=1, method="ping")))
    result = invoke("stats", tape, "--context")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == f"mcp-tape: no tools are listed or called in 1 session of {tape}\n"


@pytest.mark.parametrize(
    "words", [("--context", "--filter", "tool:a"), ("--sort", "calls"), ("--context", "--sort", "x")]
)
def test_contradictory_options_are_refused(tape: Path, words: tuple[str, ...]) -> None:
    assert invoke("stats", tape, *words).exit_code == 2


def test_odd_definitions_are_measured_as_far_as_they_go(tmp_path: Path) -> None:
    odd = b'{"jsonrpc":"2.0","id":1,"result":{"tools":[1,{"name":"a","description":7},{"name":"\\ud800"},' + (
        b'{"name":"b","inputSchema":{"default":123456789012345678901234567890.5}}]}}'
    )
    tape = make(tmp_path / "tape.db", Frames().client(message(id=1, method="tools/list")).server(odd))
    assert len(lines("stats", tape, "--context", "--json")) == 3

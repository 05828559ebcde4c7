"""The cost of each tool to a model in a run: its definition once per conversation, its results with each call."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ..cassette.reader import Cassette
from ..compare.transcript import Transcript
from ..compare.versions import version_of_sessions
from ..model.cost import Cost, cost, definition, media, result_texts
from ..wire import protocol


class ToolCost(NamedTuple):
    """The figures of one tool. Tokens are estimates, and do not include `media`: images, sounds and files."""

    tool: str
    calls: int
    definition_bytes: int
    definition_tokens: int
    result_bytes: int
    result_tokens: int
    largest_result_bytes: int
    media: int

    @property
    def tokens(self) -> int:
        return self.definition_tokens + self.result_tokens


@dataclass(slots=True)
class _Results:
    """The results of one tool so far."""

    calls: int = 0
    bytes: int = 0
    tokens: int = 0
    largest: int = 0
    media: int = 0


def tool_costs(cassette: Cassette, sessions: Sequence[int], by: str = "tokens") -> list[ToolCost]:
    """The cost of every tool that was listed or called; the largest first, or by name."""
    results: dict[str, _Results] = {}
    for name, result in _results(Transcript(cassette, sessions)):
        texts = [cost(text) for text in result_texts(result)]
        found = results.setdefault(name, _Results())
        found.calls += 1
        found.bytes += (size := sum(text.bytes for text in texts))
        found.tokens += sum(text.tokens for text in texts)
        found.largest = max(found.largest, size)
        found.media += media(result)
    listed = version_of_sessions(cassette, sessions).surface.lists[protocol.TOOLS].items if sessions else {}
    rows = [_row(name, listed.get(name), results.get(name, _Results())) for name in dict.fromkeys([*listed, *results])]
    return sorted(rows, key=lambda row: (-_figure(row, by), row.tool))


def _results(recording: Transcript) -> Iterator[tuple[str, object]]:
    for asked in recording.requests():
        if asked.method == protocol.CALL and asked.name is not None:
            yield asked.name, protocol.member(recording.answer(asked), "result")


def _row(name: str, tool: object, results: _Results) -> ToolCost:
    defined = Cost(0, 0) if tool is None else cost(definition(tool))
    return ToolCost(name, results.calls, *defined, results.bytes, results.tokens, results.largest, results.media)


def _figure(row: ToolCost, by: str) -> int:
    figures = {
        "tokens": row.tokens,
        "definition": row.definition_tokens,
        "results": row.result_tokens,
        "calls": row.calls,
    }
    return figures.get(by, 0)

"""mcp-tape stats: calls, errors and times per tool and method."""

from __future__ import annotations

import math
import os
from array import array
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_tape.cassette.query.totals import CallTally, figures, histogram, tallies
from mcp_tape.cassette.reader import Cassette
from tests.support.reading import GOLDEN, Frames, call, invoke, lines, make, message, objects, said
from tests.support.running import MCP_TAPE, run

MS = 1000


def talk(calls: int = 20) -> Frames:
    """Calls of `add` that take 1 ms, 2 ms, 3 ms …, every fifth an error; a ping by the server; a call left open."""
    frames, at = Frames(), 0
    for number in range(1, calls + 1):
        frames.client(call(number, "add"), at=at)
        at += number * MS
        frames.server(message(id=number, error={}) if number % 5 == 0 else said(number, "x"), at=at)
    frames.server(message(id=1, method="ping"), at=at).client(message(id=1, result={}), at=at + 7)
    return frames.client(call(99, "never"), at=at)


@pytest.fixture(scope="module")
def tape(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("stats") / "tape.db", talk(), talk(1))


def test_calls_errors_times_and_bytes_per_tool_and_method(tape: Path) -> None:
    add, never, ping = objects("stats", tape, "--session", 1)
    size = sum(len(frame.text) for frame in talk() if b'"add"' in frame.text or frame.sender == "server")
    assert add == {
        "sender": "client", "method": "tools/call", "name": "add", "calls": 20, "errors": 4, "unanswered": 0,
        "bytes": size - len(message(id=1, method="ping")), "p50_microseconds": 10 * MS, "p95_microseconds": 19 * MS,
        "max_microseconds": 20 * MS,
    }  # fmt: skip
    assert (never["name"], never["unanswered"], never["p50_microseconds"]) == ("never", 1, None)
    assert (ping["sender"], ping["method"], ping["max_microseconds"]) == ("server", "ping", 7)


def test_all_sessions_count_unless_one_is_named(tape: Path) -> None:
    def calls(*more: object) -> int:
        return sum(row["calls"] for row in objects("stats", tape, *more))

    assert (calls(), calls("--session", 1), calls("--session", 2)) == (25, 22, 3)
    assert calls("--filter", "session:2") == 3


@pytest.mark.parametrize(
    ("text", "calls"), [("tool:add", 21), ("status:error", 4), ("dur:>10", 10), ("from:server", 2), ("-tool:*", 2)]
)
def test_a_filter_picks_the_calls(tape: Path, text: str, calls: int) -> None:
    assert sum(row["calls"] for row in objects("stats", tape, "--filter", text)) == calls


def test_the_table_and_the_histogram_are_for_people(tape: Path) -> None:
    head, first, *rest = lines("stats", tape, "--session", 1)
    assert head.split() == ["calls", "errors", "open", "p50", "p95", "max", "bytes", "what"]
    assert first.split()[:8] == ["20", "4", "-", "10.0", "ms", "19.0", "ms", "20.0"]
    assert first.endswith("→  tools/call add")
    bars = rest[rest.index("") + 1 :]
    assert sum(int(bar.split()[-1]) for bar in bars) == 21
    assert any("10 ms – 20 ms  ████████████████████████████████████████ 10" in bar for bar in bars)


@pytest.mark.slow
def test_an_encoding_without_blocks_gets_plain_marks(tape: Path) -> None:
    done = run([*MCP_TAPE, "stats", str(tape)], env=os.environ | {"PYTHONIOENCODING": "ascii"})
    assert b"10 ms - 20 ms  ######################################## 10" in done.stdout


def test_a_session_without_calls_is_reported(tape: Path, tmp_path: Path) -> None:
    for words in ([tape, "--filter", "tool:none"], [make(tmp_path / "tape.db", Frames())]):
        result = invoke("stats", *words)
        assert (result.exit_code, result.stdout) == (0, "")
        assert "there are no calls" in result.stderr


def test_a_missing_session_is_reported(tape: Path) -> None:
    assert invoke("stats", tape, "--session", 7).exit_code == 3


@pytest.mark.parametrize("tape", GOLDEN, ids=lambda path: path.stem)
def test_the_golden_cassettes_count_as_ls_does(tape: Path) -> None:
    listed = objects("ls", tape)
    counted = objects("stats", tape)
    assert sum(row["calls"] for row in counted) == sum(row["exchanges"] + row["open"] for row in listed)
    assert sum(row["unanswered"] for row in counted) == sum(row["open"] for row in listed)


def test_a_request_that_was_made_again_does_not_count(tmp_path: Path) -> None:
    frames = Frames()
    for channel, status in (("post-1", 503), ("post-2", 200)):
        frames.happened("client", channel, event="request", verb="POST", path="/mcp", headers={})
        frames.client(call(1, "add"), channel=channel)
        frames.happened("server", channel, event="response", status=status, headers={})
        frames.server(
            said(1, "x") if status == 200 else b"busy", channel=channel, kind="message" if status == 200 else "noise"
        )
        frames.happened("server", channel, event="close")
    (row,) = objects("stats", make(tmp_path / "tape.db", frames, transport="http"))
    assert (row["calls"], row["errors"], row["unanswered"]) == (1, 0, 0)


def test_more_names_than_anybody_reads_are_counted_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcp_tape.cassette.query.totals._MOST_GROUPS", 2)
    frames = Frames()
    for number in range(5):
        frames.client(call(number, f"tool-{number}")).server(said(number, "x"))
    with Cassette(make(tmp_path / "tape.db", frames)) as cassette:
        found = tallies(cassette, [1])
    assert sorted(tally.calls for tally in found.values()) == [1, 1, 3]


def test_equal_figures_come_in_the_order_of_their_names() -> None:
    tally = CallTally(calls=1)
    rows = figures({("client", "m", name): tally for name in ("b", None, "a")})
    assert [row.name for row in rows] == [None, "a", "b"]


DURATIONS = st.lists(st.integers(0, 10**10), min_size=1)


@given(DURATIONS)
def test_percentiles_are_those_of_the_nearest_rank(durations: list[int]) -> None:
    tally = CallTally(calls=len(durations), durations=array("q", durations))
    (row,) = figures({("client", "m", None): tally})
    ordered = sorted(durations)
    assert row.p50 == ordered[math.ceil(0.5 * len(ordered)) - 1]
    assert row.p95 is not None and sum(took <= row.p95 for took in ordered) >= 0.95 * len(ordered)
    assert row.max == ordered[-1]


@given(DURATIONS)
def test_the_histogram_counts_every_answer_once_in_few_bars(durations: list[int]) -> None:
    bars = histogram({("client", "m", None): CallTally(durations=array("q", durations))})
    assert sum(number for *_, number in bars) == len(durations)
    assert len(bars) <= 12
    assert all(number == sum(start <= took < end for took in durations) for start, end, number in bars)
    assert [end for _, end, _ in bars][:-1] == [start for start, *_ in bars][1:]

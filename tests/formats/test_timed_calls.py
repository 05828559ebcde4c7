"""Formats of calls: their memory does not grow with the recording."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mcp_tape.cassette.query.filters import EVERYTHING, parse
from mcp_tape.cassette.reader import Cassette
from mcp_tape.cli.forms import Extract, har, otlp, perfetto
from mcp_tape.formats.timed_calls import calls
from tests.support.decks import make_cassette
from tests.support.messages import call, result


def tape(path: Path, number: int) -> Path:
    said = [
        (side, text) for n in range(number) for side, text in (("client", call(n, "t")), ("server", result(n, "x")))
    ]
    return make_cassette(path, said)


def peak(path: Path, form: Callable[[Extract], Iterator[str]]) -> int:
    """The peak of Python's memory while it writes, above the initial amount."""
    with Cassette(path) as cassette:
        asked = Extract(cassette, cassette.sessions(), EVERYTHING)
        tracemalloc.start()
        try:
            for _ in form(asked):
                pass
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()


@pytest.fixture(scope="module")
def tapes(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    place = tmp_path_factory.mktemp("tapes")
    return tape(place / "few.db", 1_500), tape(place / "many.db", 3_500)


@pytest.mark.slow(quick=1)
@pytest.mark.parametrize("form", [har, otlp, perfetto])
def test_memory_does_not_grow_with_the_number_of_calls(
    form: Callable[[Extract], Iterator[str]], tapes: tuple[Path, Path]
) -> None:
    few, many = tapes
    peak(few, form)  # load modules first
    assert peak(many, form) < 1.5 * peak(few, form)


def test_a_filter_keeps_calls_by_the_frame_that_each_is_in(tmp_path: Path) -> None:
    batch = f"[{call(1, 'a')},{call(2, 'b')}]"
    said = [
        ("client", batch),
        ("client", call(3, "a")),
        ("server", result(3)),
        ("server", f"[{result(1)},{result(2)}]"),
    ]
    with Cassette(make_cassette(tmp_path / "tape.db", said, protocol_version="2025-03-26")) as cassette:
        (session,) = cassette.sessions()
        every = [found.exchange.id for found in calls(cassette, session.id)]
        kept = [found.exchange.id for found in calls(cassette, session.id, parse("tool:a"))]
    assert (every, kept) == (["1", "2", "3"], ["1", "2", "3"])

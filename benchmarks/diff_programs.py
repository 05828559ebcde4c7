"""What diff.py measures: each way to compare two cassettes, as a process of its own, so that its memory is its own.

`python diff_programs.py WAY OLD NEW` prints JSON: seconds, calls that differ, peak memory in bytes.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from time import perf_counter
from typing import Any

from deepdiff import DeepDiff
from diff_report import EVERY_PAIR, HELD, TAPE, UNEQUAL
from peak import peak

from mcp_tape.cassette.reader import Cassette
from mcp_tape.compare.checks import calls, output_schema  # noqa: F401 - loaded before the clock starts, as deepdiff is
from mcp_tape.compare.recording import Recording
from mcp_tape.compare.versions import compare, recorded
from mcp_tape.replay.selection import select


def with_tape(old: str, new: str) -> int:
    with Cassette(old) as one, Cassette(new) as other:
        found = compare(recorded(one), recorded(other))
    return sum(change.times for change in found.changes if change.subject.kind == "call")


def with_every_pair(old: str, new: str) -> int:
    return sum(bool(DeepDiff(one, other)) for one, other in _pairs(old, new))


def with_unequal_pairs(old: str, new: str) -> int:
    return sum(one != other and bool(DeepDiff(one, other)) for one, other in _pairs(old, new))


def held(old: str, new: str) -> int:
    """Only reads: what it takes to have all answers of both at hand, as values."""
    pairs = list(_pairs(old, new))
    return sum(one != other for one, other in pairs)


def _pairs(old: str, new: str) -> Iterator[tuple[Any, Any]]:
    """What was answered, read as mcp-tape reads it; the calls of both in their order."""
    with Cassette(old) as one, Cassette(new) as other:
        recordings = [Recording(cassette, select(cassette, "latest").sessions) for cassette in (one, other)]
        for pair in zip(*(recording.asked() for recording in recordings), strict=True):
            if pair[0].method == "tools/call":
                before, after = (recording.answer(asked) for recording, asked in zip(recordings, pair, strict=True))
                yield before["result"], after["result"]


WAYS = {TAPE: with_tape, EVERY_PAIR: with_every_pair, UNEQUAL: with_unequal_pairs, HELD: held}


def main(way: str, old: str, new: str) -> None:
    before = perf_counter()
    number = WAYS[way](old, new)
    took = perf_counter() - before
    print(json.dumps({"seconds": took, "changed": number, "peak": peak()}))


if __name__ == "__main__":
    main(*sys.argv[1:])

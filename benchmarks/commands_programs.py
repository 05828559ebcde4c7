"""Comparisons for the commands, each in a separate process: `python commands_programs.py WAY FILE...`.

`read` and `open` take one cassette. All others compare two, and print JSON: the seconds, and the calls that differ.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from time import perf_counter, process_time
from typing import Any


def read(file: str) -> None:
    """Read every text once, in order, without keeping any."""
    import sqlite3

    db = sqlite3.connect(file)
    sum(len(text) for (text,) in db.execute("SELECT text FROM frames ORDER BY session, seq"))
    db.close()


def open_it(file: str) -> None:
    """Print the milliseconds of processor time, imports included."""
    began = process_time()
    from mcp_tape.cassette.reader import Cassette

    with Cassette(file) as cassette:
        assert cassette.counts(1)["frames"] >= 200
    print((process_time() - began) * 1000)


def compare(way: str, old: str, new: str) -> None:
    from mcp_tape.cassette.reader import Cassette
    from mcp_tape.compare.checks import output_schema, recorded_calls  # noqa: F401 - loaded before the clock starts
    from mcp_tape.compare.transcript import Transcript
    from mcp_tape.compare.versions import compare as with_tape
    from mcp_tape.compare.versions import recorded_version
    from mcp_tape.replay.selection import select

    def answers(one: Cassette, other: Cassette) -> Iterator[tuple[Any, Any]]:
        """The answers of both, call by call, read with mcp-tape's reader."""
        recordings = [Transcript(cassette, select(cassette, "latest").sessions) for cassette in (one, other)]
        for pair in zip(*(recording.requests() for recording in recordings), strict=True):
            if pair[0].method == "tools/call":
                before, after = (recording.answer(asked) for recording, asked in zip(recordings, pair, strict=True))
                yield before["result"], after["result"]

    if way.startswith("deepdiff"):
        from deepdiff import DeepDiff

    before = perf_counter()
    with Cassette(old) as one, Cassette(new) as other:
        if way == "mcp-tape":
            changes = with_tape(recorded_version(one), recorded_version(other)).changes
            found = sum(change.times for change in changes if change.subject.kind == "call")
        elif way == "deepdiff, every pair":
            found = sum(bool(DeepDiff(was, now)) for was, now in answers(one, other))
        elif way == "deepdiff, unequal pairs":
            found = sum(was != now and bool(DeepDiff(was, now)) for was, now in answers(one, other))
        else:  # all answers in memory
            found = sum(was != now for was, now in list(answers(one, other)))
    print(json.dumps([perf_counter() - before, found]))


if __name__ == "__main__":
    way, *files = sys.argv[1:]
    if way in ("read", "open"):
        (read if way == "read" else open_it)(*files)
    else:
        compare(way, *files)

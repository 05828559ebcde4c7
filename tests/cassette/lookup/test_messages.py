"""The cache of a file that other processes may write."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from mcp_tape.cassette.lookup.messages import Cache
from mcp_tape.cassette.reader import Cassette
from tests.support.decks import make_cassette
from tests.support.messages import call, result


def test_a_text_is_cached_until_another_process_writes(tmp_path: Path) -> None:
    path = make_cassette(tmp_path / "tape.db", [("client", call(1)), ("server", result(1))])
    with Cassette(path) as tape, closing(sqlite3.connect(path)) as other:
        cache, one, two = Cache(tape), object(), object()
        cache.put("one", one)
        cache.put("two", two)
        assert (cache.get("one"), cache.get("two"), cache.get("one"), cache.get("three")) == (one, two, one, None)
        other.execute("UPDATE sessions SET note = 'written'")
        other.commit()
        assert (cache.get("one"), cache.get("two")) == (None, None)
        cache.put("one", two)
        assert cache.get("one") is two

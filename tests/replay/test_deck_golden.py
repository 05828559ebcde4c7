"""Two decks, one per role, play every golden cassette to its end."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcp_tape.cassette.reader import Cassette
from tests.support.decks import back_to_back
from tests.support.golden import GOLDEN, TEXTS
from tests.support.running import sessions

CASSETTES = sorted([*GOLDEN, *TEXTS])
SESSIONS = [(path, session.id) for path in CASSETTES for session in sessions(path)]


@pytest.mark.parametrize(("path", "session"), SESSIONS, ids=lambda value: getattr(value, "name", str(value)))
def test_two_decks_play_a_golden_cassette_to_its_end(path: Path, session: int) -> None:
    asked, told, player, client = back_to_back(path, str(session))
    with Cassette(path) as cassette:
        frames = [f for f in cassette.frames(session) if f.kind in ("message", "batch", "noise")]
    assert client.finished
    assert player.unplayed() == []
    ends = [text for text in told if b"-32010" in text]
    assert player.deck.misses == len(ends)
    told = [text for text in told if text not in ends]
    assert sorted(t.rstrip(b"\r\n") for t in told) == sorted(f.text for f in frames if f.sender == "server")
    assert sorted(a.rstrip(b"\r\n") for a in asked) == sorted(f.text for f in frames if f.sender == "client")

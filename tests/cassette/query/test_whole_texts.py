"""Messages and calls with their whole texts, verbatim, a bounded number of bytes at a time."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcp_tape.cassette.query import whole_texts
from mcp_tape.cassette.reader import Cassette
from tests.support.decks import make_cassette
from tests.support.golden import GOLDEN
from tests.support.messages import call, result


@pytest.mark.parametrize("tape", GOLDEN, ids=lambda path: path.stem)
def test_messages_are_all_messages_and_all_other_frames(tape: Path) -> None:
    with Cassette(tape) as cassette:
        for session in cassette.sessions():
            found = [row for page in whole_texts.messages(cassette, session.id) for row in page]
            frames = list(cassette.frames(session.id))
            assert list(dict.fromkeys(row.seq for row in found)) == [frame.seq for frame in frames]
            whole = {row.seq: row.text for row in found if row.frame_kind != "batch"}
            said = {frame.seq: frame.text for frame in frames if frame.kind != "batch"}
            assert {seq: text.encode() if isinstance(text, str) else text for seq, text in whole.items()} == said


@pytest.mark.parametrize("tape", GOLDEN, ids=lambda path: path.stem)
def test_calls_are_all_requests_with_their_answers(tape: Path) -> None:
    with Cassette(tape) as cassette:
        for session in cassette.sessions():
            found = [row for page in whole_texts.calls(cassette, session.id) for row in page]
            known = cassette.exchanges(session.id)
            assert [(row.seq, row.method, row.microseconds) for row in found] == [
                (one.seq, one.method, one.microseconds) for one in known
            ]
            assert all((row.answer is None) == (row.microseconds is None) for row in found)


@pytest.mark.slow
def test_a_page_ends_when_its_texts_are_large_from_either_side(tmp_path: Path) -> None:
    large = "x" * (3 << 20)
    asked = [said for n in range(4) for said in (("client", call(n, text=large)), ("server", result(n)))]
    told = [said for n in range(4, 8) for said in (("client", call(n)), ("server", result(n, large)))]
    with Cassette(make_cassette(tmp_path / "tape.db", [*asked, *told])) as cassette:
        assert [len(page) for page in whole_texts.calls(cassette, 1)] == [2, 2, 2, 2]
        assert sum(len(page) for page in whole_texts.messages(cassette, 1)) == 16
        assert max(sum(len(row.text) for row in page) for page in whole_texts.messages(cassette, 1)) < 8 << 20

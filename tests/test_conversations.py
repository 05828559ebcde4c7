"""Random conversations, replayed to a client that asks in another order, with other ids and other tokens."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from . import fuzzing
from .decks import Player, make_cassette
from .talks import Body, Live, Talk


def flat(texts: list[str]) -> list[Body]:
    """The messages of some frames: those of a batch may go out together or one by one."""
    frames = [json.loads(text) for text in texts]
    return [body for frame in frames for body in (frame if isinstance(frame, list) else [frame])]


def expect(got: list[Body], expected: list[Body], asked: Live) -> None:
    """Ids of the server's requests are its own: they may differ, all else may not."""
    for body in got:
        asked.heard(body)
    assert [_comparable(body) for body in got] == [_comparable(body) for body in expected]


def _comparable(body: Body) -> Any:
    mine = dict(body)
    if "method" in body:
        mine.pop("id", None)
        mine["params"] = {name: value for name, value in body.get("params", {}).items() if name != "requestId"}
    return mine


def test_each_step_of_a_client_brings_what_waits_for_it(tmp_path: Path) -> None:
    for case in fuzzing.cases(60):
        talk = Talk(case)
        path = make_cassette(tmp_path / f"{case.number}.db", talk.said)
        for options in ({"tell_played": True}, {"tell_played": False}):
            live = Live(talk, case)
            player = Player(path, **options)
            assert player.start() == []
            for frame, expected in live.steps():
                expect(flat(player.say(json.dumps(frame))), expected, live)
        path.unlink()

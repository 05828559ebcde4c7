"""Random tapes, requests and options: an exact match gets its own recording, and sessions never mix silently."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.replay.test_opening import Connections, notes
from tests.support.decks import Player, Said, make_cassette
from tests.support.fuzzing import examples
from tests.support.messages import call, result

TEXTS = st.sampled_from(
    ["weather in Bern", "weather in Bern, please", "Weather in BERN", "/tmp/tmpaaaaaaaa/x", "/tmp/tmpbbbbbbbb/x"]
)
ARGUMENTS = st.fixed_dictionaries({"q": TEXTS, "n": st.integers(0, 2)})
OPTIONS = st.fixed_dictionaries(
    {"repeats": st.sampled_from(["error", "last", "cycle"])},
    optional={
        "ignore": st.just(["$.params.arguments.n"]),
        "match_on": st.just(["$.params.name"]),
        "normalize": st.lists(st.sampled_from(["case", "paths", "numbers:1"]), min_size=1, unique=True),
        "match": st.sampled_from([["nearest"], ["nearest:0"]]),
        "rules": st.just([lambda recorded, live: None]),
    },
)


@examples(200)
@given(st.lists(ARGUMENTS, min_size=1, max_size=6), st.lists(ARGUMENTS, max_size=10), OPTIONS)
def test_a_request_that_is_recorded_exactly_gets_its_own_recording(
    tape: list[dict[str, Any]], asked: list[dict[str, Any]], options: dict[str, Any]
) -> None:
    said: list[Said] = []
    for number, arguments in enumerate(tape):
        said += [("client", call(number, **arguments)), ("server", result(number, number))]
    with tempfile.TemporaryDirectory() as directory:
        player = Player(make_cassette(Path(directory) / "tape.db", said), **options)
        times: dict[str, int] = {}
        for arguments in asked:
            (answer,) = player.say(call("live", **arguments))
            own = [number for number, recorded in enumerate(tape) if recorded == arguments]
            name = str(sorted(arguments.items()))
            asked_before = times.get(name, 0)
            times[name] = asked_before + 1
            if asked_before < len(own):
                assert json.loads(answer).get("result") == {"value": own[asked_before]}


CALLS = st.lists(st.sampled_from("abc").map(lambda name: {"name": name}), min_size=1, max_size=4)
RUNS = st.lists(CALLS, min_size=2, max_size=3)


@examples(100)
@given(RUNS, st.data(), st.booleans())
def test_no_order_of_connections_mixes_two_sessions_without_a_report(
    recorded: list[list[dict[str, Any]]], data: st.DataObject, greets_alike: bool
) -> None:
    order = data.draw(st.permutations(range(len(recorded))))
    with tempfile.TemporaryDirectory() as directory:
        run = Connections(Path(directory), *recorded, greeting="0: hello" if greets_alike else lambda n: f"{n}: hello")
        for number in order:
            visit = run.connect()
            heard = [text for text in run.ask(visit, recorded[number]) if not text.startswith("0")]
            sessions = {text.partition(":")[0] for text in heard}
            assert len(sessions) <= 1 or notes(visit)
            assert visit.stage.finish(None).misses == 0

"""Faults: their effects, and randomness from a seed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mcp_tape.replay import faults
from mcp_tape.replay.sends import Send
from tests.support.decks import Player, make_cassette
from tests.support.messages import call, progress, result


class Faulty:
    """A deck with faults, on a tape of five calls and an unanswered one."""

    def __init__(self, tmp_path: Path, *sources: str, seed: int = 0) -> None:
        said = [
            turn
            for n in range(5)
            for turn in (("client", call(n, token=n, n=n)), ("server", progress(n, 1)), ("server", result(n, n)))
        ]
        said.append(("client", call(5, token=5, n=5)))
        self._faulty = faults.FaultyPlayer([faults.parse_fault(source) for source in sources], seed)
        self._player = player = Player(make_cassette(tmp_path / "tape.db", said), report_played=True)  # type: ignore[arg-type]
        player.deck._report = self._faulty.listen(player.facts.append)
        self._faulty.attach(player.deck)

    def call(self, n: int, now: float = 0.0) -> list[str | int]:
        self._faulty.receive(call(n, token=n, n=n).encode(), "stdio", now)
        return self.later(now)

    def later(self, now: float) -> list[str | int]:
        actions = self._faulty.due(now)
        return [a.text.decode().rstrip("\n") if isinstance(a, Send) else getattr(a, "code", -1) for a in actions]

    def misses_and_unplayed(self) -> tuple[list[str], list[int]]:
        return self._player.told("miss"), [seq for seq in self._player.unplayed() if seq < 16]

    def next_at(self) -> float | None:
        return self._faulty.next_at()


@pytest.mark.parametrize(
    ("fault", "answer"),
    [
        ("drop", []),
        ("duplicate", [result(0, 0), result(0, 0)]),
        ("malformed", [result(0, 0)[:-1]]),
        ("truncate:10", [result(0, 0)[:10], 0]),
        ("noise", ["this line is noise, not JSON-RPC", result(0, 0)]),
        ("disconnect", [0]),
        ("exit:3", [3]),
    ],
)
def test_a_fault_breaks_the_answer_and_keeps_earlier_messages(
    tmp_path: Path, fault: str, answer: list[str | int]
) -> None:
    assert Faulty(tmp_path, f"tools/call={fault}").call(0) == [progress(0, 1), *answer]


def test_an_error_takes_the_place_of_the_answer(tmp_path: Path) -> None:
    answer = Faulty(tmp_path, "tools/call=error:-32000").call(0)[-1]
    body = json.loads(str(answer))
    assert (body["id"], body["error"]["code"]) == (0, -32000)


@pytest.mark.parametrize(
    ("fault", "text"), [("tool-error", "fault: tools/call=tool-error"), ("tool-error:no disk: sorry", "no disk: sorry")]
)
def test_a_tool_error_is_a_result(tmp_path: Path, fault: str, text: str) -> None:
    body = json.loads(str(Faulty(tmp_path, f"tools/call={fault}").call(0)[-1]))
    assert body["result"] == {"content": [{"type": "text", "text": text}], "isError": True}


def test_a_hanging_call_says_nothing_at_all(tmp_path: Path) -> None:
    faulty = Faulty(tmp_path, "tools/call@1=hang")
    assert faulty.call(0) == []
    assert faulty.call(1) == [progress(1, 1), result(1, 1)]


@pytest.mark.parametrize("fault", ["error:-32000", "hang", "disconnect", "exit:3", "http:503", "reset"])
def test_a_call_that_never_reached_the_server_can_be_made_again(tmp_path: Path, fault: str) -> None:
    faulty = Faulty(tmp_path, f"tools/call@1={fault}")
    faulty.call(0)
    assert faulty.misses_and_unplayed() == ([], [4, 7, 10, 13])
    assert faulty.call(0) == [progress(0, 1), result(0, 0)]
    assert json.loads(str(faulty.call(0)[-1]))["error"]["code"] == -32010


@pytest.mark.parametrize("fault", ["tool-error", "drop", "malformed", "duplicate"])
def test_a_call_that_reached_the_server_uses_its_answer_up(tmp_path: Path, fault: str) -> None:
    faulty = Faulty(tmp_path, f"tools/call@1={fault}")
    faulty.call(0)
    assert json.loads(str(faulty.call(0)[-1]))["error"]["code"] == -32010


def test_calls_that_are_struck_again_and_again_leave_the_answer_where_it_is(tmp_path: Path) -> None:
    faulty = Faulty(tmp_path, "tools/call@1=error:1", "tools/call@2=hang", "tools/call@4=error:2")
    said = [faulty.call(n) for n in (0, 0, 0, 1, 1)]
    assert said[1] == []
    assert said[2] == [progress(0, 1), result(0, 0)]
    assert said[4] == [progress(1, 1), result(1, 1)]


@pytest.mark.slow
def test_a_struck_call_whose_answer_was_never_recorded_is_no_miss(tmp_path: Path) -> None:
    faulty = Faulty(tmp_path, "tools/call@6=error:-32000")
    for n in range(5):
        faulty.call(n)
    assert json.loads(str(faulty.call(5)[-1]))["error"]["code"] == -32000
    assert faulty.misses_and_unplayed() == ([], [])


def test_a_delayed_answer_comes_later(tmp_path: Path) -> None:
    faulty = Faulty(tmp_path, "tools/call@1=delay:250")
    assert faulty.call(0, now=10.0) == [progress(0, 1)]
    assert faulty.call(1, now=10.0) == [progress(1, 1), result(1, 1)]
    assert faulty.next_at() == 10.25
    assert faulty.later(10.25) == [result(0, 0)]


def test_a_fault_strikes_its_target_only(tmp_path: Path) -> None:
    faulty = Faulty(tmp_path, "tools/call:other=drop", "tools/list=drop", "tools/call:echo@3=drop")
    assert [len(faulty.call(n)) for n in range(5)] == [2, 2, 1, 2, 2]


def test_chance_comes_from_the_seed(tmp_path: Path) -> None:
    def run(name: str, seed: int) -> list[int]:
        (tmp_path / name).mkdir()
        faulty = Faulty(tmp_path / name, "tools/call=drop:50%", seed=seed)
        return [len(faulty.call(n)) for n in range(5)]

    runs = [run(str(seed), seed) for seed in range(8)]
    assert run("again", 3) == runs[3]
    assert len({tuple(one) for one in runs}) > 1
    assert {1, 2} == {length for one in runs for length in one}


@pytest.mark.parametrize(
    ("source", "complaint"),
    [
        ("tools/call", "write TARGET=FAULT"),
        ("tools/call=explode", "there is no fault 'explode'"),
        ("tools/call=error", "takes a code"),
        ("tools/call=error:soon", "takes a code"),
        ("tools/call=delay", "takes milliseconds"),
        ("=drop", "write TARGET=FAULT"),
    ],
)
def test_an_invalid_fault_is_refused_with_the_reason(source: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        faults.parse_fault(source)


@pytest.mark.parametrize("struck", [0, 1])
@pytest.mark.parametrize(
    ("fault", "in_one"), [("error:-32000", True), ("tool-error", True), ("drop", False), ("malformed", False)]
)
def test_a_fault_for_one_call_of_a_batch_strikes_that_call_and_no_other(
    tmp_path: Path, struck: int, fault: str, in_one: bool
) -> None:
    names = ["a", "b"]
    asked = "[" + ",".join(call(n, name) for n, name in enumerate(names)) + "]"
    answered = "[" + ",".join(result(n, name) for n, name in enumerate(names)) + "]"
    faulty = faults.FaultyPlayer([faults.parse_fault(f"tools/call:{names[struck]}={fault}")], 0)
    player = Player(make_cassette(tmp_path / "tape.db", [("client", asked), ("server", answered)]), report_played=True)
    player.deck._report = faulty.listen(player.facts.append)
    faulty.attach(player.deck)
    faulty.receive(asked.encode(), "stdio", 0.0)
    lines = [action.text.decode() for action in faulty.due(0.0) if isinstance(action, Send)]
    whole = next(line for line in lines if names[1 - struck] in line)
    other = json.loads(whole)[1 - struck] if in_one else json.loads(whole)
    assert other["result"]["value"] == names[1 - struck]
    assert not any(f'"value": "{names[struck]}"}}}}' in line for line in lines)
    assert player.told("note") == [f"fault tools/call:{names[struck]}={fault}"]


def test_a_fault_is_known_to_have_struck_once_it_broke_an_answer(tmp_path: Path) -> None:
    struck: set[str] = set()
    sources = ["tools/call@2=hang", "tools/call@9=drop", "tools/call:other=drop"]
    player = Player(
        make_cassette(tmp_path / "tape.db", [("client", call(1)), ("server", result(1))] * 2), repeats="last"
    )
    faulty = faults.FaultyPlayer([faults.parse_fault(source) for source in sources], 0, (), struck)
    player.deck._report = faulty.listen(player.facts.append)
    player.deck._report_played = True
    faulty.attach(player.deck)
    for expected in (set(), {"tools/call@2=hang"}):
        faulty.receive(call(1).encode(), "stdio", 0.0)
        faulty.due(0.0)
        assert struck == expected

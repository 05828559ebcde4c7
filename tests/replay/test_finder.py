"""What is read of a tape beyond what was asked for."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

from mcp_tape.replay.finder import Finder
from tests.support.decks import Player, Said, make_cassette

CALLS = 2_000
ORDERS: dict[str, Any] = {
    "recorded": range(CALLS),
    "reversed": range(CALLS - 1, -1, -1),
    "shuffled": Random(1).sample(range(CALLS), CALLS),
    "second half": range(CALLS // 2, CALLS),
    "every other": range(0, CALLS, 2),
}
NAMED = {
    "as recorded": '{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"n":%d}}',
    "other ids": '{"jsonrpc":"2.0","id":7%d,"method":"tools/call","params":{"n":%d}}',
    "string ids": '{"jsonrpc":"2.0","id":"c-%d","method":"tools/call","params":{"n":%d}}',
    "tokens": '{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"n":%d,"_meta":{"progressToken":"t"}}}',
}


class Counted(Player):
    """A player that counts what it reads at once, and what it looks up."""

    def __init__(self, path: Path, **options: Any) -> None:
        super().__init__(path, **options)
        self.blocks = self.looked_up = self.parsed = self.read = 0
        block, next_request, find = self.selection.block, self.selection.next_request, self.finder.find

        def counted_block(*values: int) -> list[tuple[Any, ...]]:
            self.blocks += 1
            rows: list[tuple[Any, ...]] = block(*values)
            self.read += len(rows)
            return rows

        def counted_next(*values: Any) -> Any:
            self.looked_up += 1
            return next_request(*values)

        def counted_find(*values: Any, **options: Any) -> Any:
            self.parsed += 1
            return find(*values, **options)

        self.selection.block = counted_block  # type: ignore[method-assign]
        self.selection.next_request = counted_next  # type: ignore[method-assign]
        assert isinstance(self.finder, Finder)
        self.finder.find = counted_find  # type: ignore[method-assign]


@pytest.fixture(scope="module")
def tape(tmp_path_factory: pytest.TempPathFactory) -> Path:
    said: list[Said] = []
    for n in range(CALLS):
        said.append(("client", NAMED["as recorded"] % (n, n)))
        said.append(("server", f'{{"jsonrpc":"2.0","id":{n},"result":{{"n":{n}}}}}'))
    return make_cassette(tmp_path_factory.mktemp("calls") / "tape.db", said)


@pytest.mark.slow(quick=4)
@pytest.mark.parametrize("order", sorted(ORDERS))
@pytest.mark.parametrize("names", sorted(NAMED))
def test_hardly_anything_is_looked_up_one_by_one_in_any_order(tape: Path, order: str, names: str) -> None:
    player = Counted(tape)
    for asked, n in enumerate(ORDERS[order]):
        (answer,) = player.say(NAMED[names] % (asked, n))
        assert f'"result":{{"n":{n}}}' in answer
    assert player.blocks <= 20
    assert player.looked_up <= 20
    assert player.parsed <= 25


def ask(player: Counted, numbers: Any) -> None:
    for n in numbers:
        (answer,) = player.say(NAMED["other ids"] % (n, n))
        assert f'"result":{{"n":{n}}}' in answer


def test_what_a_regular_client_leaves_out_is_hardly_read(tape: Path) -> None:
    player = Counted(tape)
    ask(player, range(0, CALLS, 2))
    assert player.read < 1.2 * CALLS / 2


def test_what_was_left_out_is_found_when_it_is_asked_for_after_all(tape: Path) -> None:
    player = Counted(tape)
    ask(player, range(0, CALLS, 2))
    ask(player, range(1, CALLS, 2))
    assert player.looked_up <= 25 and player.read < 3 * CALLS


def test_who_goes_on_is_given_more_at_once(tape: Path) -> None:
    forward, backward = Counted(tape), Counted(tape)
    ask(forward, range(CALLS))
    ask(backward, range(CALLS - 1, -1, -1))
    assert forward.blocks <= 4 and backward.blocks <= 4
    assert forward.read <= CALLS and backward.read <= CALLS


def test_who_asks_for_the_same_again_and_again_has_it_looked_up_once_more(tape: Path) -> None:
    player = Counted(tape, repeats="cycle")
    few = range(5)
    for _ in range(2):
        ask(player, few)
    before = player.looked_up, player.parsed
    for _ in range(10):
        ask(player, few)
    assert (player.looked_up, player.parsed) == before


def test_nothing_is_read_ahead_before_the_first_answer(tape: Path) -> None:
    player = Counted(tape)
    player.say(NAMED["as recorded"] % (1, 1))
    assert player.blocks == 0
    player.say(NAMED["as recorded"] % (2, 2))
    assert (player.blocks, player.looked_up) == (1, 1)


def test_what_is_kept_is_bounded_and_a_random_walk_reads_little(tape: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcp_tape.cassette.lookup.blocks._KEPT", 100_000)
    monkeypatch.setattr("mcp_tape.cassette.lookup.blocks._FREE", 200_000)
    monkeypatch.setattr("mcp_tape.cassette.lookup.blocks._EARNED", 0)
    player = Counted(tape)
    for asked, n in enumerate(ORDERS["shuffled"]):
        (answer,) = player.say(NAMED["other ids"] % (asked, n))
        assert f'"result":{{"n":{n}}}' in answer
    assert player.blocks <= 8
    assert len(player.finder._blocks.turns) <= 512

"""Random tapes and requests, compared with the definition of the rungs, without an index or a shortcut."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mcp_tape.replay.matching.nearness import MOST, NEAREST, Nearness
from tests.support.decks import Player, Said, make_cassette
from tests.support.fuzzing import examples

CITIES = st.sampled_from(["in bern", "in Bern", "IN BERN", "bern please", "bern now", "in basel"])
ROOTS = st.sampled_from([f"/tmp/tmp{letter * 8}" for letter in "abc"])
ARGUMENTS = st.fixed_dictionaries({"q": CITIES, "n": st.integers(0, 1)}, optional={"path": ROOTS.map("{}/x".format)})
OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "ignore": st.just(["$.params.arguments.n"]),
        "normalize": st.lists(st.sampled_from(["case", "paths"]), min_size=1, unique=True),
        "match": st.sampled_from([["nearest"], ["nearest:0.4"], ["nearest:0"]]),
    },
)


def root(arguments: dict[str, Any]) -> str | None:
    return arguments["path"].removesuffix("/x") if "path" in arguments else None


class Model:
    """The definition of a rung: of the recordings that are equal for it, the first unplayed one; otherwise a repeat.

    A recording that a looser rung has played is still available for a request that matches it exactly.
    """

    def __init__(self, tape: list[dict[str, Any]], options: dict[str, Any], repeats: str) -> None:
        self.tape, self.repeats = tape, repeats
        self.ignores, self.names = "ignore" in options, options.get("normalize", ())
        (match,) = options.get("match", ["exact"])
        self.least = None if match == "exact" else float(match.partition(":")[2] or NEAREST)
        self.played: set[int] = set()
        self.exact: set[int] = set()  # played to a request that matches exactly
        self.bound: set[tuple[str, str]] = set()

    def ask(self, live: dict[str, Any]) -> tuple[int, str] | None:
        """The recording that answers, and the rung."""
        for rung in self.rungs():
            found = self.nearest(live) if rung == "nearest" else self.equal(rung, live)
            if found is not None:
                if rung != "exact" or found not in self.exact:
                    self.bind(self.tape[found], live)
                self.played.add(found)
                self.exact |= {found} if rung == "exact" else set()
                return found, rung
        return None

    def rungs(self) -> list[str]:
        given = {"ignore": self.ignores, "normalize": self.names, "nearest": self.least is not None}
        return ["exact", *(rung for rung, is_given in given.items() if is_given)]

    def equal(self, rung: str, live: dict[str, Any]) -> int | None:
        like = [at for at, one in enumerate(self.tape) if self.is_equal(rung, one, live)]
        left = [at for at in like if at not in (self.exact if rung == "exact" else self.played)]
        return next(iter(left), like[-1] if like and self.repeats == "last" else None)

    def is_equal(self, rung: str, one: dict[str, Any], live: dict[str, Any]) -> bool:
        if rung == "exact":
            return one == live
        one, other = self.counted(one), self.counted(live)
        if rung == "ignore":
            return one == other
        return self.shape(one) == self.shape(other) and self.may_be(one, other)

    def counted(self, arguments: dict[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in arguments.items() if key != "n" or not self.ignores}

    def shape(self, arguments: dict[str, Any]) -> dict[str, Any]:
        made = dict(arguments)
        if "case" in self.names:
            made["q"] = made["q"].lower()
        if "paths" in self.names and "path" in made:
            made["path"] = "*"
        return made

    def may_be(self, one: dict[str, Any], live: dict[str, Any]) -> bool:
        pair = root(one), root(live)
        if "paths" not in self.names or None in pair:
            return True
        return all((pair[0] == a) == (pair[1] == b) for a, b in self.bound)

    def bind(self, one: dict[str, Any], live: dict[str, Any]) -> None:
        pair = root(one), root(live)
        if "paths" in self.names and pair[0] and pair[1] and self.may_be(one, live):
            self.bound.add((pair[0], pair[1]))

    def nearest(self, live: dict[str, Any]) -> int | None:
        assert self.least is not None
        for places in ([n for n in range(len(self.tape)) if n not in self.played], sorted(self.played)):
            near = [(-self.near(at, live), at) for at in places if self.may_be(self.tape[at], live)]
            good = [found for found in near if -found[0] >= self.least and found[0] < 0]
            if good and (places != sorted(self.played) or self.repeats == "last"):
                return min(good)[1]
        return None

    def near(self, at: int, live: dict[str, Any]) -> float:
        one, other = self.shape(self.counted(self.tape[at])), self.shape(self.counted(live))
        return min(Nearness().of({"arguments": one}, {"arguments": other}), MOST)


@examples(300)
@given(
    st.lists(ARGUMENTS, min_size=1, max_size=6),
    st.lists(ARGUMENTS, max_size=8),
    OPTIONS,
    st.sampled_from(["error", "last"]),
)
def test_no_rung_answers_for_a_stricter_one(
    tape: list[dict[str, Any]], asked: list[dict[str, Any]], options: dict[str, Any], repeats: str
) -> None:
    said: list[Said] = []
    for number, arguments in enumerate(tape):
        said.append(("client", request(number, arguments)))
        said.append(("server", f'{{"jsonrpc":"2.0","id":{number},"result":{{"value":{number}}}}}'))
    with tempfile.TemporaryDirectory() as directory:
        player = Player(make_cassette(Path(directory) / "tape.db", said), repeats=repeats, **options)
        model = Model(tape, options, repeats)
        for number, arguments in enumerate(asked):
            before = len(player.facts)
            (answer,) = player.say(request(100 + number, arguments))
            rungs = [fact.inexact.rung for fact in player.facts[before:] if fact.inexact]
            value = json.loads(answer).get("result", {}).get("value")
            found = None if value is None else (value, *(rungs or ["exact"]))
            assert found == model.ask(arguments)


def request(number: int, arguments: dict[str, Any]) -> str:
    body = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": {"name": "t", "arguments": arguments}}
    return json.dumps(body, separators=(",", ":"))

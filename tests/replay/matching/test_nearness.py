"""Nearness of requests: the same question in other words, and other questions."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_tape.replay.matching.nearness import MOST, NEAREST, Nearness

TEXTS = st.text("ab c.1-", max_size=6) | st.sampled_from(["weather in Bern", "Bern weather", "not Bern", "from A to B"])
LEAVES = TEXTS | st.integers() | st.floats(allow_nan=False) | st.booleans() | st.none()
VALUES = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab"), inner))
# One per line: whether both ask the same, the tool, the recorded arguments and the live ones.
CORPUS = [json.loads(line) for line in Path(__file__).with_name("nearest.jsonl").read_text().splitlines()]
MANUAL = Path(__file__).parents[3] / "docs/replay-rules.md"


def near(one: Any, other: Any) -> float:
    return Nearness().of({"arguments": one}, {"arguments": other})


@given(VALUES, VALUES)
def test_it_is_from_0_to_1_and_has_no_direction(one: Any, other: Any) -> None:
    found = near(one, other)
    assert 0 <= found <= 1
    assert found == near(other, one)


@given(VALUES)
def test_a_value_is_1_with_itself(value: Any) -> None:
    assert near(value, value) == 1


def rate(kind: str, least: float) -> str:
    found = [near(recorded, live) >= least for what, _, recorded, live in CORPUS if what == kind]
    return f"{sum(found)} of {len(found)}"


def test_the_manual_has_the_rates_of_the_corpus() -> None:
    rows = re.findall(r"^\| (0\.\d+)( \(default\))? \| (.+?) \| (.+?) \|$", MANUAL.read_text(), re.M)
    assert [float(least) for least, default, *_ in rows if default] == [NEAREST]
    assert len(rows) >= 5
    for least, _, same, different in rows:
        assert (least, same, different) == (least, rate("same", float(least)), rate("different", float(least)))


@pytest.mark.parametrize(("tool", "recorded", "live"), [row[1:] for row in CORPUS if row[0] == "different"])
def test_another_question_is_not_answered(tool: str, recorded: Any, live: Any) -> None:
    assert near(recorded, live) < NEAREST
    assert near(live, recorded) < NEAREST


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ({"q": "weather in Bern", "n": 1}, {"q": "Bern weather", "n": 1}, MOST),
        ({"q": "weather in Bern", "n": 1}, {"q": "weather in Bern", "n": 2}, 0),
        ({"q": "weather in Bern", "n": 1}, {"q": "weather in Bern", "n": True}, 0),
        ({"q": "weather in Bern", "to": "Bern"}, {"q": "weather in Bern", "to": "Berne"}, 0),
        ({"q": "weather in Bern"}, {"q": "weather in Bern", "n": 0}, 0),
        ({"q": "weather in Bern"}, {"q": "weather in Bern", "limit": 5}, 0.95),
        ({"q": "weather in Bern"}, {"q": "weather in Bern", "limit": "5"}, 0),
        ({"q": "weather in Bern"}, {"q": "weather in Bern", "confirm": True}, 0),
        ({"q": "weather in Bern"}, {"q": "weather in Bern", "all": False, "of": None}, 0.95**2),
        ({"tags": ["a", "b"]}, {"tags": ["b", "a"]}, 0.9),
        ({"tags": ["a", "b"]}, {"tags": ["b", "c"]}, 0),
        ({"tags": ["a", "b"]}, {"tags": ["a"]}, 0),
        ({"at": [1, 2]}, {"at": [2, 1]}, 0),
        ({"qs": ["of Bern", "of Basel"]}, {"qs": ["Bern", "Basel"]}, MOST),
        ({"q": "weather Bern"}, {"q": "fair weather Bern"}, 2 / 3),  # an added word
        ({"q": "fair weather Bern"}, {"q": "foul weather Bern"}, 2 / 4 / 2),  # a replaced word
        ({"q": "weather on coasts"}, {"q": "weather by coasts"}, 1 / 2),  # a replaced direction
        ({"q": "red shoes"}, {"q": "please"}, 0),
        ({"q": "the"}, {"q": "the please"}, 0),  # no word is left to compare
        ({"q": "look it up in IT"}, {"q": "look it up"}, 0),  # capitals make a name of a small word
        ({"q": "First. Then go"}, {"q": "first then go"}, MOST),  # but not at the start of a sentence
        ({"q": "it isn't here"}, {"q": "it is here"}, 0),
        ({"q": "run a -v now"}, {"q": "run a now"}, 0),
        ({"sql": "select one thing"}, {"sql": "select the one thing"}, 0),
        ({"filePath": "my notes"}, {"filePath": "the my notes"}, 0),
        ({"q": "select a from b"}, {"q": "select the a from b"}, 0),
        ({"q": "if (x < 1) a"}, {"q": "if (x < 1) the a"}, 0),
        ({"q": "a " + "b" * 70_000}, {"q": "b" * 70_000}, 0),  # too long to compare
        ({"q": "1"}, {"q": 1}, 0),
        ({"q": {}}, {"q": []}, 0),
        ({"q": {}}, {"q": "of it"}, 0),
        ({"n": 10**400}, {"n": 1.5}, 0),
    ],
)
def test_how_near(one: Any, other: Any, expected: float) -> None:
    assert near(one, other) == pytest.approx(expected)
    assert near(other, one) == pytest.approx(expected)


def test_all_strings_are_compared_by_their_words_if_asked_for() -> None:
    nearness = Nearness(any_string=True)
    assert nearness.of({"uri": "file:///a/b.md"}, {"uri": "file:///a/c.md"}) == 3 / 5
    assert nearness.of({"uri": "file:///a/b.md"}, {"uri": 1}) == 0


def test_values_read_as_equal_are_equal() -> None:
    nearness = Nearness(lambda one, other, key: (one, one) if key == "a" else (one, other))
    assert nearness.of({"a": "x", "b": 1}, {"a": "y", "b": 1}) == 1


@pytest.mark.slow
def test_huge_values_are_compared_in_little_time() -> None:
    lines = [f"line {n} of the text" for n in range(20_000)]
    assert near(lines, [*lines[1:], lines[0]]) == 0.9
    assert near([" ".join(lines)], [" ".join(reversed(lines))]) == 0

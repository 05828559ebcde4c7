"""Values hidden everywhere: few or many, at any place of a text, in any spelling."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mcp_tape.redaction.hiding_rules import mark, outside_marks
from mcp_tape.redaction.literals import Literals, _spellings

MANY = [f"{number}-other-{number}" for number in range(100, 200)]


def known(values: Iterable[str], most: int = 10_000) -> Literals:
    literals = Literals(most)
    for number, value in enumerate(dict.fromkeys(values)):
        literals.add(value, f"key:{number}")
    return literals


def hidden_one_by_one(values: Iterable[str], text: str) -> str:
    """The definition of hiding: the longest value first; of equals, the first."""
    unique = enumerate(dict.fromkeys(values))
    spelled = [(how, mark(f"key:{number}")) for number, value in unique for how in _spellings(value)]
    for how, placeholder in sorted(spelled, key=lambda one: -len(one[0])):
        text = outside_marks(text, lambda part: part.replace(how, placeholder))  # noqa: B023  # used at once
    return text


@pytest.mark.parametrize("length", range(8, 18))
def test_a_value_of_any_length_is_found_at_any_place_among_many(length: int) -> None:
    value = "kJ8!mN2?pQ4xyz=uvw"[:length]
    literals = known([*MANY, value])
    for before in range(17):
        for after in (0, 1, 7):
            text = "." * before + value + "." * after
            assert literals.occur(text.encode())
            assert literals.hide(text) == "." * before + "[redacted:key:100]" + "." * after
    for text in (value[:-1], value[1:], "." * 30, "", "x"):
        assert literals.hide(text) == text


def test_most_texts_are_found_to_hold_none_without_trying_each() -> None:
    assert not known(MANY).occur(b"." * 1000)
    assert not known([*MANY, "schl\u00fcssel-1"]).occur(b"schl" * 100)


@pytest.mark.parametrize("value", ["kJ8-mN2-", "kJ8-mN2-p", "kJ8-mN2-pQ", "kJ8-mN2-pQ4", "kJ8/mN2/"])
def test_a_short_value_that_is_added_later_is_found(value: str) -> None:
    literals = known(f"a-long-value-{number}-to-be-hidden" for number in range(100))
    assert not literals.occur(value.encode())
    literals.add(value, "key:late")
    for before in range(9):
        assert literals.occur(b"." * before + value.encode())
        assert literals.hide("." * before + value) == "." * before + "[redacted:key:late]"


PIECES = st.sampled_from(
    [
        "kJ8mN2pQ4",
        "kJ8mN2pQ",
        "12345678",
        "1234",
        "5678abcd",
        "a/b",
        'q"',
        "\\",
        "\n",
        "\u00e9",
        "\u20ac",
        "\udcff",
        "\ud83d",
    ]
)
TEXTS = st.lists(PIECES | st.text("ab1-", max_size=3), max_size=8).map("".join)


@given(st.lists(TEXTS.filter(lambda text: len(text) >= 8), max_size=8), TEXTS, st.booleans())
@example(["12345678", "5678abcd"], "12345678abcd", True)  # the first of two that overlap
@example(["kJ8mN2pQ4", "kJ8mN2pQ4kJ8mN2pQ4"], "kJ8mN2pQ4kJ8mN2pQ4", True)  # and the longest
@example(["a/b/c/d/e/f", "a\\/b\\/c\\/d\\/e\\/f"], "a\\/b\\/c\\/d\\/e\\/f", True)
@example(["kJ8mN2pQ4\udcff"], "\ud83dkJ8mN2pQ4\udcff", True)
def test_many_are_hidden_as_one_by_one(values: list[str], text: str, many: bool) -> None:
    values += MANY if many else []
    literals = known(values)
    expected = hidden_one_by_one(values, text)
    assert literals.hide(text) == expected
    if expected != text and not any("\ud800" <= letter <= "\udbff" for letter in text):
        assert literals.occur(text.encode("utf-8", "surrogateescape"))


@given(st.lists(TEXTS.filter(lambda text: len(text) >= 8), min_size=1, max_size=3), st.booleans())
def test_a_value_is_known_to_occur_however_json_spells_it(values: list[str], many: bool) -> None:
    literals = known([*values, *MANY] if many else values)
    for value in values:
        assert literals.occur(json.dumps([value]).encode())
        if not any("\ud800" <= letter <= "\udfff" for letter in value):
            assert literals.occur(json.dumps([value], ensure_ascii=False).encode())


@pytest.mark.slow
def test_many_values_with_one_beginning_are_distinguished() -> None:
    values = [f"Basel, day {day}: {day} degrees" for day in range(1_000)]
    literals = known(values)
    near = "Basel, day 7: 7 degrees Basel, day 8: 8 degrees"
    far = "Basel, day 777: 777 degrees. Basel, day 1000: 1000 degrees"
    for text in (near, far, near + "." * 300 + near, "Basel, day 7"):
        assert literals.hide(text) == hidden_one_by_one(values, text)
    assert literals.hide("Basel, d" * 1_000) == "Basel, d" * 1_000
    assert "day" not in literals.hide(" ".join(values))


@pytest.mark.parametrize("most", [3, 50, 300])
def test_of_too_many_the_newest_are_hidden_and_no_others(most: int) -> None:
    pick = random.Random(most)
    literals = Literals(most)
    newest: list[str] = []
    for _ in range(3 * most):
        value = f"kJ8-mN2-{pick.randrange(4 * most)}-end"
        if value not in newest:
            newest = [*newest, value][-most:]
        literals.add(value, "key:x")
        gone = f"kJ8-mN2-{pick.randrange(4 * most)}-end"
        for text in (newest[0], newest[-1], gone):
            assert (literals.hide(text) != text) is (text in newest)
            assert literals.occur(text.encode()) >= (text in newest)


def test_a_value_that_was_forgotten_and_comes_again_is_named_anew() -> None:
    literals = Literals(100)
    literals.add("kJ8-mN2-pQ4", "key:old")
    for value in MANY:
        literals.add(value, "key:other")
        assert literals.hide("12345678") == "12345678"
    assert literals.hide("kJ8-mN2-pQ4") == "kJ8-mN2-pQ4"
    literals.add("kJ8-mN2-pQ4", "key:new")
    assert literals.hide("kJ8-mN2-pQ4") == "[redacted:key:new]"


def test_a_spelling_of_two_values_stays_hidden_when_one_is_forgotten() -> None:
    literals = Literals(101)
    literals.add("a/b/c/d/e", "key:first")
    literals.add("a\\/b\\/c\\/d\\/e", "key:second")
    for value in MANY:
        literals.add(value, "key:other")
        assert "a\\" not in literals.hide("a\\/b\\/c\\/d\\/e")
    assert literals.hide("a/b/c/d/e") == "a/b/c/d/e"


@given(TEXTS)
def test_the_spellings_of_a_value_are_those_of_json_and_of_a_url(value: str) -> None:
    plain, ascii_only = json.dumps(value, ensure_ascii=False)[1:-1], json.dumps(value)[1:-1]
    spelled = set(_spellings(value))
    assert {value, plain, ascii_only, value.replace("/", "\\/")} <= spelled
    assert {json.dumps(once, ensure_ascii=False)[1:-1] for once in (plain, ascii_only)} <= spelled
    assert len(spelled) <= 7


def test_a_url_spells_all_but_letters_digits_and_four_marks_in_hexadecimals() -> None:
    assert "a%20%C3%A9%2F~-_.%25%22" in _spellings('a \u00e9/~-_.%"')

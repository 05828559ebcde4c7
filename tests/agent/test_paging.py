"""Answers have a bounded size, and nothing is lost between them."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_tape.agent.paging import ROOM, Item, ToolAnswer, ToolError, clean, number, numbers, page, short, window
from tests.support.agents import next_of, text_of


def read_all(pieces: list[str]) -> list[str]:
    """The windows of a text, in order."""
    found, cursor = [], "0"
    while True:
        answer = ToolAnswer(window(pieces, int(cursor)))
        assert len(text_of(answer).encode()) <= ROOM
        found.append(text_of(answer))
        following = next_of(answer)
        if following is None:
            return found
        cursor = following


@given(st.lists(st.text(st.sampled_from("ab\n é世😀")).map(lambda text: text * 400), max_size=30))
def test_the_windows_of_a_text_are_the_text(pieces: list[str]) -> None:
    assert "".join(read_all(pieces)) == "".join(pieces)


def test_a_text_that_just_fits_is_one_window() -> None:
    assert read_all(["x" * ROOM]) == ["x" * ROOM]
    assert read_all(["x" * ROOM, "y"]) == ["x" * ROOM, "y"]
    assert read_all([]) == [""]


def test_a_character_is_never_cut_in_two() -> None:
    assert "".join(read_all(["x", "😀" * ROOM])) == "x" + "😀" * ROOM


@pytest.mark.parametrize("cursor", ["-1", "1.2", "x", "٣", "1" * 30, "1\n"])
def test_a_cursor_that_was_never_given_is_refused(cursor: str) -> None:
    with pytest.raises(ToolError, match="is not from this tool"):
        number(cursor)


def test_a_cursor_beyond_the_end_is_refused() -> None:
    with pytest.raises(ToolError, match="beyond the end"):
        window(["text"], 5)
    assert window(["text"], 4) == ""


def test_items_are_divided_where_the_room_ends() -> None:
    items = [Item(f"{n}" + "x" * 900, {"n": n}, str(n + 1)) for n in range(50)]
    first = page("things", items, "head", "nothing")
    assert first.structured is not None
    count = len(first.structured["things"])
    assert 15 < count < 50 and first.structured["next_cursor"] == str(count) == next_of(first)
    assert len(text_of(first).encode()) <= ROOM
    rest = page("things", items[count : 2 * count], "head", "nothing")
    assert rest.structured is not None and rest.structured["things"][0] == {"n": count}


def test_structured_content_is_bounded_as_the_text_is() -> None:
    answer = page("things", [Item("x", {"n": "y" * 900}, str(n)) for n in range(50)], "head", "nothing")
    assert answer.structured is not None and answer.structured["next_cursor"]
    assert len(json.dumps(answer.structured["things"], separators=(",", ":"))) <= ROOM + 2


def test_one_item_that_never_fits_is_an_error_with_advice() -> None:
    with pytest.raises(ToolError, match=r"more than the 20000 bytes of an answer\. Ask for less"):
        page("rows", [Item("x" * 30_000, {}, "1")], "head", "nothing", "Ask for less")


def test_no_items_say_so() -> None:
    assert page("things", [], "head", "There is nothing.") == ToolAnswer(
        "head\nThere is nothing.", {"things": [], "next_cursor": None}
    )


def test_invisible_characters_are_shown() -> None:
    hidden = "a\u202eb\U000e0041\ud800"
    found = page("things", [Item(hidden, {"said": [hidden]}, "1")], hidden, "")
    assert found.structured is not None
    (said,) = found.structured["things"][0]["said"]
    assert said == "a\\u202eb\\udb40\\udc41\\ud800" and found.text == f"{said}\n{said}"
    assert clean({hidden: (1, None, hidden)}) == {said: [1, None, said]}
    assert window([hidden], 0) == said


def test_a_short_text_says_how_much_is_left_out() -> None:
    assert short("a\n b") == "a b"
    assert short("x" * 310, 300) == "x" * 300 + "… [10 more characters]"
    assert short("x" * 10_000, 10) == "x" * 10 + "… [9990 more characters]"
    assert short(None) == ""


def test_numbers_of_a_cursor() -> None:
    assert (numbers("2.15", 2, 3), number("7"), number(None), number("")) == ([2, 15], 7, 0, 0)
    with pytest.raises(ToolError, match="is not from this tool"):
        numbers("2", 2, 3)

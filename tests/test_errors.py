"""Words that messages share: invisible and active characters are replaced."""

from __future__ import annotations

import pytest

from mcp_tape.errors import replace_control_characters

HIDING = "\u200b\u202e\u00ad\u00a0\u034f\u2063\u2800\u3164\ufe01\ufe0e\U000e0041\U000e0101\x1b\x07\r\ud800"


@pytest.mark.parametrize("character", HIDING, ids=ascii)
def test_control_and_invisible_characters_are_replaced(character: str) -> None:
    assert replace_control_characters(f"a{character}b") == "a\N{MIDDLE DOT}b"
    assert replace_control_characters(f"a{character}b", ascii) == f"a{character!a}b"


@pytest.mark.parametrize(
    "text", ["", "plain ~", "naïve 東京 Привет שלום", "\N{HEAVY BLACK HEART}\ufe0f \N{PARTY POPPER}"]
)
def test_visible_characters_stay(text: str) -> None:
    assert replace_control_characters(text) == text

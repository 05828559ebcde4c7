"""Invisible characters."""

from __future__ import annotations

import pytest

from mcp_tape.model.characters import hidden, visible

SCOTLAND = "\U0001f3f4" + "".join(chr(0xE0000 + ord(letter)) for letter in "gbsct") + "\U000e007f"
OBEY = "".join(chr(0xE0000 + ord(letter)) for letter in "obey")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (f"Adds.{OBEY}", "spell 'obey'"),
        (f"{SCOTLAND}{OBEY}", "spell 'obey'"),
        ("a\u202eb", "RIGHT-TO-LEFT OVERRIDE"),
        ("Adds.\ufe01\ufe02\ufe03", "3 invisible characters in a row"),
        ("a\u200b\u200c\u200b\u200c", "4 invisible characters in a row"),
    ],
)
@pytest.mark.parametrize("strict", [True, False])
def test_hidden_characters_are_found_anywhere(text: str, why: str, strict: bool) -> None:
    assert [why in found for found in hidden(text, strict=strict)] == [True]


@pytest.mark.parametrize(
    "text", ["a\u200bb", "a\u2060b", "de\u200dlete", "a\u2066b\u2069", "a\ufe0f", "\u3164", "x\u3164"]
)
def test_in_definitions_one_is_enough(text: str) -> None:
    assert len([*hidden(f"x{text}", strict=True)]) == 1
    assert [*hidden(f"x{text}", strict=False)] == []


@pytest.mark.parametrize(
    "text",
    [
        "plain",
        "naïve café, 東京, Привет",
        SCOTLAND,
        "\N{HEAVY BLACK HEART}\ufe0f 1\ufe0f\u20e3 \N{COPYRIGHT SIGN}\ufe0f",
        "\N{WOMAN}\u200d\N{PERSONAL COMPUTER}",
        "می\u200cخواهم",  # Persian
        "\u2067שלום\u2069 abc",
        "\ufeffa byte order mark",
        "辻\U000e0100",
    ],
)
def test_characters_with_a_reason_stay_unsuspected(text: str) -> None:
    assert [*hidden(text, strict=True)] == []


def test_what_is_visible_is_what_a_model_reads() -> None:
    assert visible("ig\u200bnore \uff50revious") == "ignore previous"

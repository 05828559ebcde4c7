"""Invisible characters."""

from __future__ import annotations

from itertools import combinations

import pytest

from mcp_tape.model import characters
from mcp_tape.model.characters import (
    describe_disguise,
    describe_hidden,
    escape_disguised,
    find_lookalikes,
    normalize_visible,
)

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
    assert [why in found for found in describe_hidden(text, strict=strict)] == [True]


@pytest.mark.parametrize(
    "text", ["a\u200bb", "a\u2060b", "de\u200dlete", "a\u2066b\u2069", "a\ufe0f", "\u3164", "x\u3164"]
)
def test_in_definitions_one_is_enough(text: str) -> None:
    assert len([*describe_hidden(f"x{text}", strict=True)]) == 1
    assert [*describe_hidden(f"x{text}", strict=False)] == []


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
    assert [*describe_hidden(text, strict=True)] == []


def test_the_visible_part_of_a_text_stays() -> None:
    assert normalize_visible("ig\u200bnore \uff50revious") == "ignore previous"


# -- names that look like others
@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("r\u0435ad_file", "mixes the scripts Cyrillic and Latin"),
        ("\uff52ead", "looks like 'read'"),
        ("\U0001d42bead", "looks like 'read'"),
        ("сору", "looks like 'copy', in Cyrillic"),
        ("\u0561", "looks like 'w', in Armenian"),
    ],
)
def test_a_disguised_name_is_reported(name: str, why: str) -> None:
    assert (describe_disguise(name) or "").startswith(why)


@pytest.mark.parametrize(
    "name", ["read_file", "größe", "cafe\u0301", "読む_file", "файл", "δ", "file_2", "sınıf", "اسم"]
)
def test_an_honest_name_is_not_suspected(name: str) -> None:
    assert describe_disguise(name) is None


def test_names_that_look_alike_are_paired() -> None:
    assert [*find_lookalikes(["сору", "list", "copy", "1ist", "list"])] == [("сору", "copy"), ("list", "1ist")]
    assert [*find_lookalikes(["Search", "search", "get_a", "get_b"])] == []


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("get", "g\u212et"),  # ESTIMATED SYMBOL
        ("read_file", "read\ufe4dfile"),  # DASHED LOW LINE
        ("scope", "s\u03f2ope"),  # GREEK LUNATE SIGMA SYMBOL
        ("write", "\u051drite"),  # CYRILLIC SMALL LETTER WE
        ("modern", "modem"),
        ("list", "\u05c0ist"),  # HEBREW PUNCTUATION PASEQ, from right to left
        ("\u0561\u0578", "wn"),  # whole words of Armenian
    ],
)
def test_lookalikes_follow_unicodes_own_table(one: str, other: str) -> None:
    assert [*find_lookalikes([one, other])] == [(one, other)]
    assert [*find_lookalikes([other, one])] == [(other, one)]


def test_plain_names_need_no_table_unless_the_table_has_their_letters() -> None:
    plain = [chr(number) for number in range(0x20, 0x7F)]
    for one, other in combinations([*plain, *map("".join, combinations("abcmnr", 2))], 2):
        if characters._shape(one) == characters._shape(other):
            assert [*find_lookalikes([one, other])] == [(one, other)]


def test_a_name_that_looks_like_another_is_spelled_out() -> None:
    assert escape_disguised("read_fil\u0435") == "read_fil\\u0435"
    assert escape_disguised("größe") == "größe"

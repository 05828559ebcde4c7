"""Names that look like others."""

from __future__ import annotations

from itertools import combinations

import pytest

from mcp_tape.model import lookalikes
from mcp_tape.model.lookalikes import alike, disguised, spelled


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
def test_a_disguised_name_is_told(name: str, why: str) -> None:
    assert (disguised(name) or "").startswith(why)


@pytest.mark.parametrize(
    "name", ["read_file", "größe", "cafe\u0301", "読む_file", "файл", "δ", "file_2", "sınıf", "اسم"]
)
def test_an_honest_name_is_not_suspected(name: str) -> None:
    assert disguised(name) is None


def test_names_that_look_alike_are_paired() -> None:
    assert [*alike(["сору", "list", "copy", "1ist", "list"])] == [("сору", "copy"), ("list", "1ist")]
    assert [*alike(["Search", "search", "get_a", "get_b"])] == []


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
def test_what_looks_alike_is_unicodes_own_table(one: str, other: str) -> None:
    assert [*alike([one, other])] == [(one, other)]
    assert [*alike([other, one])] == [(other, one)]


def test_plain_names_need_no_table_unless_the_table_has_their_letters() -> None:
    plain = [chr(number) for number in range(0x20, 0x7F)]
    for one, other in combinations([*plain, *map("".join, combinations("abcmnr", 2))], 2):
        if lookalikes._shape(one) == lookalikes._shape(other):
            assert [*alike([one, other])] == [(one, other)]


def test_a_name_that_looks_like_another_is_spelled_out() -> None:
    assert spelled("read_fil\u0435") == "read_fil\\u0435"
    assert spelled("größe") == "größe"

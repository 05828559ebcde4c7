"""The small JSONPath of rules and redactions."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mcp_tape.wire.jsonpath import JsonPath, path_text, read_path, split_paths
from mcp_tape.wire.jsontext import Path

FITS = [
    ("$", ()),
    ("$.params.arguments.now", ("params", "arguments", "now")),
    ("$.a-b.c_d.$x", ("a-b", "c_d", "$x")),
    ("$.naïve", ("naïve",)),
    ("$.items[0].id", ("items", 0, "id")),
    ("$.items[*].id", ("items", 7, "id")),
    ("$.*.id", ("anything", "id")),
    ("$[*]", ("key",)),
    ("$['a b'][\"c.d\"]", ("a b", "c.d")),
    ("$['']", ("",)),
    (r"$['it\'s']", ("it's",)),
    ("$['*']", ("*",)),
    ("$['..'].x", ("..", "x")),
    ("$..token", ("token",)),
    ("$..token", ("a", 0, "b", "token")),
    ("$.params..token", ("params", "x", "token")),
    ("$..a..b", ("a", "x", "b")),
    ("$..['api key']", ("params", "api key")),
    ("$..[0]", ("a", "b", 0)),
    ("$..*", ("a", "b")),
]
FITS_NOT = [
    ("$", ("a",)),
    ("$.a", ()),
    ("$.a", ("a", "b")),
    ("$.a.b", ("a",)),
    ("$.a", ("A",)),
    ("$.items[0]", ("items", 1)),
    ("$.items[0]", ("items", "0")),
    ("$.items['0']", ("items", 0)),
    ("$['*']", ("a",)),
    ("$['..'].x", ("a", "x")),
    ("$..token", ("token", "a")),
    ("$..a.b", ("a", "x", "b")),
    ("$.params..token", ("token",)),
]


@pytest.mark.parametrize(("source", "path"), FITS)
def test_a_jsonpath_fits_the_place_it_names(source: str, path: Path) -> None:
    assert JsonPath(source)(path)


@pytest.mark.parametrize(("source", "path"), FITS_NOT)
def test_a_jsonpath_fits_no_other_place(source: str, path: Path) -> None:
    assert not JsonPath(source)(path)


@pytest.mark.parametrize(
    "source", ["", "a", ".a", "$.", "$a", "$..", "$[", "$[-1]", "$['a]", "$.a.", "$...a", "$[1", "$.a b"]
)
def test_an_invalid_jsonpath_is_refused_with_its_text(source: str) -> None:
    with pytest.raises(ValueError, match="JSONPath") as refused:
        JsonPath(source)
    assert repr(source) in str(refused.value)


KEYS = st.text() | st.text(st.sampled_from("\n\t\x00\x1b\x7f\u200b\u2028\ud800'\"\\.*$ un0041"), max_size=5)


@given(st.lists(KEYS | st.integers(min_value=0), max_size=5).map(tuple))
@example(("a\nb", "\x1b[31m", "\\n", "it's", "both ' and \"", "\U000e0001", "\ud800", "\\u0041"))
def test_a_path_that_is_written_reads_back(path: Path) -> None:
    written = path_text(path)
    assert read_path(written) == path
    assert JsonPath(written)(path)
    assert written.isprintable()


@pytest.mark.parametrize(
    ("source", "key"),
    [(r"$['a\nb']", "a\nb"), (r"$['\u00e9\ud83d\ude00']", "\u00e9\U0001f600"), (r"$['\x\u12']", "xu12")],
)
def test_keys_are_escaped_as_in_json(source: str, key: str) -> None:
    assert read_path(source) == (key,)


@pytest.mark.parametrize("source", ["$.*", "$.a[*].b", "$..a"])
def test_a_path_of_one_place_has_no_wildcards(source: str) -> None:
    with pytest.raises(ValueError, match="JSONPath"):
        read_path(source)


Steps = tuple[tuple[bool, str | int], ...]  # each with whether it matches at any depth


def naively(steps: Steps, path: Path) -> bool:
    """Whether a path matches, by trying every way."""
    if not steps:
        return not path
    (deep, step), *rest = steps
    if deep:
        return any(naively(((False, step), *rest), path[skip:]) for skip in range(len(path)))
    return bool(path) and step in ("*", path[0]) and naively(tuple(rest), path[1:])


@given(
    st.lists(st.tuples(st.booleans(), st.sampled_from(["a", "b", "*", 0])), max_size=6).map(tuple),
    st.lists(st.sampled_from(["a", "b", 0]), max_size=8).map(tuple),
)
def test_a_jsonpath_matches_the_same_as_an_exhaustive_search(steps: Steps, path: Path) -> None:
    place = JsonPath("$" + "".join(f"{'..' if deep else ''}[{step!r}]".replace("'*'", "*") for deep, step in steps))
    assert place(path) == naively(steps, path)
    assert place.covers(path) == any(naively(steps, path[:length]) for length in range(len(path) + 1))


def test_any_number_of_steps_at_any_depth_takes_linear_time() -> None:
    assert not JsonPath("$" + "..a" * 200 + ".b")(("a",) * 2_000)


@given(st.lists(st.text() | st.integers(min_value=0), max_size=5))
def test_any_path_can_be_written_with_brackets(path: list[str | int]) -> None:
    steps = (
        f"[{s}]" if isinstance(s, int) else "['" + s.replace("\\", "\\\\").replace("'", "\\'") + "']" for s in path
    )
    fits = JsonPath("$" + "".join(steps))
    assert fits(tuple(path))
    assert not fits((*path, "more"))


@given(st.lists(st.lists(st.text("ab,'\"\\ ", max_size=4), max_size=3).map(tuple), max_size=3))
def test_paths_with_commas_between_them_are_separated(paths: list[Path]) -> None:
    assert [read_path(one) for one in split_paths(",".join(map(path_text, paths)))] == paths


def test_a_stray_quote_is_not_lost() -> None:
    assert split_paths("$.a',,$.b") == ["$.a'", "$.b"]

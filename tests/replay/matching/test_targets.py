"""Matching options: the requests that each applies to, and refused values."""

from __future__ import annotations

import pytest

from mcp_tape.replay.matching import targets
from mcp_tape.replay.matching.targets import Target


@pytest.mark.parametrize(
    ("source", "target", "rest"),
    [
        ("$.params.a", Target(), "$.params.a"),
        ("$.params['a=b']", Target(), "$.params['a=b']"),
        ("tools/call=$.params.a", Target("tools/call"), "$.params.a"),
        ("tools/call:search=$.params.a", Target("tools/call", "search"), "$.params.a"),
        ("resources/read:file:///x=paths", Target("resources/read", "file:///x"), "paths"),
        ("paths", Target(), "paths"),
        ("module:function", Target(), "module:function"),
    ],
)
def test_a_target_is_split_off(source: str, target: Target, rest: str) -> None:
    assert targets.split(source) == (target, rest)


def test_whom_a_target_fits() -> None:
    assert Target().fits("ping", None)
    assert Target("tools/call").fits("tools/call", "x")
    assert Target("tools/call", "x").fits("tools/call", "x")
    assert not Target("tools/call", "x").fits("tools/call", "y")
    assert not Target("tools/call").fits("tools/list", None)


@pytest.mark.parametrize(
    ("method", "name", "expected"),
    [
        ("tools/call", "search", "tools/call:search=paths"),
        ("tools/list", None, "tools/list=paths"),
        ("tools/call", "a=b", "tools/call=paths"),
        ("a@b", "x", "paths"),
    ],
)
def test_an_option_is_written_so_that_it_is_read_again(method: str, name: str | None, expected: str) -> None:
    found = targets.write_option(method, name, "paths")
    assert found == expected
    assert targets.split(found)[1] == "paths"


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("path", "there is no normalizer 'path': choose one of paths, times,"),
        ("numbers", "numbers takes a tolerance, as in numbers:0.01"),
        ("numbers:much", "numbers takes a tolerance"),
        ("tools/call=numbers:-1", "numbers takes a tolerance"),
        ("json:nothing", "not a function that can be imported"),
    ],
)
def test_an_unknown_normalizer_is_refused(source: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        targets.check_normalizer(source)


@pytest.mark.parametrize("source", ["near", "nearest:2", "nearest:-1", "nearest:x", "tools/call=", "exact:1"])
def test_an_unknown_manner_is_refused(source: str) -> None:
    with pytest.raises(ValueError, match="is not a way to match: write exact, nearest or"):
        targets.check_manner(source)


def test_a_path_behind_a_target_is_checked() -> None:
    targets.check_path("tools/call:x=$.params.a[0]")
    with pytest.raises(ValueError, match="a JSONPath starts with"):
        targets.check_path("tools/call:x=params")


def test_the_most_detailed_manner_counts_and_of_several_the_last() -> None:
    manners = [
        targets.parse_manner(source)
        for source in ("tools/call:x=nearest:0.9", "nearest", "tools/call=exact", "nearest:0.2", "tools/call:y=nearest")
    ]
    assert targets.required_similarity(manners, "prompts/get", "u") == 0.2
    assert targets.required_similarity(manners, "resources/read", "u") is None, "only a target makes it bend"
    assert (
        targets.required_similarity(
            [*manners, targets.parse_manner("resources/read=nearest:0.3")], "resources/read", "u"
        )
        == 0.3
    )
    assert targets.required_similarity(manners, "tools/call", "z") is None
    assert targets.required_similarity(manners, "tools/call", "x") == 0.9
    assert targets.required_similarity(manners, "tools/call", "y") == targets.NEAREST
    assert targets.required_similarity([], "tools/call", "y") is None

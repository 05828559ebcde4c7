"""Normalized values: those that vary from run to run, and those that do not."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mcp_tape import TapeError
from mcp_tape.replay.matching.normal import Form, are_random
from mcp_tape.replay.matching.targets import READY, Normalizer, parse_normalizer
from tests.support.fuzzing import examples

MAC = "/var/folders/zz/zyxvpxvq6csfxvn_n0000000000000/T"


def form(*sources: str) -> Form:
    return Form([parse_normalizer(source)[1] for source in sources])


def same(name: str, recorded: Any, live: Any, key: str = "") -> bool:
    return form(name).pair_leaves(recorded, live, key) is not None


@pytest.mark.parametrize(
    ("recorded", "live"),
    [
        ("/tmp/pytest-of-ann/pytest-1/test_a0/a.txt", "/tmp/pytest-of-bob/pytest-22/test_a0/a.txt"),
        ("/tmp/pytest-of-ann/pytest-1/test_a0", f"{MAC}/pytest-of-ann/pytest-2/popen-gw3/test_a0"),
        ("/tmp/pytest-of-ann/pytest-1/test_a0/x", "/ci/basetemp/popen-gw1/test_a0/x"),
        # A test run within a test.
        ("/tmp/pytest-of-a/pytest-1/test_a0", "/tmp/pytest-of-b/pytest-2/test_b0/tmp/pytest-of-b/pytest-0/test_a0"),
        ("/tmp/pytest-of-ann/pytest-1", "/ci/work/tmp/pytest-of-root/pytest-0/popen-gw11"),
        ("/tmp/tmpab12cd34/a.txt", "/tmp/tmp_9xyzwq0/a.txt"),
        ("/tmp/tmpab12cd34", f"/private{MAC}/tmpxy98zw76"),
        ("/tmp/tmp.Ab3dE6gh1J/x", "/tmp/tmp.ZZ3dE6gh1J/x"),
        ("/tmp/tmpab12cd34.json", "/tmp/tmpxy12cd34.json"),
        ("/x/pytest-of-a/pytest-1/t0/tmpab12cd34/a.txt", "/x/pytest-of-a/pytest-1/t0/tmpxy98zw76/a.txt"),
        ("/tmp/mcp-Ab3dE6/x", "/tmp/mcp-abcdef/x"),  # happens to have no digit
        ("/tmp/mcp_test_ab12cd34/x", "/tmp/mcp_test_zz12cd99/x"),
        ("/ci/tmp/tmpab12cd34/a.txt", "/tmp/tmpxy98zw76/a.txt"),
        ("/tmp/0b0e4c2e-8a51-4b0e-9f0a-3c1f7c0d1e2f/x", "/tmp/9b0e4c2e-8a51-4b0e-9f0a-3c1f7c0d1e2f/x"),
        ("/home/ann/src/x.py", "/Users/bob/src/x.py"),
        ("/root/.cache", "/home/runner/.cache"),
        ("file:///home/ann/x", "file:///root/x"),
        ("cp /tmp/tmpab12cd34/a /home/ann/b", "cp /tmp/tmpxy98zw76/a /home/bob/b"),
        ("--root=/home/ann:/tmp/tmpab12cd34.", "--root=/home/bob:/tmp/tmpxy98zw76."),
    ],
)
def test_paths_that_are_the_same(recorded: str, live: str) -> None:
    assert same("paths", recorded, live)
    assert same("paths", live, recorded)


@pytest.mark.parametrize(
    ("recorded", "live"),
    [
        ("/tmp/pytest-of-ann/pytest-1/test_a0/a.txt", "/tmp/pytest-of-ann/pytest-2/test_b0/a.txt"),
        ("/tmp/pytest-of-ann/pytest-1/test_a0/a.txt", "/tmp/pytest-of-ann/pytest-2/test_a0/b.txt"),
        ("/tmp/tmpab12cd34/a.txt", "/tmp/tmpxy98zw76/b.txt"),
        ("/tmp/a.txt", "/tmp/b.txt"),
        ("/tmp/january/x", "/tmp/february/x"),
        ("/tmp/report-january/x", "/tmp/report-october/x"),
        ("/tmp/one-Ab3dE6/x", "/tmp/two-abcdef/x"),
        ("/tmp/tmpab12cd34.json", "/tmp/tmpxy12cd34.yaml"),
        ("/home/ann/src", "/srv/ann/src"),
        ("https://example.com/home/ann", "https://example.com/home/bob"),
        ("data/tmp/tmpab12cd34", "data/tmp/tmpxy98zw76"),
        ("/homestead/ann", "/homestead/bob"),
        ("/rooted/x", "/rooter/x"),
        ("/users/ann", "/users/bob"),
    ],
)
def test_paths_that_are_not(recorded: str, live: str) -> None:
    assert not same("paths", recorded, live)


@pytest.mark.parametrize(
    ("name", "recorded", "live"),
    [
        ("uuids", "job 0b0e4c2e-8a51-4b0e-9f0a-3c1f7c0d1e2f", "job 9B0E4C2E-8A51-4B0E-9F0A-3C1F7C0D1E2F"),
        ("uuids", "0b0e4c2e8a514b0e9f0a3c1f7c0d1e2f", "9b0e4c2e8a514b0e9f0a3c1f7c0d1e2f"),
        ("ports", "http://localhost:4001/x", "http://localhost:52817/x"),
        ("ports", "ws://[::1]:4001", "ws://[::1]:8"),
        ("times", "2026-01-02T03:04:05Z", "2027-11-12T13:14:15.123456+01:00"),
        ("times", "on 2026-01-02", "on 2025-12-31"),
        ("times", "log_2026-01-02.txt", "log_2025-12-31.txt"),
        ("times", "Tue, 03 Feb 2026 10:00:00 GMT", "Wed, 4 Mar 2026 11:00:00 +0100"),
        ("times", "at 10:00:00", "at 23:59:59.5"),
        ("times", 1_763_437_105_123, 1_863_437_105_999),
        ("times", 1_763_437_105.25, 1_863_437_105.5),
        ("times", "1763437105123", "1863437105123"),
        ("case", "Bern", "BERN"),
        ("space", " a\t b\n", "a b"),
        ("numbers:0.1", 0.2, 0.3),
        ("numbers:0.1", 5, 5.1),
        ("numbers:1", 10**30, 10**30 + 1),
    ],
)
def test_other_values_that_are_the_same(name: str, recorded: Any, live: Any) -> None:
    assert same(name, recorded, live)


@pytest.mark.parametrize(
    ("name", "recorded", "live"),
    [
        ("uuids", "0b0e4c2e-8a51-4b0e-9f0a-3c1f7c0d1e2f", "0b0e4c2e-8a51-4b0e-9f0a"),
        ("uuids", "d41d8cd98f00b204e9800998ecf8427e", "0cc175b9c0f1b6a831c399e269772661"),  # digests
        ("ports", "http://localhost:4001/x", "http://127.0.0.1:4001/x"),
        ("ports", "http://example.com:4001/x", "http://example.com:4002/x"),
        ("times", "2026-01-02", "2026-01-02T03:04:05Z"),
        ("times", "2026-13-02", "2026-14-02"),
        ("times", 1_763_437_105, 1_763_437_106),  # may be anything
        ("times", 17, 18),
        ("case", "Bern", "Basel"),
        ("space", "ab", "a b"),
        ("numbers:0.1", 0.2, 0.31),
        ("numbers:1", 1, True),
        ("numbers:1", 1, "1"),
    ],
)
def test_other_values_that_are_not(name: str, recorded: Any, live: Any) -> None:
    assert not same(name, recorded, live)


def test_seconds_are_a_time_under_a_name_that_says_so() -> None:
    for key in ("created_at", "since", "timestamp", "createdAt", "expires", "ts"):
        assert same("times", 1_763_437_105, 1_763_437_106, key)
    assert not same("times", 1_763_437_105, 1_763_437_106, "customer")


def test_a_tolerance_has_no_edges() -> None:
    for step in range(100):
        assert same("numbers:0.5", step / 10, step / 10 + 0.5)


def test_a_function_makes_values_equal() -> None:
    made = Form([Normalizer(function=lambda value: value % 10 if isinstance(value, int) else [1, 2])])
    assert made.pair_leaves(13, 23) == []
    assert made.pair_leaves("a", "b") == []
    assert made.pair_leaves(13, 24) is None


def test_a_function_that_fails_says_which_it_is() -> None:
    made = Form([Normalizer(function=int)])
    with pytest.raises(TapeError, match="the normalizer int has failed: ValueError: invalid literal"):
        made.read({"a": "x"})


def test_marks_in_a_value_have_no_meaning() -> None:
    made = form("uuids", "paths")
    assert made.pair_leaves("0b0e4c2e-8a51-4b0e-9f0a-3c1f7c0d1e2f", "\0uuid\0") is None
    assert made.pair_leaves("\0uuid\0", "\0uuid\0") == []
    ours, theirs = "/root \0uuid\0", "\0home\0 0b0e4c2e-8a51-4b0e-9f0a-3c1f7c0d1e2f"
    assert made.read(ours)[0] == made.read(theirs)[0]
    assert made.pair_leaves(ours, theirs) is None


def test_a_placeholder_matches_any_text_in_any_case() -> None:
    made = form("case", "paths")
    assert made.pair_leaves("Key [redacted:env:TOKEN] in /home/ann", "KEY abc IN /home/bob") == []
    assert made.pair_leaves("Key [redacted:env:TOKEN]", "lock abc") is None


def test_varying_parts_come_in_the_order_of_keys() -> None:
    made = form("paths", "uuids")
    one, other = "0b0e4c2e-8a51-4b0e-9f0a-3c1f7c0d1e2f", "1b0e4c2e-8a51-4b0e-9f0a-3c1f7c0d1e2f"
    shape, varying = made.read({"b": [f"/home/ann/{one}"], "a": other})
    assert [found.text for found in varying] == [other, "/home/ann", one]
    assert made.read({"a": one, "b": [f"/root/{one}"]})[0] == shape


PIECES = st.sampled_from(
    ["/tmp", "/tmp/tmpab12cd34", "/home/ann", "/Users/", "/root", "/", "//", "file://", "http://localhost:80", ":99",
     "0b0e4c2e-8a51-4b0e-9f0a-3c1f7c0d1e2f", "0b0e4c2e8a514b0e9f0a3c1f7c0d1e2f", "2026-01-02", "T03:04:05",
     " 10:00:00Z", "1763437105123", "/pytest-of-a/pytest-1", "/popen-gw1", "/private", "a", "A", " ", "\t", ".", "-",
     "0", "\0", "K", "Mon, 03 Feb 2026 10:00:00 GMT",
     "20260102T030405Z", "[redacted:env:A]", "é", '"'],
)  # fmt: skip
LEAVES = (
    st.lists(PIECES, max_size=8).map("".join)
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.none()
)
VALUES = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(PIECES, inner, max_size=3))
SETS = st.lists(st.sampled_from([*READY, "numbers:0.5"]), max_size=7)


# With separators: joined pieces may be found only when their neighbours are removed.
APART = st.lists(st.tuples(PIECES, st.sampled_from([" ", ", ", "\n", '"', "="])).map("".join), max_size=6).map("".join)


@examples(300)
@given(st.recursive(APART, lambda inner: st.lists(inner, max_size=3)), SETS)
@example("/TMP/x", ["paths", "case"])
@example("/tmp/tmpab12cd34//tmp/x", ["paths"])
@example("0b0e4c2e-8a51-4b0e-9f0a-3c1f7c0d1e2f2026-01-02", ["times", "uuids"])
@example("2026-01-020b0e4c2e-8a51-4b0e-9f0a-3c1f7c0d1e2f", ["times", "uuids"])
def test_normalizing_is_idempotent(value: Any, names: list[str]) -> None:
    made = form(*names)
    shape = made.read(value)[0]
    assert made.read(shape)[0] == shape


@examples(200)
@given(VALUES, SETS)
def test_a_value_is_the_same_as_itself(value: Any, names: list[str]) -> None:
    made = form(*names)
    varying = made.read(value)[1]
    assert made.pair_values(varying, varying) is not None
    assert [pair[0] for pair in made.pairs(value, value)] == varying


@given(st.text("ab1-_.", max_size=12), st.text("ab1-_.", max_size=12))
def test_whether_names_are_random_does_not_depend_on_their_order(one: str, other: str) -> None:
    assert are_random(one, other) == are_random(other, one)

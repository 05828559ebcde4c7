"""Pairs of live and recorded values, and their places in sent messages."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_tape.replay.matching import bindings
from mcp_tape.replay.matching.bindings import Bindings
from mcp_tape.replay.matching.normal import VaryingValue

UUIDS = "0b0e4c2e-8a51-4b0e-9f0a-3c1f7c0d1e2f", "9b0e4c2e-8a51-4b0e-9f0a-3c1f7c0d1e2f"
MAC = "/var/folders/zz/zyx0000/T/tmpxy98zw76"


def bound(*pairs: tuple[str, str, str]) -> Bindings:
    made = Bindings()
    made.add((VaryingValue(kind, one), VaryingValue(kind, other)) for kind, one, other in pairs)
    return made


def pair(one: str, other: str, kind: str = "temporary") -> tuple[VaryingValue, VaryingValue]:
    return VaryingValue(kind, one), VaryingValue(kind, other)


def test_values_are_one_to_one() -> None:
    made = bound(("temporary", "/tmp/a", "/tmp/x"))
    assert made.allow([pair("/tmp/a", "/tmp/x")])
    assert made.allow([pair("/tmp/b", "/tmp/y")])
    assert not made.allow([pair("/tmp/a", "/tmp/y")])
    assert not made.allow([pair("/tmp/b", "/tmp/x")])
    assert not made.allow([pair("/tmp/b", "/tmp/x", "home")]), "paths of all kinds are paths"
    assert made.allow([pair("/tmp/a", "/tmp/y", "uuid")])


def test_pairs_contradict_each_other() -> None:
    made = Bindings()
    assert not made.allow([pair("/tmp/a", "/tmp/x"), pair("/tmp/a", "/tmp/y")])
    assert not made.allow([pair("/tmp/a", "/tmp/x"), pair("/tmp/b", "/tmp/x")])
    assert made.allow([pair("/tmp/a", "/tmp/b"), pair("/tmp/b", "/tmp/a")])
    assert made.allow([pair("1", "2", "number"), pair("1", "3", "number")]), "numbers stand for nothing"


@pytest.mark.parametrize(
    ("recorded", "expected"),
    [
        ("/tmp/tmpab/a.txt", "/tmp/é\"x/a.txt"),
        ("in /tmp/tmpab.", "in /tmp/é\"x."),
        ("/tmp/tmpab", "/tmp/é\"x"),
        ("file:///tmp/tmpab/a", "file:///tmp/é\"x/a"),
        ("/tmp/tmpab:/tmp/tmpab", "/tmp/é\"x:/tmp/é\"x"),
        ('{"path":"/tmp/tmpab"}', '{"path":"/tmp/é\"x"}'),
        ("/private/tmp/tmpab/a", "/tmp/é\"x/a"),
        ("/tmp/tmpabc", None),
        ("/tmp/tmpab.txt", None),
        ("/tmp/tmpab-2/x", None),
        ("/data/tmp/tmpab", None),
        ("https://host/tmp/tmpab", None),
    ],
)  # fmt: skip
def test_a_path_is_put_back_at_its_ends_only(recorded: str, expected: str | None) -> None:
    made = bound(("temporary", "/tmp/tmpab", '/tmp/é"x'))
    for text in (json.dumps({recorded: [recorded]}), json.dumps({recorded: [recorded]}).replace("/", "\\/")):
        new = made.put_back(text.encode())
        assert json.loads(new) == {expected or recorded: [expected or recorded]}
        if expected is None:
            assert new == text.encode()


def test_the_rest_stays_unchanged() -> None:
    made = bound(("temporary", "/tmp/tmpab", "/tmp/x"))
    text = b'{ "a" : 1E2, "b": "\\u00e9 \\/tmp\\/no", "c":"/tmp/tmpab", "d": "\xff" }\r\n'
    assert made.put_back(text) == b'{ "a" : 1E2, "b": "\\u00e9 \\/tmp\\/no", "c":"/tmp/x", "d": "\xff" }\r\n'


def test_two_that_swap_are_put_back_at_once() -> None:
    made = bound(("temporary", "/tmp/a", "/tmp/b"), ("temporary", "/tmp/b", "/tmp/a"))
    assert made.put_back(b'["/tmp/a","/tmp/b"]') == b'["/tmp/b","/tmp/a"]'


def test_the_longest_path_counts_even_if_it_is_unchanged() -> None:
    made = bound(("home", "/home/ann", "/home/bob"), ("temporary", "/home/ann/tmp/tmpab12cd34", "/tmp/tmpxy98zw76"))
    assert made.put_back(b'"/home/ann/tmp/tmpab12cd34/a"') == b'"/tmp/tmpxy98zw76/a"'
    run = "/home/ann/pytest-of-a/pytest-1"
    made = bound(("home", "/home/ann", "/home/bob"), ("run", run, run))
    assert made.put_back(b'["/home/ann/pytest-of-a/pytest-1/a","/home/ann"]').count(b"ann") == 1


@pytest.mark.parametrize(
    ("recorded", "live", "said", "expected"),
    [
        ("/tmp/a", MAC, "/tmp/a/x", f"{MAC}/x"),
        (MAC, "/tmp/a", f"/private{MAC}/x", "/tmp/a/x"),
        (MAC, MAC.replace("zyx", "abc"), f"/private{MAC}/x", f"/private{MAC.replace('zyx', 'abc')}/x"),
    ],
)
def test_where_macos_keeps_its_files(recorded: str, live: str, said: str, expected: str) -> None:
    assert json.loads(bound(("temporary", recorded, live)).put_back(json.dumps(said).encode())) == expected


def test_ids_and_ports_are_put_back() -> None:
    made = bound(("uuid", *UUIDS), ("port", "4001", "52817"))
    said = f"job {UUIDS[0]} at http://localhost:4001/x and 127.0.0.1:4001, not x{UUIDS[0]} or localhost:40011 or 4001"
    expected = (
        f"job {UUIDS[1]} at http://localhost:52817/x and 127.0.0.1:52817, not x{UUIDS[0]} or localhost:40011 or 4001"
    )
    assert json.loads(made.put_back(json.dumps(said).encode())) == expected


def test_values_that_the_client_names_stay() -> None:
    made = bound(("home", "/home/ann", "/home/bob"), ("uuid", *UUIDS))
    text = json.dumps(["/home/ann/x", UUIDS[0]]).encode()
    assert made.put_back(text, b'{"path":"/home/ann/x"}') == json.dumps(["/home/ann/x", UUIDS[1]]).encode()


@pytest.mark.parametrize(
    ("kind", "recorded", "live", "before", "behind"),
    [("home", "/home/ann", "/home/anna", "", "/x"), ("home", "/home/ann", "/home/ann.b", "", "/x"),
     ("port", "80", "8080", "http://localhost:", "/x")],
)  # fmt: skip
def test_a_live_value_that_begins_like_the_recorded_one_is_another(
    kind: str, recorded: str, live: str, before: str, behind: str
) -> None:
    asked = json.dumps({"path": before + live + behind}).encode()
    made = bound((kind, recorded, live))
    assert json.loads(made.put_back(json.dumps(before + recorded + behind).encode(), asked)) == before + live + behind


def test_patterns_contain_only_bound_values(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a run that pairs a new directory with each call would compile ever larger patterns."""
    lengths, compiled = [], bindings._compile_pattern

    def noted(there: Any) -> Any:
        lengths.append(len(there))
        return compiled(there)

    monkeypatch.setattr(bindings, "_compile_pattern", noted)
    made = bound(*(("home", f"/home/a{n}", f"/home/b{n}") for n in range(100)))
    assert made.put_back(b'["/home/a7/x", "\\/home\\/a8"]') == b'["/home/b7/x", "/home/b8"]'
    assert made.put_back(b'"/home/c"') == b'"/home/c"'
    assert lengths == [2]


def test_an_addition_has_directories_of_its_own() -> None:
    made = bound(("temporary", "/tmp/a", "/tmp/x"))
    assert not made.allow([pair("/tmp/b", "/tmp/x")])
    assert made.allow([pair("/tmp/b", "/tmp/x")], addition=2)
    assert not made.allow([pair("/tmp/a", "/tmp/y")], addition=2), "what is put back is one value"
    made.add([pair("/tmp/b", "/tmp/x")], addition=2)
    assert not made.allow([pair("/tmp/c", "/tmp/x")], addition=2)
    assert made.put_back(b'["/tmp/a", "/tmp/b"]') == b'["/tmp/x", "/tmp/x"]'


def test_no_replacement_is_needed_if_all_values_are_unchanged() -> None:
    assert not bound(("home", "/home/ann", "/home/ann")).are_needed
    assert bound(("home", "/home/ann", "/home/bob")).are_needed


NAMES = st.text("abcdefgh", min_size=4, max_size=4)


@given(st.lists(NAMES, unique=True, min_size=1, max_size=4), st.data())
def test_putting_back_is_consistent(recorded: list[str], data: Any) -> None:
    """Exactly the paired values are replaced, wherever they are; the reverse restores the recorded text."""
    live = data.draw(st.lists(NAMES, unique=True, min_size=len(recorded), max_size=len(recorded)))
    pairs = [(f"/tmp/tmp{one}", f"/tmp/tmp{other}") for one, other in zip(recorded, live, strict=True)]
    there = bound(*(("temporary", *both) for both in pairs))
    back = bound(*(("temporary", other, one) for one, other in pairs))
    order = data.draw(st.permutations(pairs))
    text = json.dumps([f"{one}/a" for one, _ in order]).encode()
    assert there.put_back(text) == json.dumps([f"{other}/a" for _, other in order]).encode()
    assert back.put_back(there.put_back(text)) == text

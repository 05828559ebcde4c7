"""Traces of calls, as the trace viewer's own format has them."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

from mcp_tape.cassette.query.filters import EVERYTHING, parse
from mcp_tape.cassette.reader import Cassette
from mcp_tape.formats import perfetto
from tests.support.provision import ROOT

PATH = ROOT / "cassettes" / "everything.db"


def events(kept: str = "") -> list[dict[str, Any]]:
    with Cassette(PATH) as cassette:
        text = "".join(perfetto.dump(cassette, cassette.sessions(), parse(kept) if kept else EVERYTHING))
    return json.loads(text)["traceEvents"]


def test_calls_that_overlap_are_slices_of_their_own() -> None:
    found = events()
    begun = {one["id"]: one["ts"] for one in found if one["ph"] == "b"}
    ended = {one["id"]: one["ts"] for one in found if one["ph"] == "e"}
    assert len(begun) > 20 and ended.keys() <= begun.keys()
    assert all(ended[number] >= begun[number] > 0 for number in ended)
    spans = sorted((begun[number], ended[number]) for number in ended)
    assert any(later < end for (_, end), (later, _) in pairwise(spans))  # some overlap


def test_each_event_has_what_the_format_asks_for() -> None:
    found = events()
    assert {one["ph"] for one in found} == {"M", "b", "e", "i"}
    assert all({"pid", "tid", "name"} <= one.keys() for one in found)
    assert all("cat" in one and isinstance(one["ts"], int) for one in found if one["ph"] != "M")
    assert [one["args"]["name"] for one in found if one["name"] == "process_name"] == [
        "session 1: mcp-servers/everything 2.0.0"
    ]


def test_a_filter_chooses_calls() -> None:
    assert [one["name"] for one in events("tool:get-sum") if one["ph"] == "b"] == ["tools/call get-sum"]

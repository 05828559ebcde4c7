"""Traces of calls, in the trace viewer's own format."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from mcp_tape.cassette.query.filters import EVERYTHING, parse
from mcp_tape.cassette.reader import Cassette
from mcp_tape.formats import perfetto
from tests.support import perfetto as viewer
from tests.support.provision import ROOT
from tests.support.running import WAIT

if TYPE_CHECKING:
    from playwright.sync_api import Browser

PATH = ROOT / "cassettes" / "everything.db"


def events(kept: str = "") -> list[dict[str, Any]]:
    with Cassette(PATH) as cassette:
        text = "".join(perfetto.dump(cassette, cassette.sessions(), parse(kept) if kept else EVERYTHING))
    return json.loads(text)["traceEvents"]


def test_calls_that_overlap_are_slices_of_their_own() -> None:
    found = events()
    begun = {one["id2"]["local"]: one["ts"] for one in found if one["ph"] == "b"}
    ended = {one["id2"]["local"]: one["ts"] for one in found if one["ph"] == "e"}
    assert len(begun) > 20 and ended.keys() <= begun.keys()
    assert all(ended[number] >= begun[number] > 0 for number in ended)
    spans = sorted((begun[number], ended[number]) for number in ended)
    assert any(later < end for (_, end), (later, _) in pairwise(spans))  # some overlap


def test_each_event_has_the_members_of_the_format() -> None:
    found = events()
    assert {one["ph"] for one in found} == {"M", "b", "e", "i"}
    assert all({"pid", "tid", "name"} <= one.keys() for one in found)
    assert all("cat" in one and isinstance(one["ts"], int) for one in found if one["ph"] != "M")
    assert [one["args"]["name"] for one in found if one["name"] == "process_name"] == [
        "session 1: mcp-servers/everything 2.0.0"
    ]


def test_a_filter_chooses_calls() -> None:
    assert [one["name"] for one in events("tool:get-sum") if one["ph"] == "b"] == ["tools/call get-sum"]


ASKED = '{{"jsonrpc":"2.0","id":{0},"method":"tools/call","params":{{"name":"{1}"}}}}'
SAID = [
    (0, "client", ASKED.format(1, "slow")),
    (1000, "client", ASKED.format(2, "slow")),
    (2000, "client", ASKED.format(3, "never")),
    (2500, "server", '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}'),
    (5000, "server", '{"jsonrpc":"2.0","id":1,"result":{}}'),
    (6500, "server", '{"jsonrpc":"2.0","id":2,"result":{"isError":true,"content":[]}}'),
]
SLICES = """SELECT slice.name, slice.ts - (SELECT min(ts) FROM slice), slice.dur, track.type, process.name
FROM slice JOIN process_track track ON slice.track_id = track.id JOIN process USING (upid) ORDER BY ts"""
INSTANTS = (
    "SELECT slice.name, thread.name FROM slice JOIN thread_track ON track_id = thread_track.id JOIN thread USING (utid)"
)
WRONG = "SELECT name FROM stats WHERE value > 0 AND severity <> 'info'"
ARGS = "SELECT key, display_value FROM slice JOIN args USING (arg_set_id) WHERE slice.name = 'tools/call never'"


@pytest.mark.slow
def test_a_trace_viewer_shows_calls_that_overlap_as_slices_of_a_session(browser: Browser, tmp_path: Path) -> None:
    lines = [json.dumps({"at": at, "sender": sender, "text": text}) for at, sender, text in SAID]
    (tmp_path / "tape.jsonl").write_text("\n".join(lines))
    with Cassette(tmp_path / "tape.jsonl") as cassette:
        (tmp_path / "trace").write_text("".join(perfetto.dump(cassette, cassette.sessions(), EVERYTHING)))
    page = browser.new_page()
    page.set_default_timeout(WAIT * 1000)
    with viewer.opened(page, tmp_path / "trace"):
        slices, instants, wrong = (viewer.rows(page, sql) for sql in (SLICES, INSTANTS, WRONG))
        args = dict(viewer.rows(page, ARGS))
    kind, session = "legacy_async_process_slice", "session 1: server"
    assert slices == [
        ["tools/call slow", 0, 5_000_000, kind, session],
        ["tools/call slow", 1_000_000, 5_500_000, kind, session],
        ["tools/call never", 2_000_000, -1, kind, session],  # it did not end
    ]
    assert instants == [["notifications/message", "sent by the server"]]
    assert (args["args.params.name"], args["args.seq"]) == ("never", "3")
    assert wrong == []

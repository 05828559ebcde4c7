"""Known and unknown parts of a surface: a list that was never requested is unknown, never unchanged."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcp_tape.compare.judging import JudgingSettings, parse_ignores
from tests.support.decks import alter
from tests.support.diffs import (
    Step,
    Talk,
    call,
    compare_cassettes,
    compared,
    discovered,
    exchange,
    hello,
    listing,
    rules,
    said,
    taped,
    told,
    tool,
    tools,
    wrote,
)

CHANGED = said(("server", told("notifications/tools/list_changed")))
NO_LIST: Talk = [hello(), call()]
REFUSED: Talk = [hello(), exchange("tools/list", {}, error={"code": -32603, "message": "no"})]
CUT_SHORT: Talk = [hello(), listing("tools/list", tool("a"), nextCursor="2")]
NO_LIST_AT_ALL: Talk = [hello(), exchange("tools/list", {}, "tools")]
WHOLE = tools(tool("a"))


@pytest.mark.parametrize(
    ("talk", "why"),
    [
        (NO_LIST, "there is no tools/list"),
        (REFUSED, "the answer was an error"),
        (CUT_SHORT, "it was not read to its end"),
        (NO_LIST_AT_ALL, "it is not a list"),
    ],
)
@pytest.mark.parametrize("side", ["OLD", "NEW"])
def test_an_unlisted_kind_is_unknown_and_never_unchanged(talk: Talk, why: str, side: str) -> None:
    found = compared(*((talk, WHOLE) if side == "OLD" else (WHOLE, talk)))
    assert [entry for entry in found.unknown if entry.what == "tools"] == [("tools", f"{side}: {why}", True)]
    assert not [change for change in found.changes if change.subject.kind == "tool"]
    assert "tools" not in found.compared


SAMPLING: Talk = [
    hello(client={"sampling": {}}, capabilities={"tools": {}, "prompts": {}}),
    listing("tools/list", tool("a"), tool("b"), tool("c")),
    listing("prompts/list", {"name": "p"}),
]
PLAIN: Talk = [hello(), listing("tools/list", tool("a", description="A."))]


def test_removals_are_unknown_if_the_clients_declared_other_capabilities() -> None:
    found = compared(SAMPLING, PLAIN)
    assert [change.rule for change in found.changes] == ["tool-description-changed"]
    why = "not there, and its client declares other capabilities than that of OLD (sampling)"
    hint = "; record NEW with the client of OLD"
    assert [entry for entry in found.unknown if "client" in entry.why] == [
        ("tools", f"NEW: b, c {why}{hint}", True),
        ("prompts", f"NEW: p {why}{hint}", True),
        ("capabilities", f"NEW: $.capabilities.prompts {why}{hint}", True),
    ]


def test_removals_count_if_a_client_declared_the_same_or_it_is_unknown() -> None:
    same = [hello(client={"sampling": {}}), PLAIN[1]]
    assert "tool-removed" in rules(SAMPLING, same) and "tool-removed" in rules(SAMPLING, PLAIN[1:])


def test_an_accepted_removal_is_not_unknown_either() -> None:
    ignored = parse_ignores("tool-removed *\nprompt-removed *\ncapability-removed *", "")
    found = compared(SAMPLING, PLAIN, JudgingSettings(ignores=ignored))
    assert [entry for entry in found.unknown if entry.grave] == [] and found.unused == ()
    assert [change.rule for change in found.ignored] == [*["tool-removed"] * 2, "prompt-removed", "capability-removed"]


def test_a_modern_client_declares_its_capabilities_with_each_request() -> None:
    result = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}
    many, few = (
        exchange("server/discover", {"_meta": {"io.modelcontextprotocol/clientCapabilities": client}}, result)
        for client in ({"sampling": {}}, {})
    )
    old, new = [many, listing("tools/list", tool("a"), tool("b"))], [few, listing("tools/list", tool("a"))]
    assert "tool-removed" not in rules(old, new) and "tool-removed" in rules(old, [old[0], new[1]])


def test_a_list_that_both_sides_lack_is_unknown_for_tools_only() -> None:
    talk = [hello(capabilities={"tools": {}, "prompts": {}}), call()]
    (tools_unknown,) = compared(talk, talk).unknown
    assert tools_unknown == ("tools", "OLD: there is no tools/list; NEW: there is no tools/list", True)


def test_a_capability_that_is_not_declared_is_known_to_be_empty() -> None:
    found = compared([hello(capabilities={})], tools(tool()))
    assert not found.unknown
    assert [change.rule for change in found.changes] == ["capability-added", "tool-added"]


def test_a_recording_that_is_not_whole_is_unknown_and_stops_no_gate(tmp_path: Path) -> None:
    old, new = (str(taped(tmp_path / f"{name}.db", WHOLE)) for name in ("old", "new"))
    alter(Path(new), "UPDATE sessions SET incomplete = 'the disk was full'")
    assert compare_cassettes(old, new).unknown == (("calls", "NEW: session 1 is incomplete: the disk was full", False),)


NO_METHOD = {"code": -32601, "message": "Method not found"}


def _prompts(*answer: Step) -> Talk:
    return [hello(capabilities={"tools": {}, "prompts": {}}), listing("tools/list", tool("a")), *answer]


def test_kinds_that_the_old_server_did_not_declare_cannot_be_unknown() -> None:
    assert not compared(WHOLE, _prompts()).unknown
    listed = _prompts(listing("prompts/list", {"name": "p"}))
    assert [entry.grave for entry in compared(listed, _prompts()).unknown] == [True]  # it may be gone here


@pytest.mark.parametrize(
    ("answer", "level"),
    [
        (exchange("prompts/list", {}, error=NO_METHOD), "info"),
        (exchange("prompts/list", {}, error={"code": -32603, "message": "busy"}), "error"),
        (listing("prompts/list"), "error"),
    ],
)
def test_a_capability_that_never_worked_may_go(answer: Step, level: str) -> None:
    found = compared(_prompts(answer), WHOLE)
    assert [(one.rule, one.level) for one in found.changes if one.rule == "capability-removed"] == [
        ("capability-removed", level)
    ]
    assert [entry.what for entry in found.unknown] == (["prompts"] if "busy" in str(answer(1)) else [])


def test_a_capability_of_which_one_list_failed_and_another_is_not_known_may_have_worked() -> None:
    declared = [hello(capabilities={"tools": {}, "resources": {}}), listing("tools/list", tool("a"))]
    unknown = exchange("resources/templates/list", {}, error=NO_METHOD)
    for failed, level in (({"code": -32603, "message": "fetch failed"}, "error"), (NO_METHOD, "info")):
        found = compared([*declared, exchange("resources/list", {}, error=failed), unknown], WHOLE)
        assert [one.level for one in found.changes if one.rule == "capability-removed"] == [level]


def test_without_a_handshake_capabilities_are_unknown_and_not_removed() -> None:
    found = compared(WHOLE, [listing("tools/list", tool("a"))])
    assert [(entry.what, entry.grave) for entry in found.unknown if entry.what == "capabilities"] == [
        ("capabilities", False)
    ]
    assert not found.changes


def test_the_handshake_may_be_in_an_older_session_of_the_cassette(tmp_path: Path) -> None:
    old = taped(tmp_path / "old.db", WHOLE)
    new = taped(tmp_path / "new.db", [hello(instructions="Be kind.")], [listing("tools/list", tool("a"))])
    found = compare_cassettes(str(old), str(new))
    assert [change.rule for change in found.changes] == ["instructions-changed"]
    assert not [entry for entry in found.unknown if entry.what == "capabilities"]


def test_pages_are_joined() -> None:
    pages = [hello(), listing("tools/list", tool("a"), nextCursor="2"), listing("tools/list", tool("b"), cursor="2")]
    assert rules(tools(tool("a"), tool("b")), pages) == ["pagination-changed"]


def test_the_newest_whole_list_counts() -> None:
    talk = [*WHOLE, CHANGED, listing("tools/list", tool("b")), listing("tools/list", nextCursor="2")]
    assert not compared(talk, tools(tool("b")), parts=["surface"]).changes


def test_pages_of_two_sessions_are_not_one_list(tmp_path: Path) -> None:
    """A session that extends another starts its lists again."""
    old = taped(tmp_path / "old.db", WHOLE)
    new = taped(tmp_path / "new.db", [hello(), listing("tools/list", tool("z"))], WHOLE)
    assert not compare_cassettes(str(old), str(new)).changes


def test_things_with_the_same_name_are_reported_and_kept_apart() -> None:
    twice = tools(tool("a", title="One"), tool("b"), tool("a", title="Two"))
    said = "2 tools have the name a; only the first is compared"
    once = tools(tool("a", title="One"), tool("b"))
    assert compared(once, twice).unknown == (("tools", f"NEW: {said}", True),)
    assert compared(twice, once).unknown == (("tools", f"OLD: {said}", False),)
    assert not compared(twice, twice).unknown
    one, two = ([*once, listing("resources/list", *[{"uri": "a:b"}] * number)] for number in (1, 2))
    assert [entry.what for entry in compared(one, two).unknown] == ["resources"]


def test_both_eras_tell_the_same_surface() -> None:
    modern = [discovered(), listing("tools/list", tool("a"), resultType="complete", ttlMs=1000, cacheScope="public")]
    found = compared(WHOLE, modern)
    assert found.old == found.new == "s 1.0"
    assert not found.changes and not found.unknown


def test_versions_without_a_name_are_called_by_their_file() -> None:
    found = compared([wrote("a")], [wrote("a")])
    assert found.old.endswith("old.db") and found.new.endswith("new.db")

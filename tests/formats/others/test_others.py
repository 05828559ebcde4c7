"""Other tools' recordings: their messages, their losses, and a replay to the client that made each one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_tape.cassette.reader import Cassette, Session
from mcp_tape.errors import CassetteError
from tests.support import page, provision, sdk
from tests.support.fuzzing import examples
from tests.support.peers import PAGE_CALLS, RECORDINGS
from tests.support.running import MCP_TAPE, run
from tests.support.sdk_http import replaying

if TYPE_CHECKING:
    from playwright.sync_api import Browser

TEXT = "text re-serialised"
TOKENS = "progress tokens hidden, and guessed"
SCHEMAS = "parts of schemas hidden, and left open"
PAIRS = "times invented, text re-serialised, only pairs: no notifications or requests of the server"
CALLS = (
    "no handshake, one was invented, text re-serialised, "
    "only tool calls and lists of tools: no notifications, prompts, resources or requests of the server"
)
ASKED = "no requests of the server, and no notifications of the client"
EVENTS = "times of events invented"
STREAMS = "streams that were open"
LOG = "stderr and the end of the server"
LOST = {
    "mcp-rec/everything.jsonl": f"mcp-rec: {TEXT}",
    "mcp-rec/odd.jsonl": f"mcp-rec: {TEXT}",
    "mcp-cassette-python/everything.json": f"PyPI mcp-cassette: {TEXT}, {SCHEMAS}, {TOKENS}",
    "mcp-cassette-python/odd.json": f"PyPI mcp-cassette: {TEXT}, {TOKENS}",
    "mcp-vcr/everything.yaml": f"mcp-vcr: {TEXT}",
    "mcp-vcr/odd.yaml": f"mcp-vcr: {TEXT}",
    "mcp-vcr-ndjson/everything.ndjson": f"mcp-vcr as JSON lines: {TEXT}",
    "mcp-vcr-ndjson/odd.ndjson": f"mcp-vcr as JSON lines: {TEXT}",
    "mcp-flight-recorder/everything.json": f"mcp-flight-recorder: {TEXT}, {SCHEMAS}, {TOKENS}",
    "mcp-flight-recorder/odd.json": f"mcp-flight-recorder: {TEXT}, {TOKENS}",
    "mcp-recorder/everything.json": f"mcp-recorder: {PAIRS}",
    "mcp-recorder/odd.json": f"mcp-recorder: {PAIRS}",
    "mcp-time-travel/everything/recording.jsonl": f"mcp-time-travel: {CALLS}",
    "mcp-time-travel/odd/recording.jsonl": f"mcp-time-travel: {CALLS}",
    "agent-vcr/everything.vcr": f"agent-vcr: {TEXT}, {ASKED}",
    "agent-vcr/odd.vcr": f"agent-vcr: {TEXT}, {ASKED}",
    "mitmproxy/everything.har": f"HAR: {EVENTS}",
    "mitmproxy/odd.har": f"HAR: {EVENTS}",
    "chromium/everything.har": f"HAR: {EVENTS}",
    "chromium/odd.har": f"HAR: {EVENTS}",
    "firefox/everything.har": f"HAR: {EVENTS}",
    "firefox/odd.har": f"HAR: {EVENTS}",
    "inspector/everything.json": f"the Inspector's messages: {TEXT}",
    "inspector/odd.json": f"the Inspector's messages: {TEXT}",
    "inspector-network/everything.json": f"the Inspector's network log: {EVENTS}, {STREAMS}",
    "inspector-network/odd.json": f"the Inspector's network log: JSON bodies re-serialised, {EVENTS}",
    "by-hand/mcpsnoop.jsonl": "mcpsnoop: white space within messages",
    "by-hand/npm-mcp-tape.jsonl": f"npm mcp-tape: {TEXT}",
    "by-hand/npm-mcp-cassette.jsonl": f"npm mcp-cassette: {TEXT}",
    "by-hand/claude-desktop.log": f"a log of Claude Desktop: {LOG}",
    "by-hand/vs-code.log": f"a log of VS Code: {LOG}",
}
# Failed calls, if not two: not every client made both.
ERRORS = {"mcp-time-travel/everything/recording.jsonl": 1}
ERRORS |= dict.fromkeys(("chromium/everything.har", "firefox/everything.har"), 0)
ERRORS |= dict.fromkeys(("inspector/everything.json", "inspector-network/everything.json"), 0)
OUTCOMES = ("result", "error", "progressed")
# JavaScript has only such numbers.
DOUBLES = {"whole": 1.2345678901234568e29, "hundred": 100, "nothing": 0, "tenth": 0.1, "café": "\u2028"}


def sessions(path: Path) -> list[Session]:
    with Cassette(path) as cassette:
        return cassette.sessions()


@pytest.mark.parametrize("name", LOST)
def test_a_recording_is_read_with_its_losses(name: str) -> None:
    with Cassette(RECORDINGS / name) as cassette:
        first = next(one for one in cassette.sessions() if one.server_name)
        counts = cassette.counts(first.id)
    assert first.incomplete == f"imported from {LOST[name]}"
    assert first.server_name in ("odd", "mcp-servers/everything", "everything")
    assert counts["exchanges"] >= 4 and counts["errors"] == ERRORS.get(name, 2)


def test_every_recording_is_tried() -> None:
    found = {str(path.relative_to(RECORDINGS)) for path in RECORDINGS.rglob("*.*") if path.is_file()}
    assert {name for name in found if not name.endswith((".live.json", "metadata.json", "README.md"))} == set(LOST)


# Replayed to the original client ---------------------------------------------------------------------------


def steps_of(document: Any) -> Any:
    """The steps of a client, without their outcomes."""
    if isinstance(document, list):
        return [steps_of(one) for one in document]
    steps = {"steps": steps_of(document["steps"])} if "steps" in document else {}
    return {name: value for name, value in document.items() if name not in OUTCOMES} | steps


def replayed(name: str, live: Any, place: Path) -> Any:
    steps = json.dumps(steps_of(live["steps"]))
    which = ["--server", "odd"] if "mcpsnoop" in name else []  # the file has two servers
    replay = ["replay", str(RECORDINGS / name), *which]
    done = sdk.alone(provision.client("mcp2-legacy"), replay, place, CLIENT_STEPS=steps)
    assert f"imported from {LOST[name]}" in done.stderr
    return json.loads(done.output)


def live_of(name: str) -> Any:
    """The client's view of the live server during the recording."""
    folder, _, rest = name.partition("/")
    server = "odd" if folder == "by-hand" else rest.partition(".")[0].partition("/")[0]
    place = RECORDINGS / ("mcp-rec" if folder == "by-hand" else folder) / f"{server}.live.json"
    return json.loads(place.read_text("utf-8"))


def called(document: Any) -> Any:
    return [step for step in document["steps"] if step["do"] in ("tools", "call")]


# Recordings without messages that a client would notice, or made by another kind of client.
BROWSERS = ("chromium", "firefox")
NOT_EXACT = "mcp-flight-recorder mcp-time-travel mcp-cassette-python agent-vcr inspector inspector-network".split()
EXACT = [name for name in LOST if name.split("/")[0] not in (*NOT_EXACT, *BROWSERS) and name != "mitmproxy/odd.har"]


@pytest.mark.slow(quick=2)
@pytest.mark.parametrize("name", [*EXACT, "mcp-cassette-python/odd.json"])
def test_it_plays_to_the_client_that_made_it(name: str, tmp_path: Path) -> None:
    live = live_of(name)
    seen = replayed(name, live, tmp_path)
    if "everything" in name:  # this server asks for roots at any time
        seen["asked"].pop("roots", None)
        live["asked"].pop("roots", None)
    assert seen == live


@pytest.mark.slow
def test_a_client_gets_messages_that_it_did_not_wait_for(tmp_path: Path) -> None:
    """Over HTTP the client had left before the answer came; the proxy had not."""
    live = live_of("mitmproxy/odd.har")
    seen = replayed("mitmproxy/odd.har", live, tmp_path)
    behind = {"method": "notifications/message", "params": {"level": "info", "data": "behind"}}
    assert seen == live | {"notifications": [*live["notifications"], behind]}


@pytest.mark.slow
@pytest.mark.parametrize("server", ["everything", "odd"])
def test_requests_of_the_server_that_a_tool_does_not_keep_are_not_asked(server: str, tmp_path: Path) -> None:
    live = live_of(f"agent-vcr/{server}.vcr")
    assert live["asked"] and replayed(f"agent-vcr/{server}.vcr", live, tmp_path) == live | {"asked": {}}


@pytest.mark.slow
@pytest.mark.parametrize("export", ["inspector", "inspector-network"])
def test_an_export_of_the_inspector_plays_to_another_client(export: str, tmp_path: Path) -> None:
    """Including requests that the Inspector answers itself: see `tests/support/peers.py`."""
    live = live_of("mcp-rec/odd.jsonl")
    seen = replayed(f"{export}/odd.json", live, tmp_path)
    live["steps"][1]["result"]["structuredContent"] = DOUBLES
    live["steps"][3]["result"]["content"][0]["text"] = '["a-1", []]'  # the roots of the Inspector
    assert seen == live


@pytest.mark.slow
def test_numbers_that_a_tool_has_rounded_are_played_as_it_has_them(tmp_path: Path) -> None:
    live = live_of("mcp-flight-recorder/odd.json")
    seen = replayed("mcp-flight-recorder/odd.json", live, tmp_path)
    live["steps"][1]["result"]["structuredContent"] = DOUBLES
    assert seen == live


@pytest.mark.slow
def test_of_tool_calls_alone_only_those_are_played(tmp_path: Path) -> None:
    name = "mcp-time-travel/odd/recording.jsonl"
    live = live_of(name)
    live["steps"] = called(live)
    seen = replayed(name, live, tmp_path)
    assert (seen["asked"], seen["notifications"]) == ({}, [])
    assert seen["connected"]["server"] == {"name": "odd", "version": "unknown"}
    for step in live["steps"]:
        step.pop("progressed", None)
    live["steps"][1]["result"]["structuredContent"] = DOUBLES
    assert seen["steps"] == live["steps"]


@pytest.mark.slow
@pytest.mark.parametrize("tool", ["mcp-cassette-python", "mcp-flight-recorder"])
def test_a_call_whose_arguments_were_hidden_is_a_miss_that_reports_it(tool: str, tmp_path: Path) -> None:
    name = f"{tool}/everything.json"
    live = live_of(name)
    hidden = sdk.call("trigger-sampling-request", prompt="Say hello", maxTokens=20)
    live["steps"] = [step for step in live["steps"] if steps_of(step) != hidden]
    seen = replayed(name, live, tmp_path)
    assert seen["steps"] == [step | _opened(step) for step in live["steps"]]
    asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
    params = {"params": {"name": hidden["name"], "arguments": hidden["arguments"]}}
    done = run([*MCP_TAPE, "replay", str(RECORDINGS / name)], json.dumps(asked | params).encode() + b"\n")
    assert b"maxTokens" in done.stderr and done.returncode == 1


def _opened(step: Any) -> Any:
    """A list of tools in which the hidden schema is left open."""
    if step["do"] != "tools":
        return {}
    tools = json.loads(json.dumps(step["result"]["tools"]))
    for tool in tools:
        if tool["name"] == "trigger-sampling-request":
            tool["inputSchema"]["properties"]["maxTokens"] = {}
    return {"result": step["result"] | {"tools": tools}}


@pytest.mark.parametrize("server", ["everything", "odd"])
@pytest.mark.parametrize("export", ["inspector", "inspector-network"])
def test_messages_shown_by_the_inspector_are_on_the_tape(export: str, server: str) -> None:
    shown = json.loads((RECORDINGS / export / f"{server}.live.json").read_text("utf-8"))
    with Cassette(RECORDINGS / export / f"{server}.json") as cassette:
        found = [one for one in cassette.exchanges(1) if one.method == "tools/call"]
    assert [one.params["name"] for one in found] == [one["name"] for one in shown]
    assert [one.params["arguments"] for one in found] == [one["arguments"] for one in shown]
    assert [(one.result, one.error) for one in found] == [(one.get("result"), one.get("error")) for one in shown]


def page_saw(browser: str, server: str) -> list[Any]:
    return json.loads((RECORDINGS / browser / f"{server}.live.json").read_text("utf-8"))


@pytest.mark.parametrize("server", ["everything", "odd"])
@pytest.mark.parametrize("browser", BROWSERS)
def test_messages_of_a_page_are_on_the_tape(browser: str, server: str) -> None:
    with Cassette(RECORDINGS / browser / f"{server}.har") as cassette:
        found = [one for one in cassette.exchanges(1) if one.sender == "client"]
        texts = b"".join(frame.text for frame in cassette.frames(1))
    outcomes = [(as_doubles(one.result), one.error) for one in found]
    assert outcomes == [(one.get("result"), one.get("error")) for one in page_saw(browser, server)]
    exact = b'"whole":123456789012345678901234567890,\r\n  "hundred":1e2'
    assert server != "odd" or exact in texts


@pytest.mark.parametrize("browser", BROWSERS)
def test_an_archive_of_a_browser_has_all_messages_unchanged(browser: str) -> None:
    """Streams of several lines, progress, a server request, and none of the browser's own headers."""
    with Cassette(RECORDINGS / browser / "odd.har") as cassette:
        frames = list(cassette.frames(1))
    texts = [frame.text for frame in frames if frame.kind == "message" and frame.sender == "server"]
    assert [text.count(b"notifications/") for text in texts] == [0, 0, 1, 0, 1, 0, 0, 1, 1, 1, *[0] * (len(texts) - 10)]
    assert texts[5] == b'{"jsonrpc": "2.0",\n"id": "a-1", "method": "roots/list"}'
    facts = [json.loads(frame.text) for frame in frames if frame.kind == "control"]
    without = [one["headers"] for one in facts if one.get("status") == 202]
    assert without == [{"mcp-session-id": "odd-1"}] * 2


@pytest.mark.slow
@pytest.mark.parametrize("server", ["everything", "odd"])
@pytest.mark.parametrize("maker", BROWSERS)
def test_an_archive_of_a_browser_plays_to_the_page_that_made_it(
    maker: str, server: str, browser: Browser, tmp_path: Path
) -> None:
    """Firefox's recording plays to the same page in Chromium; `tests/support/peers.py` has played it to Firefox."""
    with replaying(RECORDINGS / maker / f"{server}.har", tmp_path) as url:
        assert page.called(browser, f"{url}/mcp", PAGE_CALLS[server]) == page_saw(maker, server)


def as_doubles(value: Any) -> Any:
    """The same value with JavaScript's numbers."""
    return json.loads(json.dumps(value), parse_int=float)


# Any content of a file --------------------------------------------------------------------------------------


def test_for_an_unknown_format_the_tried_ones_are_named(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("Roses are red\n")
    with pytest.raises(CassetteError, match=r"(?s)notes\.txt is not a cassette.*JSON lines.*HAR.*mcp-vcr.*VS Code"):
        Cassette(tmp_path / "notes.txt")


@pytest.mark.slow
def test_secrets_do_not_come_along(tmp_path: Path) -> None:
    secret = "ghp_" + "aB3dE5gH7jK9mN1pQ3sT5vX7zA9cE1gI3kM5"
    said = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "x", "arguments": {"api_key": secret}},
    }
    answer = {"jsonrpc": "2.0", "id": 1, "result": {"content": [{"type": "text", "text": f"used {secret}"}]}}
    rows = [{"ts": 1.0, "dir": "client->server", "msg": said}, {"ts": 2.0, "dir": "server->client", "msg": answer}]
    (tmp_path / "old.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = run([*MCP_TAPE, "convert", str(tmp_path / "old.jsonl"), str(tmp_path / "new.db")])
    assert done.returncode == 0, done.stderr
    assert secret.encode() not in (tmp_path / "new.db").read_bytes()
    with Cassette(tmp_path / "new.db") as cassette:
        texts = [frame.text for frame in cassette.frames(1)]
    assert all(b"[redacted:" in text for text in texts)
    replay = run([*MCP_TAPE, "replay", str(tmp_path / "new.db")], json.dumps(said).encode() + b"\n")
    assert b"redacted" in replay.stdout and replay.returncode == 0  # the placeholder identifies the secret


SMALL = [name for name in LOST if "everything" not in name]
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


def opens_or_refuses(path: Path) -> None:
    try:
        with Cassette(path) as cassette:
            assert cassette.sessions()
            for session in cassette.sessions():
                list(cassette.frames(session.id))
    except CassetteError:
        pass  # any other error fails


@examples(300)
@given(data=st.data())
def test_a_damaged_recording_is_read_or_refused(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    whole = (RECORDINGS / data.draw(st.sampled_from(SMALL))).read_bytes()
    start, length = data.draw(st.integers(0, len(whole))), data.draw(st.sampled_from((0, 1, 7, 300, len(whole))))
    path = tmp_path_factory.getbasetemp() / "damaged"
    path.write_bytes(whole[:start] + data.draw(st.binary(max_size=20)) + whole[start + length :])
    opens_or_refuses(path)


def replaced(value: Any, data: st.DataObject) -> Any:
    """A value with one part replaced at random."""
    if not value or not isinstance(value, (dict, list)) or data.draw(st.integers(0, 3)) == 0:
        return data.draw(VALUES)
    if isinstance(value, list):
        at = data.draw(st.integers(0, min(len(value) - 1, 5)))
        return [*value[:at], replaced(value[at], data), *value[at + 1 :]]
    key = data.draw(st.sampled_from(sorted(value)))
    return value | {key: replaced(value[key], data)}


@examples(300)
@given(data=st.data())
def test_a_recording_with_other_values_is_read_or_refused(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    name = data.draw(st.sampled_from([name for name in SMALL if not name.endswith((".log", ".yaml"))]))
    text, path = (RECORDINGS / name).read_text("utf-8"), tmp_path_factory.getbasetemp() / "changed"
    if name.endswith(("jsonl", "ndjson")):
        lines = text.rstrip().split("\n")
        at = data.draw(st.integers(0, len(lines) - 1))
        lines[at] = json.dumps(replaced(json.loads(lines[at]), data))
        path.write_text("\n".join(lines), "utf-8")
    else:
        path.write_text(json.dumps(replaced(json.loads(text), data)), "utf-8")
    opens_or_refuses(path)


@examples(100)
@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "bytes"
    path.write_bytes(data)
    opens_or_refuses(path)

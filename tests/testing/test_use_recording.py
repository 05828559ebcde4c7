"""`use_cassette` with a live server: every mode, with a command and with a URL, and the resulting cassette."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import mcp_tape
from mcp_tape import CassetteError, Mode, ServerError, TapeError, UsedCassette, use_cassette
from mcp_tape.testing import recorders
from tests.support.live import Client, hanging_up, modern, old_client, posted, serving
from tests.support.messages import call, lines, result
from tests.support.running import WAIT, frames, is_one_file, python, receive_line, run, sessions, started, until
from tests.support.using import GREETING, HELLO, names, over_http, session
from tests.support.vcr import SERVER
from tests.testing.test_use import make_cassette

SECRET = "hunter2-and-more"


class Place:
    """A cassette, a live server that counts its calls, and a client for it."""

    def __init__(self, directory: Path, options: dict[str, Any], talk: Callable[..., list[Any]]) -> None:
        self.path = directory / "tapes" / "tape.db"
        self.path.parent.mkdir()
        self.options = options
        self._talk = talk

    def use(self, mode: str | None = None, **more: Any) -> UsedCassette:
        return use_cassette(self.path, **({"mode": mode} if mode else {}), **self.options, **more)

    def talk(self, tape: UsedCassette, *texts: str) -> list[Any]:
        """The answers to a client: the number of the call, if live."""
        return self._talk(tape, *texts)

    def hold(self, *tools: str) -> bytes:
        """Make a cassette with calls of these tools; return its bytes."""
        return make_cassette(self.path, session(*((tool, [tool, "taped"]) for tool in tools))).read_bytes()

    def recorded(self) -> list[list[str | None]]:
        """The called tools, by session."""
        with mcp_tape.Cassette(self.path) as cassette:
            return [[e.name for e in cassette.exchanges(s.id) if e.name] for s in cassette.sessions()]

    def files(self) -> list[str]:
        return sorted(os.listdir(self.path.parent))


def by_command(tape: UsedCassette, *texts: str) -> list[Any]:
    done = run(tape.command, HELLO + lines(*texts))
    bodies = [json.loads(line) for line in done.stdout.splitlines()][1:]
    return [body["result"]["value"][-1] if "result" in body else body["error"] for body in bodies]


def by_url(tape: UsedCassette, *texts: str) -> list[Any]:
    return [value[-1] if isinstance(value, list) else value for value in over_http(tape, *texts)]


def knows(tape: UsedCassette, *calls: str) -> None:
    """Calls are reported while clients are connected, perhaps a moment later."""
    until(lambda: names(tape.calls()) == list(calls), f"to be told of {calls}")


@pytest.fixture(params=["command", "url"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    if request.param == "command":
        yield Place(tmp_path, {"command": [*python(SERVER), str(tmp_path / "log")]}, by_command)
        return
    request.getfixturevalue("forked_recorders")
    with serving() as live:
        yield Place(tmp_path, {"url": live.url}, by_url)


@pytest.fixture
def commanded(tmp_path: Path) -> Place:
    return Place(tmp_path, {"command": [*python(SERVER), str(tmp_path / "log")]}, by_command)


# The modes ---------------------------------------------------------------------------------------------


@pytest.mark.slow(quick=1)
def test_once_is_the_default_and_records_only_the_first_time(place: Place) -> None:
    with place.use() as tape:
        assert (tape.is_recording, tape.mode, tape.path) == (True, "all", str(place.path))
        first = place.talk(tape, call(1, "a"), call(2, "b"))
        knows(tape, "initialize", "a", "b")
        assert not place.path.exists()  # only at the end
    assert is_one_file(place.path)
    with place.use() as tape:
        assert (tape.is_recording, tape.mode) == (False, "none")
        assert place.talk(tape, call(1, "a"), call(2, "b")) == first
        assert tape.all_played
    assert (place.recorded(), place.files()) == ([["a", "b"]], ["tape.db"])


@pytest.mark.slow
def test_the_command_is_plain_words_recorded_or_replayed_for_clients_that_take_one_string(commanded: Place) -> None:
    for mode in ("once", "none"):
        with commanded.use(mode) as tape:
            words = tape.command
            ours = words[: words.index("--")] if "--" in words else words
            assert not set("&|;`$()<>\n\"'").intersection("".join(ours)), ours
            assert shlex.split(shlex.join(words)) == words
            assert commanded.talk(tape, call(1, "a")) == [2]


def test_none_never_asks_the_live_server(place: Place) -> None:
    before = place.hold("a")
    with place.use("none") as tape:
        assert place.talk(tape, call(1, "b"))[0]["code"] == -32010
        assert names([miss.call for miss in tape.misses]) == ["b"]
    assert place.path.read_bytes() == before


@pytest.mark.slow(quick=1)
def test_new_episodes_records_misses(place: Place) -> None:
    place.hold("a", "a")
    with place.use("new_episodes") as tape:
        taped, live = place.talk(tape, call(1, "a"), call(2, "b"))
        assert taped == "taped" != live
        knows(tape, "initialize", "a", "b")  # one handshake, though two servers received it
    assert [(each.name, each.session) for each in tape.calls("tools/call")] == [("a", 1), ("b", 2)]
    assert [(each.name, each.seq) for each in tape.unplayed] == [("a", 6)]
    assert (tape.play_count, tape.misses, tape.all_played) == (2, [], False)
    assert place.recorded() == [["a", "a"], ["b"]]
    with place.use("new_episodes") as tape:
        place.talk(tape, call(1, "a"), call(2, "b"), call(3, "a"))
    assert (tape.play_count, tape.all_played) == (4, True)
    assert place.recorded() == [["a", "a"], ["b"]]
    assert place.files() == ["tape.db"]


@pytest.mark.slow(quick=1)
def test_all_adds_to_the_cassette(place: Place) -> None:
    place.hold("a")
    with place.use("all") as tape:
        place.talk(tape, call(1, "b"))
    assert names(tape.calls("tools/call")) == ["b"]  # without those of the other run
    assert (place.recorded(), place.files()) == ([["a"], ["b"]], ["tape.db"])


@pytest.mark.slow(quick=1)
def test_rewrite_replaces_the_cassette(place: Place) -> None:
    place.hold("a")
    with place.use("rewrite") as tape:
        place.talk(tape, call(1, "b"))
    assert (place.recorded(), place.files()) == ([["b"]], ["tape.db"])


@pytest.mark.slow(quick=2)
@pytest.mark.parametrize("mode", ["new_episodes", "all", "rewrite"])
def test_an_exception_in_the_body_leaves_the_old_cassette(commanded: Place, mode: str) -> None:
    before = commanded.hold("a")
    with pytest.raises(ZeroDivisionError), commanded.use(mode) as tape:
        assert commanded.talk(tape, call(1, "b")) == 1 / 0
    assert commanded.path.read_bytes() == before
    assert commanded.files() == ["tape.db"]


@pytest.mark.slow(quick=1)
def test_an_exception_in_the_body_leaves_no_new_cassette(place: Place) -> None:
    with pytest.raises(ZeroDivisionError), place.use() as tape:
        assert place.talk(tape, call(1, "b")) == 1 / 0
    assert place.files() == []


@pytest.mark.slow(quick=2)
@pytest.mark.parametrize("mode", ["once", "new_episodes", "all", "rewrite"])
def test_that_nothing_was_asked_is_recorded_where_there_was_no_recording(place: Place, mode: str) -> None:
    with place.use(mode) as tape:
        pass
    assert (place.files(), tape.is_of_nothing) == (["tape.db"], True)
    with place.use("none") as tape:
        assert not tape.is_recording
    place.path.unlink()
    before = place.hold("a")
    with place.use(mode):
        pass
    assert (place.path.read_bytes(), place.files()) == (before, ["tape.db"])


@pytest.mark.slow(quick=1)
def test_several_clients_record_a_session_each_and_get_it_back(place: Place) -> None:
    with place.use() as tape:
        live = [place.talk(tape, call(1, "a")), place.talk(tape, call(1, "a"), call(2, "b"))]
    assert names(tape.calls("tools/call")) == ["a", "a", "b"]
    assert place.recorded() == [["a"], ["a", "b"]]
    with place.use() as tape:
        assert [place.talk(tape, call(1, "a")), place.talk(tape, call(1, "a"), call(2, "b"))] == live
        assert tape.all_played


@pytest.mark.slow
def test_an_event_loop_records_too(commanded: Place) -> None:
    async def use() -> None:
        async with commanded.use() as tape:
            await asyncio.to_thread(commanded.talk, tape, call(1, "a"))

    asyncio.run(use())
    assert commanded.recorded() == [["a"]]


# Reported calls ------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_calls_are_known_while_a_client_is_connected_and_after_the_end(commanded: Place) -> None:
    with commanded.use() as tape:
        assert (tape.calls(), tape.misses, tape.play_count, tape.unplayed) == ([], [], 0, [])
        with started(tape.command) as client:
            assert client.stdin and client.stdout
            for script in (HELLO, lines(call(1, "a", n=1))):
                client.stdin.write(script)
                receive_line(client.stdout)
            knows(tape, "initialize", "a")
            (a,) = tape.calls("tools/call", tool="a")
            assert (a.params["arguments"], a.result) == ({"n": 1}, {"value": ["tools/call", 2]})
            client.stdin.close()
            assert client.wait(WAIT) == 0
    assert tape.calls("tools/call") == [a]


@pytest.mark.slow(quick=1)
def test_rewinding_forgets_calls_but_the_recording_stays(place: Place) -> None:
    place.hold("a")
    with place.use("new_episodes") as tape:
        place.talk(tape, call(1, "a"), call(2, "b"))
        knows(tape, "initialize", "a", "b")
        tape.rewind()
        assert (tape.calls(), tape.play_count, names(tape.unplayed)) == ([], 0, ["initialize", "a"])
        place.talk(tape, call(1, "a"), call(2, "c"))
    assert (names(tape.calls()), tape.play_count) == (["initialize", "a", "c"], 2)
    assert sorted(name for names in place.recorded() for name in names if name) == ["a", "b", "c"]


# Live servers of all kinds -----------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.usefixtures("forked_recorders")
def test_a_modern_server_is_recorded_and_played(tmp_path: Path) -> None:
    with serving() as live:
        for _ in range(2):
            with use_cassette(tmp_path / "tape.db", url=live.url) as tape:
                assert Client(tape.url).ask(modern(1, "a")) == ["a", 1]
        with use_cassette(tmp_path / "tape.db", "new_episodes", url=live.url) as tape:
            assert [Client(tape.url).ask(modern(n, tool)) for n, tool in enumerate("ab")] == [["a", 1], ["b", 2]]
        assert names(tape.calls()) == ["a", "b"]


@pytest.mark.usefixtures("forked_recorders")
@pytest.mark.slow
def test_an_old_server_is_recorded_and_played_over_its_own_transport(tmp_path: Path) -> None:
    modes: list[Mode] = ["once", "new_episodes", "none"]
    with serving(old=True) as live:
        for mode in modes:
            with (
                use_cassette(tmp_path / "tape.db", mode, url=live.url) as tape,
                old_client(tape.url) as (client, heard),
            ):
                assert tape.url.endswith("/sse")
                posted(client, call(1, "a"))
                assert next(heard)["result"]["value"] == ["old", 1]


@pytest.mark.usefixtures("forked_recorders")
@pytest.mark.slow
def test_headers_go_to_the_live_server_and_not_onto_the_tape(tmp_path: Path) -> None:
    with serving() as live:
        with use_cassette(tmp_path / "tape.db", url=live.url, headers={"Authorization": f"Bearer {SECRET}"}) as tape:
            over_http(tape, call(1, "a"))
        assert {heard["headers"]["authorization"] for heard in live.heard} == {f"Bearer {SECRET}"}
    assert SECRET.encode() not in (tmp_path / "tape.db").read_bytes()


@pytest.mark.usefixtures("forked_recorders")
@pytest.mark.slow
def test_a_server_that_cannot_be_reached_leaves_no_cassette(tmp_path: Path) -> None:
    with (
        hanging_up() as url,
        pytest.raises(ServerError, match="was not reached"),
        use_cassette(tmp_path / "tape.db", url=url) as tape,
        Client(tape.url).send("POST", call(1)) as response,
    ):
        assert response.status >= 500
    assert os.listdir(tmp_path) == []


def test_a_client_that_is_killed_has_recorded_all_the_same(commanded: Place) -> None:
    with commanded.use() as tape, started(tape.command) as client:
        assert client.stdin and client.stdout
        client.stdin.write(HELLO)
        receive_line(client.stdout)
        client.send_signal(signal.SIGKILL)
        client.wait(WAIT)
    assert names(tape.calls()) == ["initialize"]
    assert commanded.files() == ["tape.db"]


# The recording -------------------------------------------------------------------------------------------


def hide_bern(text: str) -> str:
    return text.replace("Bern", "[a city]")


@pytest.mark.slow
def test_redactions_and_notes_are_those_of_the_recording(commanded: Place) -> None:
    hidden = {"redact_keys": ["pin"], "redact_values": ["PL-[0-9]+"], "redact_paths": ["$.params.arguments.where"]}
    asked = call(1, "a", pin="4711-4711", plate="PL-12345", where="in the drawer", city="to Bern", keep="kept")
    with commanded.use(**hidden, redactions=[hide_bern], note="a remark") as tape:
        commanded.talk(tape, asked)
    stored = b"".join(frame.text for frame in frames(commanded.path))
    assert not [word for word in (b"4711", b"12345", b"drawer", b"Bern") if word in stored]
    assert b"kept" in stored and b"[a city]" in stored
    assert [each.note for each in sessions(commanded.path)] == ["a remark"]


@pytest.mark.slow
def test_secrets_are_kept_only_where_that_is_wanted(commanded: Place) -> None:
    for redact, stored in ((True, False), (False, True)):
        with commanded.use("rewrite", redact=redact) as tape:
            commanded.talk(tape, call(1, "a", password=SECRET))
        assert (SECRET.encode() in commanded.path.read_bytes()) is stored


def test_a_redaction_must_be_a_function_that_another_process_can_import(commanded: Place) -> None:
    for function in (lambda text: text, str.lower, "not a function"):
        with pytest.raises(TapeError, match="cannot be imported"):
            commanded.use(redactions=[function])
    assert commanded.files() == []


# Refusals ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["once", "new_episodes", "all", "rewrite"])
def test_a_live_server_must_be_given_and_not_be_blocked(tmp_path: Path, mode: Any) -> None:
    path = tmp_path / "tape.db"
    with pytest.raises(TapeError, match=f"mode {mode} needs the live server"):
        use_cassette(path, mode)
    for server in ({"command": ["no-such", "server"]}, {"url": "https://example.org/mcp"}):
        with pytest.raises(TapeError, match=rf"blocked.*{mode}.*(no-such server|example\.org)"):
            use_cassette(path, mode, block_live=True, **server)  # type: ignore[arg-type]
    assert os.listdir(tmp_path) == []


def test_a_tape_that_plays_is_never_blocked(tmp_path: Path) -> None:
    path = make_cassette(tmp_path / "tape.db", session(("a", "one")))
    for mode in ("none", "once"):
        with use_cassette(path, mode, command=["no-such"], block_live=True) as tape:  # type: ignore[arg-type]
            assert over_http(tape, call(1, "a")) == ["one"]


def test_a_recording_refuses_features_of_a_replay(commanded: Place, tmp_path: Path) -> None:
    with commanded.use() as tape:
        with pytest.raises(TapeError, match=r"from a command: give the client tape\.command"):
            _ = tape.url
        with pytest.raises(TapeError, match="only a tape that plays"):
            tape.on("tools/call", tool="a")
    with (
        use_cassette(tmp_path / "u.db", url="http://127.0.0.1:1/mcp") as tape,
        pytest.raises(TapeError, match=r"from a URL: give the client tape\.url"),
    ):
        _ = tape.command


@pytest.mark.slow
def test_rules_and_faults_wait_for_the_tape_to_play(commanded: Place) -> None:
    functions: dict[str, Any] = {"match_on": [lambda recorded, live: None], "faults": [lambda live: "error:-1"]}
    with commanded.use(**functions) as tape:
        assert commanded.talk(tape, call(1, "a")) == [2]  # these options are for replay
    with commanded.use(**functions) as tape:
        assert b"fault" in run(tape.command, HELLO).stdout
    with pytest.raises(TapeError, match="must be texts"):
        commanded.use("new_episodes", **functions)


def test_a_place_that_cannot_be_written_is_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    for path in (tmp_path / "file", tmp_path / "file" / "tape.db"):
        with pytest.raises(CassetteError, match="file"):
            use_cassette(path, "all", command=["server"])
    assert (tmp_path / "file").read_text() == "in the way"


@pytest.mark.slow
def test_a_cassette_changed_by_another_process_is_not_overwritten(commanded: Place) -> None:
    commanded.hold("a")
    tape = commanded.use("all")
    commanded.talk(tape, call(1, "mine"))
    make_cassette(commanded.path, [*GREETING, ("client", call(1, "theirs")), ("server", result(1))])
    with pytest.raises(CassetteError, match="another process has changed it"):
        tape.finish(keep=True)
    assert commanded.recorded() == [["a"], ["theirs"]]
    assert commanded.files() == ["tape.db"]


@pytest.mark.slow(quick=1)
@pytest.mark.parametrize("mode", ["all", "rewrite"])
def test_a_client_that_stays_is_reported_and_nothing_is_lost(
    commanded: Place, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    monkeypatch.setattr(recorders, "_ENDING", 0.1)
    before = commanded.hold("a")
    tape = commanded.use(mode)
    with started(tape.command) as client:
        assert client.stdin and client.stdout
        client.stdin.write(HELLO)
        receive_line(client.stdout)
        with pytest.raises(CassetteError, match="a client is still connected"):
            tape.finish(keep=True)
        assert commanded.path.read_bytes() == before
        if sys.platform == "linux":
            client.wait(WAIT)  # its connection ended with the tape, so it stops waiting


@pytest.mark.slow
def test_rewriting_needs_something_to_play(commanded: Place) -> None:
    before = commanded.hold("a")
    with commanded.use("rewrite") as tape:
        run(tape.command, b"")  # a client that connects and leaves
    assert commanded.path.read_bytes() == before

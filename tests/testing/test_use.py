"""`use_cassette` with an existing cassette: the ways to connect a client, and the reported calls.

The clients here are raw pipes and sockets; test_use_clients.py has the SDKs.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import re
import sys
import tempfile
import typing
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import mcp_tape
from mcp_tape import CassetteError, TapeError, use_cassette
from mcp_tape.replay import faults, finder
from tests.support import provision, warm
from tests.support.decks import make_cassette
from tests.support.docs import example
from tests.support.live import INITIALIZE, Client, modern, old_client, posted
from tests.support.messages import call, lines, request, result
from tests.support.running import WAIT, in_background, python, receive, receive_line, run, send, started
from tests.support.using import HELLO, answers, names, over_http, session

ROOT = Path(__file__).parents[2]


@pytest.fixture
def cassette(tmp_path: Path) -> Path:
    return make_cassette(tmp_path / "tape.db", session(("a", "one"), ("a", "two"), ("b", "bee")))


# The package -------------------------------------------------------------------------------------------


def test_every_public_name_is_there() -> None:
    everything: dict[str, Any] = {}
    exec("from mcp_tape import *", everything)
    assert set(mcp_tape.__all__) == set(everything) - {"__builtins__"} == set(dir(mcp_tape))
    assert mcp_tape.__all__ == sorted(mcp_tape.__all__)
    assert everything["use_cassette"] is use_cassette
    with pytest.raises(AttributeError, match="no attribute 'rewind'"):
        _ = mcp_tape.rewind  # type: ignore[attr-defined]


def test_importing_it_is_nearly_free() -> None:
    source = "import sys; before = set(sys.modules); import mcp_tape; print(*set(sys.modules) - before)"
    loaded = set(run(python(source)).stdout.decode().split())
    assert {"mcp_tape"} <= loaded <= {"__future__", "mcp_tape", "mcp_tape.errors"}


@pytest.mark.slow
def test_a_command_and_a_url_need_neither_the_sdk_nor_pytest(cassette: Path) -> None:
    source = f"""
import subprocess, sys, urllib.request
from mcp_tape import use_cassette
with use_cassette({str(cassette)!r}, "none") as tape:
    subprocess.run(tape.command, input={HELLO!r}, stdout=subprocess.DEVNULL, check=True, timeout={WAIT})
    print(*sys.modules)
    headers = {{"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}}
    urllib.request.urlopen(urllib.request.Request(tape.url, {INITIALIZE.encode()!r}, headers), timeout={WAIT}).read()
    print(*sys.modules)
"""
    by_command, by_url = (set(line.split()) for line in run(python(source)).stdout.decode().splitlines())
    heavy = {"mcp", "mcp_types", "anyio", "pydantic", "fastmcp", "pytest", "sqlite_utils", "deepdiff"}
    assert not by_command & (heavy | {"asyncio", "httptools", "httpx2", "click"})
    assert not by_url & (heavy | {"httpx2"})


def test_it_is_typed() -> None:
    assert (Path(mcp_tape.__file__).parent / "py.typed").is_file()
    known = vars(finder) | vars(faults) | vars(typing)
    assert typing.get_type_hints(use_cassette, localns=known)["return"] is mcp_tape.UsedCassette
    for owner in (mcp_tape.UsedCassette, mcp_tape.Cassette):
        for name, member in inspect.getmembers(owner):
            function = member.fget if isinstance(member, property) else member
            if not name.startswith("_") and inspect.isfunction(function):
                hints = {name: hint for name, hint in function.__annotations__.items() if name != "return"}
                assert set(hints) == set(inspect.signature(function).parameters) - {"self"}, name
                assert "return" in function.__annotations__, name


def test_every_public_name_and_option_is_documented() -> None:
    page = (ROOT / "docs" / "api.md").read_text("utf-8")
    options = set(inspect.signature(use_cassette).parameters)
    members = {name for name in dir(mcp_tape.UsedCassette) if not name.startswith("_")}
    reading = {"sessions", "session", "counts", "frames", "exchanges"}
    for name in {*mcp_tape.__all__, *options, *members, "path", "mode", *reading}:
        assert re.search(rf"`[^`\n]*\b{name}\b[^`\n]*`", page), name
    for fields in (mcp_tape.Session, mcp_tape.Frame, mcp_tape.Exchange, mcp_tape.Miss):
        for name in fields._fields:
            assert re.search(rf"`[^`\n]*\b{name}\b[^`\n]*`", page), f"{fields.__name__}.{name}"


@pytest.mark.slow
def test_the_examples_of_the_page_run(tmp_path: Path) -> None:
    def shown(kind: str, *words: str) -> str:
        command = [*warm.command(sys.executable, kind, provision.SDK), *words]
        done = run(command, cwd=tmp_path, env=provision.environment())
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.decode()

    for name in ("clock.py", "test_clock.py", "functions.py", "read.py"):
        example("docs/api.md", name, tmp_path)
    recorded = shown("clock.py")
    assert "+09:00" in recorded
    (tmp_path / "clock.py").write_text((tmp_path / "clock.py").read_text().replace("mcp-server-time", "no-server"))
    all_others = "import runpy; [runpy.run_path(f'{name}.py') for name in ('clock', 'functions', 'read')]"
    replayed, functions, read = shown("-c", all_others).split("}\n")
    assert replayed + "}\n" == functions + "}\n" == recorded
    assert read.startswith("Libra: a tape will be played\n")
    assert "tools/call get_current_time ok" in read
    assert "2 passed" in shown("-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir=.", "test_clock.py")


# Ways to connect ------------------------------------------------------------------------------------------


def test_a_command_a_url_and_the_old_url_play_the_same(cassette: Path) -> None:
    texts = [call(7, "a"), call(8, "b")]
    with use_cassette(cassette, "none") as tape:
        assert answers(tape.command, lines(*texts)) == ["one", "bee"]
        assert over_http(tape, *texts) == ["one", "bee"]
        with old_client(tape.url) as (client, heard):
            assert [posted(client, text) for text in (INITIALIZE, texts[0])] == [202, 202]
            assert [next(heard)["result"]["value"] for _ in range(2)] == ["hello", "one"]
        assert tape.command is not tape.command  # callers may change it
        assert tape.url == tape.url


def test_the_url_has_the_path_of_the_live_server(cassette: Path) -> None:
    with use_cassette(cassette, url="https://example.org/a/b") as tape:
        assert tape.url.endswith("/a/b")
        assert over_http(tape, call(1, "b")) == ["bee"]


def test_modern_clients_share_one_deck_over_http(tmp_path: Path) -> None:
    said = [("client", modern(1, "a")), ("server", result(1, "one")), ("client", modern(2, "a")), ("server", result(2))]
    with use_cassette(make_cassette(tmp_path / "tape.db", said), "none") as tape:
        assert [Client(tape.url).ask(modern(1, "a")) for _ in range(3)] == ["one", "ok", "one"]
        tape.rewind()
        assert tape.calls() == []
        assert Client(tape.url).ask(modern(1, "a")) == "one"
        assert names(tape.calls()) == ["a"]


def test_each_client_finds_the_tape_at_its_start(cassette: Path) -> None:
    with use_cassette(cassette, "none") as tape:
        assert [answers(tape.command, lines(call(1, "a"))) for _ in range(2)] == [["one"], ["one"]]
        assert [over_http(tape, call(1, "a")) for _ in range(2)] == [["one"], ["one"]]
        assert tape.play_count == 8


@pytest.mark.slow
def test_large_answers_and_clients_that_do_not_read_block_no_others(tmp_path: Path) -> None:
    large = "x" * 500_000
    path = make_cassette(tmp_path / "tape.db", session(("large", large)))
    with use_cassette(path, "none", repeats="last") as tape, started(tape.command) as client:
        asked = [request(n, "tools/call", name="large", arguments={}) for n in range(1, 9)]
        padding = lines(*["y" * 4000] * 100)  # more than any pipe holds, before an answer is read
        assert client.stdin and client.stdout
        with in_background(lambda: send(client.stdin, HELLO + padding + lines(*asked) + padding)):
            pass
        client.stdin.close()
        got = [json.loads(line) for line in receive(client.stdout).splitlines()]
        assert [len(body["result"]["value"]) for body in got[1:]] == [500_000] * 8
        assert client.wait(WAIT) == 0


@pytest.mark.slow
def test_threads_that_come_first_at_once_start_one_server(cassette: Path) -> None:
    with use_cassette(cassette, "none") as tape, ThreadPoolExecutor(8) as threads:
        assert len(set(threads.map(lambda _: tape.url, range(8)))) == 1
        assert len(set(threads.map(lambda _: tuple(tape.command), range(8)))) == 1


@pytest.mark.slow
def test_many_clients_at_once_are_kept_apart(cassette: Path) -> None:
    texts = [call(n, "a") for n in (1, 2)]
    with use_cassette(cassette, "none") as tape, ThreadPoolExecutor(8) as threads:
        by_url = [threads.submit(over_http, tape, *texts) for _ in range(8)]
        by_command = [threads.submit(answers, tape.command, lines(*texts)) for _ in range(4)]
        assert [done.result(WAIT) for done in (*by_url, *by_command)] == [["one", "two"]] * 12
        assert tape.play_count == 36


def test_two_tapes_at_once_know_nothing_of_each_other(tmp_path: Path) -> None:
    tapes = [make_cassette(tmp_path / f"{name}.db", session((name, name))) for name in ("a", "b")]
    with use_cassette(tapes[0], "none") as one, use_cassette(tapes[1], "none") as two:
        assert over_http(one, call(1, "a")) == answers(one.command, lines(call(1, "a"))) == ["a"]
        assert over_http(two, call(1, "b")) == answers(two.command, lines(call(1, "b"))) == ["b"]
        assert (names(one.calls("tools/call")), names(two.calls("tools/call"))) == (["a", "a"], ["b", "b"])
        assert not one.misses and not two.misses


def test_a_tape_can_be_used_in_an_event_loop(cassette: Path) -> None:
    async def use() -> list[Any]:
        async with use_cassette(cassette, "none") as tape:
            return await asyncio.to_thread(over_http, tape, call(1, "b"))

    assert asyncio.run(use()) == ["bee"]


def test_a_long_temporary_directory_is_no_obstacle(
    cassette: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = tmp_path / ("long" * 30)
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    with use_cassette(cassette, "none") as tape:
        assert answers(tape.command, lines(call(1, "b"))) == ["bee"]
        door = Path(tape.command[-1]).parent
    assert not door.exists()
    assert not list(long.iterdir())


def test_after_its_end_a_tape_refuses_connections_but_still_reports(cassette: Path) -> None:
    with use_cassette(cassette, "none") as tape, started(tape.command) as client:
        assert client.stdin and client.stdout and client.stderr
        command, url = tape.command, tape.url
        client.stdin.write(HELLO)
        receive_line(client.stdout)
        tape.finish(keep=True)
        assert receive(client.stdout) == b""  # the connection was closed
    assert names(tape.calls()) == ["initialize"]
    for connect in (lambda: tape.command, lambda: tape.url, tape.streams):
        with pytest.raises(TapeError, match="no longer in use"):
            connect()
    late = run(command)
    assert (late.returncode, late.stdout) == (4, b"")
    assert b"start this within the test" in late.stderr
    with pytest.raises(OSError, match="refused"):
        Client(url).hello()


def test_a_cassette_replaced_before_a_client_connects_plays_in_its_new_version(cassette: Path, tmp_path: Path) -> None:
    newer = make_cassette(tmp_path / "newer.db", session(("a", "new")))
    with use_cassette(cassette, "none") as tape:
        os.replace(newer, cassette)
        assert answers(tape.command, lines(call(1, "a"))) == ["new"]


@pytest.mark.slow
def test_a_tape_without_clients_leaves_no_file_open(cassette: Path) -> None:
    source = f"""
import gc, os
from contextlib import suppress
from mcp_tape import use_cassette
inode = os.stat({str(cassette)!r}).st_ino
def is_open():
    found = set()
    for descriptor in range(3, 64):
        with suppress(OSError):
            found.add(os.fstat(descriptor).st_ino)
    return inode in found
with use_cassette({str(cassette)!r}, "none") as tape:
    print(is_open())
print(is_open())
tape = use_cassette({str(cassette)!r}, "none")  # which nobody ends
del tape
gc.collect()
print(is_open())
"""
    done = run(python(source))
    assert (done.stdout, done.stderr) == (b"True\nFalse\nFalse\n", b"")


def test_another_user_of_a_tape_that_plays_has_calls_of_its_own(cassette: Path) -> None:
    with use_cassette(cassette, "none") as tape, tape.another() as other:
        assert answers(other.command, lines(call(1, "b"))) == ["bee"]
        assert (names(other.calls("tools/call")), tape.calls()) == (["b"], [])


def test_an_exception_in_the_body_goes_on_its_way(cassette: Path) -> None:
    before = cassette.read_bytes()
    with pytest.raises(ZeroDivisionError), use_cassette(cassette, "none") as tape:
        assert over_http(tape, call(1, "a")) == 1 / 0
    assert cassette.read_bytes() == before
    assert os.listdir(cassette.parent) == [cassette.name]


# Reported calls -------------------------------------------------------------------------------------------


def test_calls_have_their_answers_also_from_other_processes(cassette: Path) -> None:
    with use_cassette(cassette, "none") as tape:
        answers(tape.command, lines(call("x", "a"), call("y", "b")))
        assert names(tape.calls()) == ["initialize", "a", "b"]
        assert tape.calls("tools/call", tool="b") == tape.calls(name="b")
        (b,) = tape.calls("tools/call", tool="b")
        assert (b.method, b.id, b.sender, b.result, b.error) == ("tools/call", '"y"', "client", {"value": "bee"}, None)
        assert (b.session, b.seq, b.params) == (1, 8, {"name": "b", "arguments": {}})
        assert tape.calls("tools/list") == tape.calls("tools/call", tool="c") == []


def test_unplayed_requests_are_known(cassette: Path) -> None:
    with use_cassette(cassette, "none") as tape:
        assert names(tape.unplayed) == ["initialize", "a", "a", "b"]
        answers(tape.command, lines(call(1, "a"), call(2, "b")))
        assert [(each.name, each.seq, each.result) for each in tape.unplayed] == [("a", 6, {"value": "two"})]
        assert not tape.all_played
        over_http(tape, call(1, "a"), call(1, "a"))  # another client plays the rest
        assert tape.all_played
        tape.rewind()
        assert (len(tape.unplayed), tape.play_count, tape.calls()) == (4, 0, [])


def test_sessions_that_extend_another_are_distinguished_by_more_than_their_places(tmp_path: Path) -> None:
    path = make_cassette(tmp_path / "tape.db", session(("a", "one")))
    make_cassette(path, session(("b", "two")), extends=1)
    with use_cassette(path, "none") as tape:
        answers(tape.command, lines(call(1, "b")))
        assert [(each.session, each.name) for each in tape.unplayed] == [(1, "a")]
        answers(tape.command, lines(call(1, "a")))
        assert tape.all_played  # an added session's handshake need not play


def test_over_http_the_session_of_the_clients_era_counts(tmp_path: Path) -> None:
    path = make_cassette(tmp_path / "tape.db", session(("a", "old")))
    make_cassette(path, [("client", modern(1, "a")), ("server", result(1, "new"))])
    with use_cassette(path, "none") as tape:
        assert over_http(tape, call(1, "a")) == ["old"]
        assert tape.all_played


def test_misses_have_the_call_and_the_report(cassette: Path) -> None:
    with use_cassette(cassette, "none") as tape:
        (error,) = answers(tape.command, lines(call("m", "a", city="Bern")))
        assert error["code"] == -32010
        (miss,) = tape.misses
        assert (miss.call.id, miss.call.params["arguments"], miss.call.result) == ('"m"', {"city": "Bern"}, None)
        assert "$.params.arguments" in miss.report
        assert tape.calls("tools/call") == [miss.call]
        assert (tape.play_count, tape.notes) == (1, [])
        over_http(tape, request(5, "no/such"))
        assert [each.call.method for each in tape.misses] == ["tools/call", "no/such"]


def test_notes_report_other_differences(cassette: Path) -> None:
    other = request(0, "initialize", protocolVersion="2024-11-05", capabilities={}, clientInfo={"name": "c"})
    with use_cassette(cassette, "none") as tape:
        run(tape.command, lines(other))
        run(tape.command, lines(other))
        (note,) = tape.notes
        assert "2024-11-05" in note
        assert not tape.misses


def test_the_clients_of_a_recorded_test_get_their_sessions_in_order_after_rewinding_too(tmp_path: Path) -> None:
    path = make_cassette(tmp_path / "tape.db", session(("a", "first")), session(("a", "second")), run="r")
    with use_cassette(path, "none") as tape:
        for _ in range(2):
            assert [over_http(tape, call(1, "a")) for _ in range(2)] == [["first"], ["second"]]
            tape.rewind()


# Refusals --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"mode": "nonne"}, "no mode 'nonne': choose one of none, once"),
        ({"order": "random"}, "no order"),
        ({"repeats": "always"}, "no repeats"),
        ({"session": "newest"}, "neither latest, all"),
        ({"session": 7}, "does not hold session 7"),
        ({"speed": -1.0}, "less than 0"),
        ({"ignore": ["params.x"]}, "'params.x'"),
        ({"match_on": ["$["]}, "nothing for match_on"),
        ({"match_on": [3]}, "neither a text nor a function"),
        ({"faults": ["tools/call=explode"]}, "explode"),
        ({"redact_values": ["("]}, "no regular expression"),
        ({"redact_paths": ["x"]}, "redact_paths"),
        ({"command": "uvx server"}, r"as in \['uvx', 'server'\]"),
        ({"command": ["server"], "url": "http://127.0.0.1:1/mcp"}, "not both"),
    ],
    ids=str,
)
def test_contradictory_keywords_are_refused_at_once(cassette: Path, options: dict[str, Any], why: str) -> None:
    with pytest.raises(TapeError, match=why):
        use_cassette(cassette, **({"mode": "none"} | options))


def test_mode_none_needs_a_cassette_with_something_on_it(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("no cassette")
    probe = make_cassette(tmp_path / "probe.db", [("client", request(1, "server/discover")), ("server", result(1))])
    with use_cassette(probe, "none") as tape:  # which has no requests
        assert not tape.is_recording
    for path in (tmp_path / "missing.db", tmp_path / "notes.txt"):
        with pytest.raises(CassetteError, match=path.name):
            use_cassette(path, "none")
    assert sorted(os.listdir(tmp_path)) == ["notes.txt", "probe.db"]


def test_a_cassette_can_be_read_as_plain_values(cassette: Path) -> None:
    with mcp_tape.Cassette(cassette) as tape:
        (first,) = tape.sessions()
        assert (first.transport, first.client_name, first.ended_at is not None) == ("stdio", "c", True)
        assert [frame.sender for frame in tape.frames(first.id)][:3] == ["client", "server", "client"]
        *_, last = tape.exchanges(first.id)
        assert last == mcp_tape.Exchange(
            1, 8, "client", "tools/call", "b", "3", last.params, {"value": "bee"}, None, 1000
        )

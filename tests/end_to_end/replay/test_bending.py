"""A real file server, recorded in one temporary directory and replayed in another; and reports of inexact answers."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import provision
from tests.support.decks import Said, make_cassette
from tests.support.http import ask as ask_http
from tests.support.http_running import modern, replaying
from tests.support.messages import call, lines, request, result, tell
from tests.support.running import MCP_TAPE, WAIT, record, run, sessions, started

HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "tests", "version": "1"}}


@pytest.fixture
def roots() -> Iterator[list[Path]]:
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        for root in (one, other):
            for name in "ab":
                Path(root, f"{name}.txt").write_text(name * 3)
        yield [Path(one), Path(other)]


def asked(command: list[str], *calls: tuple[str, dict[str, Any]]) -> list[str]:
    """The answers of tools, called in turn, and the final stderr."""
    with started(command, env=provision.environment()) as process:
        assert process.stdin and process.stdout and process.stderr
        process.stdin.write(lines(request(0, "initialize", **HELLO), tell("notifications/initialized")))
        process.stdout.readline()
        found = []
        for number, (tool, arguments) in enumerate(calls, 1):
            process.stdin.write(lines(call(number, tool, **arguments)))
            answer = json.loads(process.stdout.readline())
            found.append(answer["result"]["content"][0]["text"] if "result" in answer else str(answer["error"]["code"]))
        process.stdin.close()
        said = process.stderr.read().decode()
        process.wait(WAIT)
    return [*found, said]


@pytest.mark.slow
def test_a_file_server_is_replayed_in_another_directory(
    tmp_path: Path, roots: list[Path], node: Callable[[], Path]
) -> None:
    server = [str(node() / ".bin" / "mcp-server-filesystem"), str(roots[0])]
    tape, (one, other) = tmp_path / "files.db", roots

    def calls(root: Path, *names: str) -> list[tuple[str, dict[str, Any]]]:
        reading = [("read_text_file", {"path": str(root / name)}) for name in names]
        writing = ("write_file", {"path": str(root / "c.txt"), "content": f"in {root}"})
        return [*reading, writing, ("list_allowed_directories", {})]

    *live, _ = asked(record(tape, server), *calls(one, "b.txt", "a.txt"))
    assert live[:2] == ["bbb", "aaa"]
    assert str(one / "c.txt") in live[2] and str(one) in live[3]
    *missed, said = asked([*MCP_TAPE, "replay", str(tape)], *calls(other, "a.txt", "b.txt"))
    assert missed[:3] == ["-32010"] * 3
    assert f"mcp-tape replay {tape} --normalize paths" in said
    *played, said = asked([*MCP_TAPE, "replay", str(tape), "--normalize", "paths"], *calls(other, "a.txt", "b.txt"))
    assert played[:2] == ["aaa", "bbb"]
    assert played[2:] == [text.replace(str(one), str(other)) for text in live[2:]]
    assert said.splitlines()[-1] == f"mcp-tape: 5 played, 0 missed, 3 inexact (3 by normalize): {tape}"


SAID: list[Said] = [
    ("client", call(1, "search", q="weather in Bern", n=1)),
    ("server", result(1, "sunny")),
    ("client", call(2, "search", q="price of gold", n=1)),
    ("server", result(2, "high")),
]
NEAR = lines(call(7, "search", q="the weather in Bern", n=1), call(8, "search", q="price of gold", n=1))


def test_inexact_answers_are_in_the_report_on_stderr_and_in_the_exit_code(tmp_path: Path) -> None:
    tape, log = str(make_cassette(tmp_path / "tape.db", SAID)), tmp_path / "report.jsonl"
    command = [*MCP_TAPE, "replay", tape, "--match", "tools/call:search=nearest", "--report", str(log)]
    done = run(command, NEAR)
    assert (done.returncode, done.stdout) == (0, lines(result(7, "sunny"), result(8, "high")))
    said = done.stderr.decode()
    assert said == (
        "mcp-tape: note: tools/call search was answered by #1, the nearest (0.99)\n"
        '  $.params.arguments.q  recorded "weather in Bern", live "the weather in Bern"\n'
        f"mcp-tape: 2 played, 0 missed, 1 inexact (1 by nearest), 0 unplayed: {tape}\n"
    )
    rows = [json.loads(line) for line in log.read_text().splitlines()]
    (row,) = (row for row in rows if row["what"] == "inexact")
    assert [row["what"] for row in rows] == ["played", "inexact", "played"]
    expected = {
        "method": "tools/call", "name": "search", "id": 7, "session": 1, "seq": 1, "rung": "nearest",
        "differing": [{"path": "$.params.arguments.q", "recorded": '"weather in Bern"',
                       "live": '"the weather in Bern"'}],
    }  # fmt: skip
    assert expected.items() <= row.items()
    assert row["similarity"] == 0.99
    done = run([*command, "--fail-on", "inexact", "-q"], NEAR)
    assert done.returncode == 1
    assert done.stderr.decode().endswith(f"1 inexact (1 by nearest), 0 unplayed: {tape}\n")
    exact = [*MCP_TAPE, "replay", tape, "--match", "nearest", "--fail-on", "inexact", "-q"]
    assert run(exact, lines(call(8, "search", q="price of gold", n=1))).returncode == 0


@pytest.mark.slow
def test_new_episodes_asks_the_live_server_only_requests_that_no_rung_answers(tmp_path: Path) -> None:
    tape = make_cassette(tmp_path / "tape.db", SAID)
    server = tmp_path / "server.py"
    server.write_text(
        "import json, sys\n"
        "for line in sys.stdin:\n"
        "    message = json.loads(line)\n"
        "    if 'id' in message:\n"
        "        print(json.dumps({'jsonrpc': '2.0', 'id': message['id'], 'result': {'value': 'live'}}), flush=True)\n"
    )
    use = [*MCP_TAPE, "use", str(tape), "--mode", "new_episodes", "--match", "nearest", "-q", "--"]
    asking = lines(call(1, "search", q="weather of Bern", n=1), call(2, "search", q="something else", n=5))
    done = run([*use, "python3", str(server)], asking)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert {answer["id"]: answer["result"]["value"] for answer in answers} == {1: "sunny", 2: "live"}


@pytest.mark.slow
def test_a_session_added_in_another_directory_plays_beside_the_rest(tmp_path: Path) -> None:
    """Each run has its own directory, and so do the sessions that it adds to a cassette."""
    server = tmp_path / "server.py"
    server.write_text(
        "import json, sys\n"
        "for line in sys.stdin:\n"
        "    message = json.loads(line)\n"
        "    value = message['params']['arguments']['path']\n"
        "    print(json.dumps({'jsonrpc': '2.0', 'id': message['id'], 'result': {'value': value}}), flush=True)\n"
    )
    tape = str(tmp_path / "tape.db")

    def use(mode: str, root: str, *names: str) -> list[str]:
        options = ["--mode", mode, "--run", root, "--normalize", "paths", "-q"]
        asking = lines(*(call(n, "read", path=f"{root}/{name}") for n, name in enumerate(names)))
        done = run([*MCP_TAPE, "use", tape, *options, "--", "python3", str(server)], asking)
        answers = {answer["id"]: answer for answer in map(json.loads, done.stdout.splitlines())}
        return [answers[n].get("result", {}).get("value") for n in range(len(names))]

    first, second, third = ("/tmp/tmp11111111", "/tmp/tmp22222222", "/tmp/tmp33333333")
    assert use("once", first, "a") == [f"{first}/a"]
    assert use("new_episodes", second, "a", "b") == [f"{second}/a", f"{second}/b"]
    for mode in ("none", "new_episodes"):
        assert use(mode, third, "b", "a") == [f"{third}/b", f"{third}/a"]
    assert len(sessions(Path(tape))) == 2, "nothing is recorded again"


def test_clients_that_share_a_tape_have_directories_of_their_own(tmp_path: Path) -> None:
    said: list[Said] = []
    for number, file in enumerate("xy"):
        path = f"/tmp/tmpaaaaaaaa/{file}"
        said.append(("client", modern(number, name="size", arguments={"path": path}).decode()))
        said.append(("server", result(number, f"{number} {path}")))
    tape = make_cassette(tmp_path / "tape.db", said)

    def ask(path: str) -> dict[str, Any]:
        answer = ask_http(replay.url, modern("live", name="size", arguments={"path": path})).document
        assert isinstance(answer, dict)
        return answer

    with replaying(tape, "--normalize", "paths", code=1) as replay:
        for client in ("bbbbbbbb", "cccccccc", "aaaaaaaa", "dddddddd", "cccccccc", "bbbbbbbb"):
            for number, file in enumerate("xy"):
                path = f"/tmp/tmp{client}/{file}"
                assert ask(path)["result"]["value"] == f"{number} {path}"
        assert ask("/tmp/tmpbbbbbbbb/z")["error"]["code"] == -32010
        assert replay.stop() == 1

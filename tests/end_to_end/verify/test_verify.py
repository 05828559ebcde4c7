"""The recorded client plays against a live server: its messages, the answers, and the new recording."""

from __future__ import annotations

import json
import os
import pty
from collections import Counter
from pathlib import Path

import pytest

from mcp_tape.cassette.reader import Cassette
from mcp_tape.verify.plan import NotReadyError
from tests.servers.conversations import CONVERSATIONS
from tests.servers.minting import Mint
from tests.servers.moody import Moody
from tests.support import provision
from tests.support.decks import alter, make_cassette
from tests.support.golden import MADE_OF, path_of
from tests.support.many import comparison
from tests.support.messages import request, result
from tests.support.running import MCP_TAPE, WAIT, python, receive, sessions, started
from tests.support.verifying import (
    Client,
    Exchange,
    changes,
    command,
    exchanges,
    methods,
    module,
    moody,
    moody_tape,
    play,
    recording,
    words,
    writing,
)

MINTING = module("minting")


# The original servers --------------------------------------------------------------------------------------


@pytest.mark.slow(quick=1)
@pytest.mark.parametrize("name", [*CONVERSATIONS, "demo", "time", "time-modern", "git", "everything", "everything-ts2"])
def test_a_golden_cassette_is_played_at_the_server_that_made_it(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if name.startswith("everything"):
        if not provision.has_node():
            pytest.skip("needs Node")
        provision.everything()
    provision.git_repository(tmp_path)
    monkeypatch.setenv("PATH", provision.environment()["PATH"])
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[3]))
    monkeypatch.chdir(tmp_path)
    server = MADE_OF[name][0]
    done = play(path_of(name), tmp_path / "new", server)
    assert (done.failures, done.skipped) == ((), ())
    before, after = exchanges(done.path, done.session), exchanges(done.new_path)
    assert Counter(map(kind, after)) == Counter(map(kind, before))
    assert told(done.new_path, 1) == told(done.path, done.session)
    assert changes(done) == []
    assert [session.incomplete for session in sessions(Path(done.new_path))] == [None]


def kind(exchange: Exchange) -> tuple[str, ...]:
    """The request, and the shape of its answer: the members of the result or of the error."""
    method, _, answer = exchange
    return method, *sorted(answer or ())


def told(path: str, session: int) -> Counter[str]:
    """The server's own messages."""
    with Cassette(path) as cassette:
        sql = "SELECT method FROM messages WHERE session = ? AND sender = 'server' AND kind = 'notification'"
        return Counter(method for (method,) in cassette.rows(sql, (session,)))


# Made-up values --------------------------------------------------------------------------------------------


def use_all(client: Client, modern: bool) -> None:
    """List the tools, create things, and get them by their ids."""
    cursor = client.ask("tools/list")["nextCursor"]
    client.ask("tools/list", cursor=cursor)
    thing = json.loads(words(client.call("create", title="mine")))["things"][1]
    client.call("get", id=thing["id"])
    key = words(client.call("create_issue", title="mine")).partition("Created issue ")[2].partition(".")[0]
    client.call("get_issue", key=key)
    number = client.call("create_number")["structuredContent"]["number"]
    client.call("get_number", number=number)
    client.ask("tasks/get", taskId=client.call("dig")["taskId"])
    if modern:
        asked = client.ask("tools/call", name="book", arguments={})
        sure, roots = asked["inputRequests"]
        given = {sure: {"action": "accept", "content": {}}, roots: {"roots": []}}
        client.ask("tools/call", name="book", arguments={}, requestState=asked["requestState"], inputResponses=given)


@pytest.mark.parametrize("modern", [False, True], ids=["legacy", "modern"])
@pytest.mark.slow
def test_values_that_the_server_makes_up_are_those_of_the_live_server(modern: bool, tmp_path: Path) -> None:
    tape = tmp_path / "tape.db"
    with writing(tape, Mint(), modern=modern) as client:
        use_all(client, modern)
    done = play(tape, tmp_path / "new", MINTING)
    assert (done.failures, done.skipped) == ((), ())
    assert methods(done.new_path) == methods(tape)
    assert not [answer for *_, answer in exchanges(done.new_path) if "code" in answer]
    assert sent(done.new_path) != sent(tape)


def sent(path: str | Path) -> list[bytes]:
    with Cassette(path) as cassette:
        return [frame.text for frame in cassette.frames(1) if frame.sender == "client"]


@pytest.mark.slow
def test_only_the_values_change_in_sent_requests(tmp_path: Path) -> None:
    """Everything else is sent byte for byte, in its original spelling."""
    ask = '{ "jsonrpc" : "2.0", "id":2,"params":{"cursor":"%s", "x":1e2, "y":\t1.0},"method":"pages/list"}'
    tape = make_cassette(
        tmp_path / "tape.db",
        [
            ("client", request(1, "pages/list")),
            ("server", '{"jsonrpc":"2.0","id":1,"result":{"nextCursor":"then"}}'),
            ("client", ask % "then"),
            ("server", result(2, {})),
        ],
    )
    server = python(
        "import sys\n"
        "for answer in ('{\"nextCursor\":\"n\\\\u00f6w\"}', '{}'):\n"
        "    line = sys.stdin.readline()\n"
        "    number = 2 if 'cursor' in line else 1\n"
        '    print(\'{"jsonrpc":"2.0","id":%d,"result":%s}\' % (number, answer), flush=True)\n'
    )
    done = play(tape, tmp_path / "new", server)
    assert sent(done.new_path)[1] == (ask % "nöw").encode()


@pytest.mark.slow
def test_a_list_that_has_become_shorter_is_not_asked_for_pages_that_it_does_not_have(tmp_path: Path) -> None:
    tape = tmp_path / "tape.db"
    with writing(tape, Moody("paged")) as client:
        client.ask("tools/list", cursor=client.ask("tools/list")["nextCursor"])
        client.call("say", what="one")
    done = play(tape, tmp_path / "new", moody())
    assert [skipped.request for skipped in done.skipped] == ["tools/list"]
    assert methods(done.new_path) == ["initialize", "tools/list", "tools/call"]


@pytest.mark.slow
def test_a_list_that_has_more_pages_than_recorded_is_read_to_its_end(tmp_path: Path) -> None:
    done = play(moody_tape(tmp_path / "tape.db", "one"), tmp_path / "new", moody("paged"))
    assert methods(done.new_path) == ["initialize", "tools/list", "tools/list", "tools/call"]
    assert exchanges(done.new_path)[2][1] == {"cursor": "more"}


# Server requests -------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_question_that_the_tape_has_no_answer_to_is_refused_so_that_nothing_hangs(tmp_path: Path) -> None:
    done = play(moody_tape(tmp_path / "tape.db"), tmp_path / "new", moody("asking"))
    assert done.failures == ()
    answers = [answer for method, params, answer in exchanges(done.new_path) if method == "elicitation/create"]
    assert answers == [{"code": -32601, "message": "the tape has no answer to this"}]
    assert "the tape has no answer" in words(exchanges(done.new_path)[3][2])


# Writes -------------------------------------------------------------------------------------------------


def writing_tape(tape: Path) -> Path:
    with writing(tape, Moody("good")) as client:
        client.ask("tools/list")
        client.call("say", what="one")
        client.call("write", what="it")
    return tape


def called(path: str) -> list[str]:
    return [params["name"] for method, params, _ in exchanges(path) if method == "tools/call"]


def test_tools_that_may_write_are_named_before_anything_is_started(tmp_path: Path) -> None:
    tape = writing_tape(tmp_path / "tape.db")
    with pytest.raises(NotReadyError, match=r": write\n.*--allow-writes.*--skip-writes") as told:
        play(tape, tmp_path / "new", moody(), writes="refuse")
    assert told.value.exit_code == 2
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("writes", "made", "left_out"), [("allow", ["say", "write"], []), ("skip", ["say"], ["tools/call write"])]
)
@pytest.mark.slow
def test_tools_that_may_write_are_called_or_skipped_by_option(
    writes: str, made: list[str], left_out: list[str], tmp_path: Path
) -> None:
    done = play(writing_tape(tmp_path / "tape.db"), tmp_path / "new", moody(), writes=writes)
    assert called(done.new_path) == made
    assert [skipped.request for skipped in done.skipped] == left_out
    assert (done.calls, done.called) == (2, len(made))


@pytest.mark.slow
def test_a_tool_that_is_no_longer_read_only_is_not_called(tmp_path: Path) -> None:
    done = play(moody_tape(tmp_path / "tape.db", "one"), tmp_path / "new", moody("writing"), writes="refuse")
    assert called(done.new_path) == []
    assert [skipped.why for skipped in done.skipped] == ["the tool is no longer read-only"]
    assert done.empty_reason


@pytest.mark.slow
def test_calls_that_need_the_result_of_a_skipped_call_are_skipped_too(tmp_path: Path) -> None:
    tape = tmp_path / "tape.db"
    with writing(tape, Mint()) as client:
        use_all(client, modern=False)
    done = play(tape, tmp_path / "new", MINTING, writes="skip")
    assert called(done.new_path) == ["dig"]
    left_out = ["create", "get", "create_issue", "get_issue", "create_number", "get_number"]
    assert [skipped.request.partition(" ")[2] for skipped in done.skipped] == left_out


@pytest.mark.slow
def test_all_calls_left_out_is_a_finding(tmp_path: Path) -> None:
    tape = tmp_path / "tape.db"
    with writing(tape, Moody("good")) as client:
        client.call("say", what="one")  # without a list, no tool is known to be read-only
    code, out, said = command(str(tape), "--skip-writes", "--json", "--", *moody())
    assert code == 1
    assert "call-missing" not in out  # reported as skipped
    assert "no tool was called" in said
    found = comparison(out)
    assert found["skipped"] == [{"what": "tools/call say", "why": "the tool is not read-only"}]
    unknown = {"what": "calls", "why": "NEW: no tool was called, so the tools are unverified", "grave": True}
    assert unknown in found["unknown"]


# Secrets ------------------------------------------------------------------------------------------------


def secret_tape(tape: Path) -> Path:
    with recording(tape, moody(), "--redact-path", "$.params.arguments.badge") as client:
        client.ask("tools/list")
        client.call("say", what="one", password='hun"ter2', badge="1234", inner=json.dumps({"api_key": "k-123456789"}))
    return tape


@pytest.mark.slow
def test_secrets_that_are_missing_are_all_named_before_anything_is_started(tmp_path: Path) -> None:
    tape = secret_tape(tmp_path / "tape.db")
    with pytest.raises(NotReadyError) as told:
        play(tape, tmp_path / "new", moody(), environ={"MCP_TAPE_SECRET_PASSWORD": "x"})
    assert "MCP_TAPE_SECRET_API_KEY  for [redacted:key:api_key] (tools/call say in " in str(told.value)
    assert "MCP_TAPE_SECRET_PARAMS_ARGUMENTS_BADGE" in str(told.value)
    assert "MCP_TAPE_SECRET_PASSWORD" not in str(told.value)


@pytest.mark.slow
def test_secrets_are_put_back_as_the_json_around_them_needs_it(tmp_path: Path) -> None:
    tape = secret_tape(tmp_path / "tape.db")
    heard = tmp_path / "heard"
    server = python(
        "import sys\n"
        "sys.path.insert(0, '.')\n"
        "from tests.servers.moody import Moody\n"
        "import json\n"
        "moody = Moody('good')\n"
        f"for line in sys.stdin:\n    open({str(heard)!r}, 'a').write(line)\n    moody.hear(json.loads(line))\n"
    )
    values = {"PASSWORD": 'hun"ter2', "API_KEY": 'k"\\1', "PARAMS_ARGUMENTS_BADGE": "1234"}
    environ = {f"MCP_TAPE_SECRET_{name}": value for name, value in values.items()}
    done = play(tape, tmp_path / "new", server, environ=environ)
    assert done.failures == ()
    arguments = json.loads(heard.read_text().splitlines()[-1])["params"]["arguments"]
    assert arguments["password"] == 'hun"ter2'
    assert arguments["badge"] == "1234"
    assert json.loads(arguments["inner"]) == {"api_key": 'k"\\1'}
    assert done.exposed == "MCP_TAPE_SECRET_PARAMS_ARGUMENTS_BADGE"  # a rule of the user's, not given again


@pytest.mark.slow
def test_a_secret_of_the_environment_is_taken_from_its_variable(tmp_path: Path) -> None:
    tape = make_cassette(
        tmp_path / "tape.db",
        [("client", request(1, "login", auth="Basic [redacted:env:THE_TOKEN]")), ("server", result(1, {}))],
    )
    alter(tape, "UPDATE facts SET redactions = 1 WHERE sender = 'client'")
    with pytest.raises(NotReadyError, match=r"THE_TOKEN  for \[redacted:env:THE_TOKEN\]"):
        play(tape, tmp_path / "new", moody())
    done = play(tape, tmp_path / "new", moody(), environ={"THE_TOKEN": "sesame"})
    assert b'"auth": "Basic sesame"' in sent(done.new_path)[0]


# Progress --------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_on_a_terminal_one_sees_how_far_it_is(tmp_path: Path) -> None:
    tape = moody_tape(tmp_path / "tape.db", "one")
    ours, theirs = pty.openpty()
    with started([*MCP_TAPE, "verify", str(tape), "--", *moody()], stderr=theirs) as process:
        assert process.stdout
        receive(process.stdout)
        assert process.wait(WAIT) == 0
    os.close(theirs)
    with open(ours, "rb") as terminal:
        shown = os.read(terminal.fileno(), 1 << 16).decode()
    assert "\rverifying tape.db: 3/3 calls" in shown


# Several sessions ------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_each_session_is_played_at_a_server_of_its_own(tmp_path: Path) -> None:
    tape, other = (moody_tape(tmp_path / name, "one") for name in ("tape.db", "other.db"))
    moody_tape(tape, "two")
    code, _, said = command(str(tape), str(other), "--session", "all", "--", *moody())
    assert code == 0, said
    assert [line.partition(": ")[2] for line in said.splitlines()] == [
        *(f"{path}#{number}: 3 requests played, 0 left out" for path, number in ((tape, 1), (tape, 2), (other, 1))),
        "2 cassettes: 2 passed",
    ]

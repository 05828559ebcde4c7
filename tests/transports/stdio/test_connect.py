"""The client of a started server: large lines, deaf servers, last words, and an end in every case."""

from __future__ import annotations

import json

import pytest

from mcp_tape.errors import ServerError
from mcp_tape.transports.stdio import connect
from tests.support.running import ECHO, WAIT, alive, python
from tests.support.verifying import moody

UNKNOWN = {"error": {"code": -32601, "message": "not here"}}
ASKED = {
    "roots/list": {"result": {"roots": []}},
    "elicitation/create": {"result": {"action": "decline"}},
    "sampling/createMessage": {"error": {"code": -1, "message": "User rejected sampling request"}},
    "odd": UNKNOWN,
    "ping": {"result": {}},
}
DECLARED = {"roots": {}, "elicitation": {}, "sampling": {}, "odd": {}}


@pytest.mark.parametrize("method", ASKED)
@pytest.mark.parametrize("capabilities", [None, {"tasks": {}}, DECLARED])
def test_server_requests_are_declined_or_unknown_by_the_declared_capabilities(
    capabilities: dict[str, object] | None, method: str
) -> None:
    source = (
        "import json, sys\n"
        "number = json.loads(sys.stdin.readline())['id']\n"
        "print('noise')\n"
        'print(\'{"jsonrpc":"2.0","method":"told"}\')\n'
        f"print(json.dumps({{'jsonrpc': '2.0', 'id': 7, 'method': {method!r}}}), flush=True)\n"
        "answer = json.loads(sys.stdin.readline())\n"
        "print(json.dumps({'jsonrpc': '2.0', 'id': number, 'result': answer}), flush=True)\n"
    )
    with connect.StdioConnection(python(source)) as connection:
        answer = connect.ask(connection, "ask", {"x": 1}, "1", WAIT, capabilities)["result"]
    expected = ASKED[method] if capabilities is DECLARED or method == "ping" else UNKNOWN
    assert answer == {"jsonrpc": "2.0", "id": 7} | expected
    assert connection.code == 0


def test_a_server_that_ends_is_reported_with_its_code_and_last_stderr() -> None:
    source = "import sys; [print(n, file=sys.stderr) for n in range(100)]; sys.exit(3)"
    with connect.StdioConnection(python(source)) as connection, pytest.raises(ServerError) as told:
        connect.ask(connection, "ask", None, 1, WAIT)
    first, *lines = str(told.value).splitlines()
    assert first == "the server ended with exit code 3 before it answered ask; its stderr ends with:"
    assert [int(line) for line in lines] == list(range(80, 100))


@pytest.mark.slow
def test_a_server_that_does_not_answer_is_reported_with_the_request() -> None:
    source = "import sys; print('busy', file=sys.stderr, flush=True); print('{}', flush=True); sys.stdin.read()"
    with connect.StdioConnection(python(source)) as connection:
        assert connection.receive(WAIT) == b"{}"
        with pytest.raises(ServerError, match=r"the server did not answer tools/list within 0.1 s; .*\n  busy"):
            connect.ask(connection, "tools/list", None, 1, 0.1)


def test_a_missing_command_is_reported() -> None:
    with pytest.raises(ServerError, match="there is no command"):
        connect.StdioConnection(["no-such-command"])


@pytest.mark.slow
def test_a_very_long_line_passes_both_ways() -> None:
    text = json.dumps({"jsonrpc": "2.0", "method": "m", "params": {"x": "y" * (100 << 20)}}).encode()
    with connect.StdioConnection(ECHO) as connection:
        connection.send(text)
        assert connection.receive(WAIT) == text


@pytest.mark.slow
def test_a_server_that_reads_nothing_holds_up_neither_us_nor_the_end() -> None:
    with connect.StdioConnection(python("import sys, time; print('{}', flush=True); time.sleep(600)")) as connection:
        connection.send(b"x" * (10 << 20))
        assert connection.receive(WAIT) == b"{}"
    assert connection.code == 128 + 15


@pytest.mark.slow
def test_a_server_whose_output_is_not_read_can_be_left() -> None:
    with connect.StdioConnection(python("while True: print('{}' * 1000, flush=True)")) as connection:
        assert connection.receive(WAIT)
    assert connection.code is not None


@pytest.mark.slow
def test_a_grandchild_that_keeps_the_pipe_open_is_not_waited_for() -> None:
    source = (
        "import subprocess, sys\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(20)'], stdin=subprocess.DEVNULL)\n"
        "print(child.pid, flush=True)\n"
    )
    with connect.StdioConnection(python(source)) as connection:
        pid = int(connection.receive(WAIT) or b"")
        assert connection.receive(WAIT) is None
        ended = connection.ended
    assert ended is not None and ended.code == 0
    assert alive(pid)


@pytest.mark.slow
def test_messages_written_over_several_lines_become_one() -> None:
    with connect.StdioConnection(ECHO) as connection:
        connection.send(b'{\n  "a": 1\r\n}\r\n')
        assert connection.receive(WAIT) == b'{   "a": 1  }'


def test_output_before_the_end_is_received_before_it() -> None:
    with connect.StdioConnection(moody("exit")) as connection:
        assert connection.receive(WAIT) is None
        assert connection.ended == connect.ServerEnd(1, ("no configuration",))

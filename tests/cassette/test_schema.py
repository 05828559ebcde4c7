"""The views of the schema work on every kind of frame."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from tests.support.running import MCP_TAPE, python, record, run

# Every kind of frame: malformed, BLOB, batch, deep, and strings that no client could fetch.
ODD_CLIENT = [
    b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"plain","arguments":{"n":1e2}}}',
    b'{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"bytes","arguments":{"s":"\xff"}}}',
    b'[{"jsonrpc":"2.0","method":"n/batched","params":{"x":1}},'
    b'{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"batched","arguments":{"b":3}}}]',
    b'{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"surrogate","arguments":"\\ud800"}}',
    b'{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"surrogates","arguments":{"s":"\\ud800"}}}',
    b'{"jsonrpc":"2.0","id":6,"method":"tools/call","params":{"name":"deep","arguments":{"d":'
    + b"[" * 3000
    + b"]" * 3000
    + b"}}}",
    b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"\\ud800"}}',
    b'{"jsonrpc":"2.0","id":8,"method":"tools/call"}',
    b'{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"open"}}',
    b'[{"jsonrpc":"2.0","method":"n/blob","params":{"s":"\xfe"}}]',
    b'{"jsonrpc":"2.0","method":"n/scalar","params":"\\ud800"}',
    b'{"jsonrpc":"2.0","method":"n/none"}',
    b'{"jsonrpc":"2.0","id":',
    b"\x00\xff noise",
]
ODD_SERVER = [
    b'{"jsonrpc":"2.0","id":1,"result":{"content":[],"big":123456789012345678901234567890}}',
    b'{"jsonrpc":"2.0","id":2,"result":{"content":"\xff"}}',
    b'[{"jsonrpc":"2.0","method":"n/server","params":{"y":2}},{"jsonrpc":"2.0","id":3,"result":{"batched":true}}]',
    b'{"jsonrpc":"2.0","id":4,"result":"\\ud800"}',
    b'{"jsonrpc":"2.0","id":5,"error":{"code":-1,"message":"\\ud800"}}',
    b'{"jsonrpc":"2.0","id":6,"result":{"isError":true}}',
    b'{"jsonrpc":"2.0","id":7,"error":"\\ud800"}',
    b'{"jsonrpc":"2.0","id":8,"result":null}',
    b"not json",
]
AFTERWARDS = """
import sys
sys.stdin.buffer.read()
sys.stderr.buffer.write(b"plain\\n\\xff bytes\\n")
sys.stdout.buffer.write(open(sys.argv[1], "rb").read())
"""


def rows(tape: Path, sql: str) -> list[tuple[Any, ...]]:
    with contextlib.closing(sqlite3.connect(tape)) as db:
        return db.execute(sql).fetchall()


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("odd")
    (place / "answers").write_bytes(b"".join(line + b"\n" for line in ODD_SERVER))
    server = [*python(AFTERWARDS), str(place / "answers")]
    done = run(record(place / "odd.db", server, "--no-redact"), b"".join(line + b"\n" for line in ODD_CLIENT))
    assert done.returncode == 0 and b"INCOMPLETE" not in done.stderr, done.stderr
    return place / "odd.db"


@pytest.mark.slow
def test_the_view_of_exchanges_pairs_every_request(odd: Path) -> None:
    found = rows(odd, "SELECT rpc_id, name, status, microseconds >= 0 FROM exchanges ORDER BY rpc_id")
    assert found == [
        ("1", "plain", "ok", 1),
        ("2", "bytes", "ok", 1),
        ("3", "batched", "ok", 1),
        ("4", "surrogate", "ok", 1),
        ("5", "surrogates", "error", 1),
        ("6", "deep", "tool-error", 1),
        ("7", "?", "error", 1),
        ("8", None, "ok", 1),
        ("9", "open", None, None),
    ]
    ((request, response),) = rows(odd, "SELECT request, response FROM exchanges WHERE rpc_id = '1'")
    assert (request.encode(), response.encode()) == (ODD_CLIENT[0], ODD_SERVER[0])
    # Bytes that are not UTF-8 have their own column.
    ((seq, answer_seq, request, response),) = rows(
        odd, "SELECT seq, answer_seq, request, response FROM exchanges WHERE rpc_id = '2'"
    )
    assert (request, response) == (None, None)
    sql = f"SELECT text, data FROM frames WHERE seq IN ({seq}, {answer_seq}) ORDER BY seq"
    assert rows(odd, sql) == [(None, ODD_CLIENT[1]), (None, ODD_SERVER[1])]


def test_the_view_of_tool_calls_takes_out_arguments_and_results(odd: Path) -> None:
    found = rows(odd, "SELECT tool, arguments, result, error FROM tool_calls ORDER BY seq")
    assert found == [
        ("plain", '{"n":1e2}', '{"content":[],"big":123456789012345678901234567890}', None),
        ("bytes", None, None, None),
        ("batched", '{"b":3}', '{"batched":true}', None),
        ("surrogate", None, None, None),
        ("surrogates", r'{"s":"\ud800"}', None, r'{"code":-1,"message":"\ud800"}'),
        ("deep", None, '{"isError":true}', None),
        ("?", None, None, None),
        (None, None, None, None),
        ("open", None, None, None),
    ]


def test_the_view_of_notifications_takes_out_params(odd: Path) -> None:
    assert rows(odd, "SELECT sender, method, params FROM notifications ORDER BY seq") == [
        ("client", "n/batched", '{"x":1}'),
        ("client", "n/blob", None),
        ("client", "n/scalar", None),
        ("client", "n/none", None),
        ("server", "n/server", '{"y":2}'),
    ]


def test_the_view_of_stderr_has_its_lines(odd: Path) -> None:
    assert rows(odd, "SELECT text, data FROM stderr ORDER BY seq") == [("plain", None), (None, b"\xff bytes")]


@pytest.mark.skipif(shutil.which("sqlite3") is None, reason="there is no sqlite3 shell")
@pytest.mark.parametrize("view", ["frames", "messages", "exchanges", "tool_calls", "notifications", "stderr"])
def test_the_sqlite3_shell_reads_every_view(odd: Path, view: str) -> None:
    done = run(["sqlite3", "-readonly", str(odd), f"SELECT * FROM {view}"])
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout


@pytest.mark.slow(quick=3)
@pytest.mark.parametrize("words", [["ls"], ["show"], ["show", "--json"], ["convert"]], ids=" ".join)
def test_every_reader_reads_every_kind_of_frame(odd: Path, words: list[str]) -> None:
    done = run([*MCP_TAPE, words[0], str(odd), *words[1:]])
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout

"""A whole bucket served by moto: pushed to by several processes at once, read, replayed and pulled."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import shlex
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from mcp_tape.cassette.reader import Cassette
from mcp_tape.fleet import cache, stores
from tests.support.bucket import Bucket
from tests.support.decks import make_cassette
from tests.support.disks import fill, mounted
from tests.support.golden import CASSETTES, path_of
from tests.support.messages import call
from tests.support.running import (
    MCP_TAPE,
    WAIT,
    in_background,
    python,
    receive,
    receive_line,
    record,
    run,
    send,
    started,
)
from tests.support.texts import tape

ASKED = b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}\n'


@pytest.fixture
def s3(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A bucket in moto."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        url = "http://{}:{}".format(*server.get_host_and_port())
        urllib.request.urlopen(urllib.request.Request(f"{url}/team", method="PUT"), timeout=WAIT).close()
        monkeypatch.setenv("AWS_ENDPOINT_URL", url)
        yield "s3://team/tapes"
    finally:
        server.stop()


@pytest.mark.slow
def test_a_bucket_of_a_team(s3: str, tmp_path: Path) -> None:
    """Two push the same cassettes at once; each is there once, can be read and replayed, and comes back unchanged."""
    with ExitStack() as stack:
        push = [*MCP_TAPE, "push", str(CASSETTES), s3, "--json"]
        both = [stack.enter_context(started(push)) for _ in range(2)]
        rows = [json.loads(line) for one in both for line in one.communicate(timeout=WAIT)[0].splitlines()]
        assert [one.returncode for one in both] == [0, 0]
    files = {row["file"] for row in rows}
    assert len(rows) == 2 * len(files) and {row["status"] for row in rows} <= {"pushed", "there"}
    urls = {row["url"] for row in rows}
    assert urls == {found.url for found in stores.list_objects(s3)}
    assert sum(row["status"] == "pushed" for row in rows) == len(urls)

    demo = next(row["url"] for row in rows if row["file"] == str(path_of("demo")))
    assert json.loads(run([*MCP_TAPE, "replay", demo], ASKED).stdout)["result"]["tools"]
    assert tape("diff", demo, path_of("demo")).stdout == tape("diff", path_of("demo"), path_of("demo")).stdout

    tape("pull", s3, tmp_path / "back")
    back = {path.name: path.read_bytes() for path in (tmp_path / "back").rglob("*") if path.is_file()}
    assert set(back) == {url.rpartition("/")[2] for url in urls}
    assert all(hashlib.sha256(data).hexdigest() == name.partition(".")[0] for name, data in back.items())


@pytest.mark.slow
def test_a_large_cassette_goes_there_in_parts_and_comes_back(s3: str, tmp_path: Path) -> None:
    text = json.dumps({"jsonrpc": "2.0", "method": "hello", "params": {"text": os.urandom(1 << 20).hex()}})
    make_cassette(tmp_path / "large.db", [("client", text)] * 10)
    assert (tmp_path / "large.db").stat().st_size > 20 << 20
    (row,) = map(json.loads, tape("push", tmp_path / "large.db", s3, "--json").stdout.splitlines())
    assert row["status"] == "pushed"
    again = json.loads(tape("push", tmp_path / "large.db", s3, "--json").stdout)
    assert again == row | {"status": "there"}
    assert Path(cache.local(row["url"])).read_bytes() == (tmp_path / "large.db").read_bytes()


PARTS = 30
# Answers with the arguments of the call.
SERVER = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": asked["params"]}), flush=True)
"""
# Pushes a cassette, and fails on every third run. argv: the file that counts runs, cassette, URL, mcp-tape
PUSH = """
import os, subprocess, sys
place, cassette, url, *mcp_tape = sys.argv[1:]
runs = len(os.listdir(place))
open(os.path.join(place, str(os.getpid())), "w").close()
sys.exit(runs % 3 == 2 or subprocess.run([*mcp_tape, "push", cassette, url]).returncode)
"""


@pytest.mark.slow
def test_a_hook_that_fails_and_a_disk_that_fills_up_lose_nothing(s3: str, tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    (tmp_path / "push.py").write_text(PUSH)
    place = f"{s3}/handed-on"  # moto keeps the objects of other tests
    hook = f"{sys.executable} {tmp_path / 'push.py'} {tmp_path / 'runs'} {{}} {place} {shlex.join(MCP_TAPE)}"
    options = ["--rotate", "60k", "--keep", "5", "--on-rotate", hook, "--hook-timeout", "600"]
    with mounted(tmp_path / "disk", "8m") as disk:
        with started(record(disk / "t.db", python(SERVER), *options)) as process:
            numbers = itertools.count(1)

            def talk(is_enough: Callable[[], object]) -> None:
                while not is_enough():
                    number = next(numbers)
                    send(process.stdin, call(number, text="x" * 3000).encode() + b"\n")
                    assert json.loads(receive_line(process.stdout))["id"] == number

            talk(lambda: (disk / f"t-{PARTS // 2}.db").exists())
            ballast = fill(disk)
            with in_background(lambda: talk(lambda: not ballast.exists())):
                while b"waiting for room" not in (line := receive_line(process.stderr)):
                    assert line, "it ended"
                ballast.unlink()
            talk(lambda: (disk / f"t-{PARTS}.db").exists())
            process.stdin.close()
            said = receive(process.stderr).decode()
            assert process.wait(10 * WAIT) == 0
        tape("pull", place, tmp_path / "there")
        waiting = {path.name.removesuffix(".waiting") for path in disk.glob("*.waiting")}
        left = {path.name for path in disk.glob("*.db")}
        kept = [call for place in (tmp_path / "there", disk) for path in place.rglob("*.db") for call in answered(path)]
    assert set(kept) == set(range(1, next(numbers))), "of all calls"
    assert waiting <= left and len(left - waiting) <= 5
    there = len([*(tmp_path / "there").rglob("*.db")])
    assert f"--on-rotate: {there} done, {len(waiting)} failed" in said and "INCOMPLETE" not in said, said


def answered(path: Path) -> list[int]:
    """The numbers of the answered calls in a cassette."""
    with Cassette(path) as cassette:
        rows = cassette.rows("SELECT rpc_id FROM messages WHERE kind = 'response'")
    return [int(number) for (number,) in rows]

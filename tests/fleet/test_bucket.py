"""A whole bucket, as moto serves S3: pushed by several at once, read, replayed and pulled."""

from __future__ import annotations

import hashlib
import json
import os
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from mcp_tape.fleet import cache, remote
from tests.support.bucket import Bucket
from tests.support.decks import make_cassette
from tests.support.golden import CASSETTES, path_of
from tests.support.running import MCP_TAPE, WAIT, run, started
from tests.support.texts import tape

ASKED = b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}\n'


@pytest.fixture
def s3(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A bucket of moto's."""
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
    """Two push the same at once; all of it is there once, can be read and replayed, and comes back as it was."""
    with ExitStack() as stack:
        push = [*MCP_TAPE, "push", str(CASSETTES), s3, "--json"]
        both = [stack.enter_context(started(push)) for _ in range(2)]
        rows = [json.loads(line) for one in both for line in one.communicate(timeout=WAIT)[0].splitlines()]
        assert [one.returncode for one in both] == [0, 0]
    files = {row["file"] for row in rows}
    assert len(rows) == 2 * len(files) and {row["status"] for row in rows} <= {"pushed", "there"}
    urls = {row["url"] for row in rows}
    assert urls == {found.url for found in remote.listed(s3)}
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

"""The end of a tape of several servers: clients that stay, and servers that were never used."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from mcp_tape.errors import CassetteError
from mcp_tape.testing import recorders
from mcp_tape.testing.failures import TapeUse
from tests.support.running import WAIT, receive_line, started
from tests.support.using import HELLO
from tests.testing.test_group import Place, ask


@pytest.mark.parametrize("mode", ["once", "rewrite"])
@pytest.mark.slow
def test_a_client_that_stays_is_reported_and_nothing_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    monkeypatch.setattr(recorders, "_ENDING", 0.1)
    place = Place(tmp_path)
    tape = place.use(mode, "git", "time")
    ask(tape["git"], "a")
    with started(tape["time"].command) as client:
        assert client.stdin and client.stdout
        client.stdin.write(HELLO)
        receive_line(client.stdout)
        with pytest.raises(CassetteError, match="a client of 'time' is still connected; let clients leave"):
            tape.finish(keep=True)
        if sys.platform == "linux":
            client.wait(WAIT)
    assert not place.tape.exists()


@pytest.mark.slow
def test_unplayed_requests_are_listed_with_their_server(tmp_path: Path) -> None:
    place = Place(tmp_path)
    with place.use("once", "git", "time") as tape:
        ask(tape["git"], "a")
        ask(tape["time"], "b")
    with place.use("none", "git", "time") as tape:
        ask(tape["git"], "a")
        assert [what for _, _, what in TapeUse(tape, "error", is_shared=False).unmade_calls()] == [
            "time: initialize",
            "time: tools/call b",
        ]

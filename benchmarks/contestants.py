"""Who takes part: no one in the middle, a relay that records nothing, mcp-tape, and its peers."""

from __future__ import annotations

import os
import shlex
import shutil
import sqlite3
import sys
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

_PROGRAMS = str(Path(__file__).with_name("programs.py"))
SERVER = [sys.executable, _PROGRAMS, "server"]
ORJSON_SERVER = [sys.executable, _PROGRAMS, "orjson"]
# What neither recorder nor player can do without: JSON and a database.
YARDSTICK = 'python -c "import sqlite3, json"'
YARDSTICK_COMMAND = [sys.executable, "-c", "import sqlite3, json"]

DIRECT, RELAY, TAPE, RIVAL = "direct", "plain relay", "mcp-tape", "mcp-rec"


@dataclass(frozen=True, slots=True)
class Contestant:
    """How to start it with the file it writes and a server, and how to count the messages in that file.

    `stored` counts them when it has ended.
    """

    name: str
    command: Callable[[str, Sequence[str]], list[str]]
    stored: Callable[[Path], int] | None = None


def contestants(peers: bool) -> tuple[list[Contestant], list[str]]:
    """Those that are here, and the names of the peers that are not installed."""
    present = [
        Contestant(DIRECT, lambda _, server: [*server]),
        Contestant(RELAY, lambda _, server: [sys.executable, _PROGRAMS, "relay", *server]),
        _mcp_tape(program(TAPE) or TAPE),
    ]
    absent = []
    for name, make in _PEERS.items() if peers else ():
        found = program(name)
        if found:
            present.append(make(found))
        else:
            absent.append(name)
    return present, absent


def _mcp_tape(program: str) -> Contestant:
    return Contestant(TAPE, lambda file, server: [program, "record", "-q", "-o", file, "--", *server], _messages)


def _mcp_rec(program: str) -> Contestant:
    return _of_lines(RIVAL, lambda file, server: [program, "record", "-o", file, "--", *server], b"{")


def _mcp_snoop(program: str) -> Contestant:
    # Without --verbose it keeps a summary of each message instead of the message.
    options = "--no-color", "--verbose", "--output"
    return _of_lines("mcp-snoop", lambda file, server: [program, *options, file, "--", *server], b"[")


def _mcpdump(program: str) -> Contestant:
    return _of_lines(
        "mcpdump", lambda file, server: [program, "watch", "--record", file, shlex.join(server)], b'{"seq"'
    )


def _of_lines(name: str, command: Callable[[str, Sequence[str]], list[str]], start: bytes) -> Contestant:
    """One that writes a line for each message, which starts so."""
    return Contestant(name, command, partial(_lines, start=start))


_PEERS = {RIVAL: _mcp_rec, "mcp-snoop": _mcp_snoop, "mcpdump": _mcpdump}


def program(name: str) -> str | None:
    """Beside this Python first, as in an environment that is not activated."""
    here = os.path.dirname(sys.executable)
    return shutil.which(name, path=here) or shutil.which(name)


def _messages(path: Path) -> int:
    with suppress(sqlite3.Error), closing(sqlite3.connect(path)) as db:
        return int(db.execute("SELECT count(*) FROM messages").fetchone()[0])
    return 0  # it could not record at all


def _lines(path: Path, start: bytes) -> int:
    with path.open("rb") as file:
        return sum(line.startswith(start) for line in file)

"""Who takes part: no one in the middle, a relay that records nothing, mcp-tape, and its peers."""

from __future__ import annotations

import os
import shlex
import shutil
import sqlite3
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

_PROGRAMS = str(Path(__file__).with_name("programs.py"))
SERVER = [sys.executable, _PROGRAMS, "server"]
ORJSON_SERVER = [sys.executable, _PROGRAMS, "orjson"]
# What the recorder's own command cannot do without: its command line, its JSON and its database.
YARDSTICK = [sys.executable, "-c", "import click, orjson, sqlite3"]

DIRECT, RELAY, TAPE, RIVAL = "direct", "plain relay", "mcp-tape", "mcp-rec"


@dataclass(frozen=True, slots=True)
class Contestant:
    """How to start it with the file it writes, and how to count the messages in that file."""

    name: str
    command: Callable[[str], list[str]]
    stored: Callable[[Path], int] | None = None


def contestants(peers: bool) -> tuple[list[Contestant], list[str]]:
    """Those that are here, and the names of the peers that are not installed."""
    tape = program(TAPE) or TAPE
    present = [
        Contestant(DIRECT, lambda _: SERVER),
        Contestant(RELAY, lambda _: [sys.executable, _PROGRAMS, "relay", *SERVER]),
        Contestant(TAPE, lambda file: [tape, "record", "-q", "-o", file, "--", *SERVER], _rows),
    ]
    absent = []
    for name, make in _PEERS.items() if peers else ():
        found = program(name)
        if found:
            present.append(make(found))
        else:
            absent.append(name)
    return present, absent


def _mcp_rec(program: str) -> Contestant:
    return Contestant(
        RIVAL,
        lambda file: [program, "record", "-o", file, "--", *SERVER],
        lambda path: _lines(path, b"{"),
    )


def _mcp_snoop(program: str) -> Contestant:
    # Without --verbose it keeps a summary of each message instead of the message.
    return Contestant(
        "mcp-snoop",
        lambda file: [program, "--no-color", "--verbose", "--output", file, "--", *SERVER],
        lambda path: _lines(path, b"["),
    )


def _mcpdump(program: str) -> Contestant:
    return Contestant(
        "mcpdump",
        lambda file: [program, "watch", "--record", file, shlex.join(SERVER)],
        lambda path: _lines(path, b'{"seq"'),
    )


_PEERS = {RIVAL: _mcp_rec, "mcp-snoop": _mcp_snoop, "mcpdump": _mcpdump}


def program(name: str) -> str | None:
    """Beside this Python first, as in an environment that is not activated."""
    here = os.path.dirname(sys.executable)
    return shutil.which(name, path=here) or shutil.which(name)


def _rows(path: Path) -> int:
    db = sqlite3.connect(path)
    try:
        return int(db.execute("SELECT count(*) FROM messages").fetchone()[0])
    except sqlite3.Error:
        return 0  # it could not record at all
    finally:
        db.close()


def _lines(path: Path, start: bytes) -> int:
    with path.open("rb") as file:
        return sum(line.startswith(start) for line in file)

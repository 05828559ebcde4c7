"""Who takes part over HTTP: as a proxy that records, and as a server that answers from a recording."""

from __future__ import annotations

import json
import sqlite3
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

from contestants import DIRECT, TAPE, program
from http_calls import Case

PLAIN, SDK, BARE, RECORDER = "plain proxy", "mcp SDK", "bare app", "mcp-recorder"
_PROGRAMS = [sys.executable, str(Path(__file__).with_name("http_programs.py"))]


@dataclass(frozen=True, slots=True)
class Proxy:
    """How to start it between a URL and a client, and how to count the answers in the file that it writes."""

    name: str
    command: Callable[[str, str], list[str]]  # of the server's URL and the file
    stored: Callable[[Path], int] | None = None


@dataclass(frozen=True, slots=True)
class Player:
    """How to play a file; who records none is a server that needs none."""

    name: str
    command: Callable[[str, Case], list[str]]  # of the file
    recorder: Proxy | None = None


def upstream(path: str) -> list[str]:
    """The command of the server that all proxies stand in front of."""
    return [*_PROGRAMS, "upstream", path]


def sdk_server(case: Case) -> list[str]:
    return [*_PROGRAMS, "sdk", _answers(case)]


def _answers(case: Case) -> str:
    return "json" if case.as_json else "stream"


def proxies(peers: bool) -> tuple[list[Proxy], list[str]]:
    """Those that are here, and the names of the peers that are not installed. Direct has no command."""
    tape = program(TAPE) or TAPE
    present = [
        Proxy(DIRECT, lambda _, __: []),
        Proxy(PLAIN, lambda url, _: [*_PROGRAMS, "proxy", url]),
        Proxy(TAPE, lambda url, file: [tape, "record", "-q", "--url", url, "-o", file], _answers_in_cassette),
    ]
    if not peers:
        return present, []
    if not find_spec("mcp_recorder"):
        return present, [RECORDER]
    return [*present, Proxy(RECORDER, _recorder, _answers_in_json)], []


def players(present: list[Proxy]) -> list[Player]:
    """The SDK's server, the least there can be, and all of those that record and can play what they recorded."""
    tape = program(TAPE) or TAPE
    ways: dict[str, Callable[[str, Case], list[str]]] = {
        TAPE: lambda file, _: [tape, "replay", "-q", "--listen", "127.0.0.1:0", file],
        RECORDER: lambda file, _: [*_PROGRAMS, RECORDER, "/mcp", "replay", "--cassette", file],
    }
    recorders = [proxy for proxy in present if proxy.name in ways]
    live = Player(SDK, lambda _, case: sdk_server(case))
    least = Player(BARE, lambda _, case: [*_PROGRAMS, "bare", _answers(case)])
    return [live, least, *(Player(proxy.name, ways[proxy.name], proxy) for proxy in recorders)]


def _recorder(url: str, file: str) -> list[str]:
    place = urlsplit(url)
    target = f"{place.scheme}://{place.netloc}"
    return [*_PROGRAMS, RECORDER, place.path, "record", "--target", target, "--output", file]


def _answers_in_cassette(path: Path) -> int:
    db = sqlite3.connect(path)
    try:
        query = "SELECT count(*) FROM messages WHERE sender = 'server' AND kind = 'response'"
        return int(db.execute(query).fetchone()[0])
    except sqlite3.Error:
        return 0  # it could not record at all
    finally:
        db.close()


def _answers_in_json(path: Path) -> int:
    kept = json.loads(path.read_text())["interactions"] if path.exists() else []
    return sum("result" in (exchange.get("response") or {}) for exchange in kept)

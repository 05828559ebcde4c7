"""Recordings in the formats of tools that cannot be installed, written from their documentation:

    python -m tests.support.by_hand

The messages are those that mcp-rec recorded from `tests.servers.odd`. No tool has written these files.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from typing import Any, NamedTuple

from tests.support.peers import RECORDINGS

PLACE = RECORDINGS / "by-hand"
Body = dict[str, Any]
START = datetime(2026, 11, 18, 7, 0, tzinfo=timezone.utc).timestamp()


class Heard(NamedTuple):
    ms: float
    client: bool
    message: Body

    @property
    def iso(self) -> str:
        moment = datetime.fromtimestamp(START + self.ms / 1000, timezone.utc)
        return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")

    @property
    def text(self) -> str:
        return json.dumps(self.message, ensure_ascii=False, separators=(",", ":"))


def heard() -> list[Heard]:
    rows = [json.loads(line) for line in (RECORDINGS / "mcp-rec" / "odd.jsonl").read_text("utf-8").splitlines()]
    first = rows[0]["ts"]
    return [Heard(round((row["ts"] - first) * 1000), row["dir"].startswith("client"), row["msg"]) for row in rows]


def lines(*rows: Any) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def mcpsnoop(all_of_it: list[Heard]) -> str:
    """Frames of two servers in one file, including stderr."""
    rows = []
    for number, one in enumerate(all_of_it, 1):
        about = {"session_id": "s-1", "server_label": "odd", "seq": number, "ts": one.iso, "transport": "stdio"}
        rows.append(about | {"direction": "c2s" if one.client else "s2c", "raw": one.message})
    last = rows[-1]
    rows.append(last | {"seq": last["seq"] + 1, "direction": "stderr", "text": "odd: it failed\n"})
    del rows[-1]["raw"]
    other = {"session_id": "s-2", "server_label": "other", "seq": 1, "transport": "stdio", "direction": "c2s"}
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    rows.insert(0, other | {"ts": all_of_it[0].iso, "raw": ping})
    return lines(*rows)


def npm_mcp_tape(all_of_it: list[Heard]) -> str:
    meta = {"v": 1, "type": "meta", "startedAt": all_of_it[0].iso, "label": "odd one", "mcpTapVersion": "0.1.0"}
    end = {"t": all_of_it[-1].iso, "type": "end", "exitCode": 0, "durationMs": 250}
    said = [{"t": one.iso, "dir": "in" if one.client else "out", "raw": one.message} for one in all_of_it]
    return lines(meta | {"command": ["python", "-m", "tests.servers.odd"]}, *said, end)


def npm_mcp_cassette(all_of_it: list[Heard]) -> str:
    """Its progress stream is one line, before the answer that it belongs to."""
    header = {
        "type": "header", "cassetteVersion": 2, "recorder": "mcp-cassette/0.3.0", "startedAt": all_of_it[0].iso,
        "transport": "stdio", "command": ["python", "-m", "tests.servers.odd"], "era": "legacy", "sessioned": True,
        "redaction": {"applied": [], "configHash": ""}, "volatile": [],
    }  # fmt: skip
    rows: list[Body] = []
    chunks: list[Body] = []
    for one in all_of_it:
        if one.message.get("method") == "notifications/progress":
            chunks.append({"t": one.ms, "frame": one.message})
            continue
        row = {
            "type": "frame",
            "t": one.ms,
            "dir": "c2s" if one.client else "s2c",
            "frame": one.message,
            "origin": "live",
        }
        rows.append(row)
    first = chunks[0]["t"]
    rows.insert(2, {"type": "chunks", "t": first, "dir": "s2c", "id": 7, "chunks": chunks})
    return lines(header, *rows)


def desktop(all_of_it: list[Heard]) -> str:
    def written() -> Iterator[str]:
        yield f"{all_of_it[0].iso} [odd] [info] Initializing server... {{ metadata: undefined }}"
        for one in all_of_it:
            who = "client" if one.client else "server"
            yield f"{one.iso} [odd] [info] Message from {who}: {one.text} {{ metadata: undefined }}"
        yield f"{all_of_it[-1].iso} [odd] [info] Server transport closed {{ metadata: undefined }}"

    return "\n".join(written()) + "\n"


def code(all_of_it: list[Heard]) -> str:
    def written() -> Iterator[str]:
        yield f"{_local(all_of_it[0])} [info] Starting server odd"
        for one in all_of_it:
            yield f"{_local(one)} [info] [{'Client' if one.client else 'Server'} Says] {one.text}"

    return "\n".join(written()) + "\n"


def _local(one: Heard) -> str:
    return one.iso.replace("T", " ").removesuffix("Z")


FORMS: dict[str, Callable[[list[Heard]], str]] = {
    "mcpsnoop.jsonl": mcpsnoop,
    "npm-mcp-tape.jsonl": npm_mcp_tape,
    "npm-mcp-cassette.jsonl": npm_mcp_cassette,
    "claude-desktop.log": desktop,
    "vs-code.log": code,
}

if __name__ == "__main__":
    PLACE.mkdir(exist_ok=True)
    for name, form in FORMS.items():
        (PLACE / name).write_text(form(heard()), "utf-8")

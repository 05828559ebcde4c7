"""The golden cassettes, and their origins."""

from __future__ import annotations

from pathlib import Path

CASSETTES = Path(__file__).resolve().parents[2] / "cassettes"
GOLDEN = list(CASSETTES.glob("*.db"))
TEXTS = list((CASSETTES / "text").glob("*.jsonl"))  # the same
# By cassette: its command, and the revision of each session.
EVERYTHING = ["mcp-server-everything"]
TIME = ["mcp-server-time", "--local-timezone", "UTC"]
MADE_OF = {
    "batch": (["python", "-m", "tests.servers.scripted", "server", "batch"], ["2025-03-26"]),
    "cancelled": (["python", "-m", "tests.servers.scripted", "server", "cancelled"], ["2025-06-18"]),
    "demo": (["python", "-m", "mcp_tape.demo.server"], ["2025-11-25"]),
    "everything": (EVERYTHING, ["2025-11-25"]),
    "everything-ts2": (EVERYTHING, ["2026-07-28", "2025-11-25"]),
    "git": (["mcp-server-git", "--repository", "repo"], ["2025-11-25"]),
    "modern": (["python", "-m", "tests.servers.scripted", "server", "modern"], ["2026-07-28"]),
    "noisy": (["python", "-m", "tests.servers.scripted", "server", "noisy"], ["2025-06-18"]),
    "time": (TIME, ["2025-11-25"]),
    "time-modern": (TIME, ["2026-07-28"]),
}


def path_of(name: str) -> Path:
    return CASSETTES / f"{name}.db"

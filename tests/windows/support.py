"""What the tests under wine share."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

CASSETTES = Path(__file__).parent.parent.parent / "cassettes"
PATIENCE = 300.0  # seconds for a process, on a busy machine too
ROUNDS = int(os.environ.get("MCP_TAPE_WINDOWS_ROUNDS") or 2)  # of random tests; many by hand


def mcp_tape(*words: object) -> list[str]:
    return [sys.executable, "-m", "mcp_tape", *map(str, words)]


def python(code: str, *words: object) -> list[str]:
    return [sys.executable, "-c", code, *map(str, words)]


def run(words: list[str], data: bytes = b"", **options: object) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(words, input=data, capture_output=True, timeout=PATIENCE, **options)  # type: ignore[call-overload, no-any-return]


def start(words: list[str], **options: object) -> subprocess.Popen[bytes]:
    pipe = subprocess.PIPE
    return subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=pipe, **options)  # type: ignore[call-overload, no-any-return]

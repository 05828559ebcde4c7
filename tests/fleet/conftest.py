"""A bucket, with this process configured to use it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from mcp_tape.fleet import cache
from tests.support.bucket import Bucket, served


@pytest.fixture
def bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    """A bucket on loopback, an empty cache, and an environment without other credentials."""
    for name in [*os.environ]:
        if name.startswith(("AWS_", "GOOGLE_", "AZURE_", "MCP_TAPE_OFFLINE", "MCP_TAPE_CACHE")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("MCP_TAPE_CACHE", str(tmp_path / "cache"))
    cache.forget()
    with served() as bucket:
        for name, value in bucket.environ().items():
            monkeypatch.setenv(name, value)
        yield bucket
    cache.forget()

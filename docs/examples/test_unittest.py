"""unittest, without a plugin: `python -m unittest test_unittest.py`.

Replays, unless TAPE_MODE names another mode: with TAPE_MODE=rewrite the cassettes are recorded anew.
"""

from __future__ import annotations

import os
import unittest
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mcp import Client
from mcp_tape import UsedCassette, use_cassette

SERVER = ["mcp-server-time", "--local-timezone", "UTC"]
CASSETTES = Path(__file__).parent / "cassettes" / "unittest"
MODE = os.environ.get("TAPE_MODE", "none")


class TimeTest(unittest.IsolatedAsyncioTestCase):
    @contextmanager
    def tape(self) -> Iterator[UsedCassette]:
        """The cassette of this test. A call that is not on it fails the test, even if the client has swallowed that."""
        with use_cassette(CASSETTES / f"{self._testMethodName}.db", MODE, command=SERVER) as tape:
            try:
                yield tape
            finally:
                if tape.misses:
                    self.fail("\n".join(miss.report for miss in tape.misses))

    async def test_tokyo(self) -> None:
        with self.tape() as tape:
            async with Client(tape.streams()) as client:
                result = await client.call_tool("get_current_time", {"timezone": "Asia/Tokyo"})
            self.assertIn("+09:00", result.content[0].text)
            self.assertEqual(len(tape.calls("tools/call")), 1)

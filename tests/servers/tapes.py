"""The server object of `mcp-tape mcp`, over Streamable HTTP for the conformance suite.

python -m tests.servers.tapes PLACE...

It prints its URL once it listens.
"""

from __future__ import annotations

import asyncio
import sys

from mcp_tape.agent.places import ReadableCassettes
from mcp_tape.agent.sdk_server import build

from .conformance import serve

if __name__ == "__main__":
    asyncio.run(serve(build(ReadableCassettes(sys.argv[1:])).streamable_http_app()))

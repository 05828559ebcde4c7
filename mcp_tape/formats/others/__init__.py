"""Readers of other tools' recordings: each is a generator of the stream of `foreign`. They hide nothing.

cassettes       the two tools named mcp-cassette
directed_lines  mcp-rec, npm's mcp-tape, mcpsnoop
documents       mcp-recorder, mcp-flight-recorder, agent-vcr
hidden          values that other recorders hid by mistake
http            HTTP requests and responses, for several readers
http_archives   HTTP archives of browsers and proxies
inspector       the MCP Inspector
logs            Claude Desktop, VS Code
time_travel     mcp-time-travel
vcr             mcp-vcr
"""

from .. import stubs
from ..foreign import Readers
from . import cassettes, directed_lines, documents, http_archives, inspector, logs, time_travel, vcr

_MODULES = (http_archives, cassettes, directed_lines, documents, vcr, time_travel, inspector, logs)
READERS = Readers(stubs.READER, *(reader for module in _MODULES for reader in module.READERS))

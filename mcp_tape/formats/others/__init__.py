"""Recordings of other tools, each read by a generator of the stream of `foreign`, and stubs. Knows no cassette, and
hides nothing.

hidden, http
             shared by several importers
cassettes    the two tools named mcp-cassette
documents    mcp-recorder, mcp-flight-recorder, agent-vcr
har          HTTP archives of browsers and proxies
inspector    the MCP Inspector
lines        mcp-rec, npm's mcp-tape, mcpsnoop
logs         Claude Desktop, VS Code
time_travel  mcp-time-travel
vcr          mcp-vcr
"""

from .. import stubs
from ..foreign import Readers
from . import cassettes, directed_lines, documents, http_archives, inspector, logs, time_travel, vcr

_MODULES = (http_archives, cassettes, directed_lines, documents, vcr, time_travel, inspector, logs)
READERS = Readers(stubs.READER, *(reader for module in _MODULES for reader in module.READERS))

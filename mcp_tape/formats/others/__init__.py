"""Recordings of other tools, each read by a generator of one neutral stream. Knows no cassette, and hides nothing.

stream       the items of a stream, and the file that importers read
times, hidden, http
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

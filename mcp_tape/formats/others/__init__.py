"""Recordings of other tools, each read by a generator of one neutral stream. Knows no cassette, and hides nothing.

stream       what a stream is made of, and what importers read
hidden, http what several of them need
cassettes    the two called mcp-cassette
documents    mcp-recorder, mcp-flight-recorder, agent-vcr
har          HTTP archives of browsers and proxies
inspector    the MCP Inspector
lines        mcp-rec, and npm's mcp-tape
logs         Claude Desktop, VS Code
snoop        mcpsnoop
time_travel  mcp-time-travel
vcr          mcp-vcr
"""

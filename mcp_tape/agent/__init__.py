"""Recordings for agents: an MCP server with tools and resources on cassettes.

Owns the tools' descriptions, and limits what a model may read, and how much at once. Read-only: it runs nothing that a
cassette names, and opens only cassettes at or below the user's paths. Must not know terminals or click. Only
`sdk_server` knows the SDK, which is an extra.

    places      the cassettes that may be read
    paging      answers of bounded size, with a cursor to the rest
    tool_table  the table of tools, with their arguments and results as JSON Schema
    reading     tools that read: list_cassettes, list_sessions, show_session, show_exchange, search, stats and why
    asking      tools that compute: diff and query
    resources   sessions as resources
    sdk_server  tools and resources as a server of the SDK, over stdio
"""

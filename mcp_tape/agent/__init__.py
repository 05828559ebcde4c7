"""Recordings that agents read: an MCP server with tools and resources on cassettes.

Owns what a model may see of a cassette, in which words, and how much at once. Reads only, runs nothing that a cassette
names, and opens no file but cassettes at or below the places that its user has given. Must not know terminals or
click. Only `server` knows the SDK, which is an extra.

    places      the cassettes that may be read
    answers     bounded answers, and the cursor to what follows
    schemas     what tools take and give, as JSON Schema
    tools       the table of tools
    listing     tools that list: cassettes and sessions
    reading     tools that read one cassette: show_session, show_exchange, search and stats
    asking      tools that work it out: diff and query
    resources   sessions as resources
    server      all of it as a server of the SDK, over stdio
"""

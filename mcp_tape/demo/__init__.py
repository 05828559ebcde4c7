"""A demonstration: a small server and a small client, to have something to record anywhere.

Stands alone: knows nothing of the other rooms, and spells out MCP for itself.

    server  an MCP server in a few lines, in two versions: `python -m mcp_tape.demo.server [next]`
    client  an MCP client in a few lines
"""

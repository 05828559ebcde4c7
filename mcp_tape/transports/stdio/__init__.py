"""stdio: newline-delimited messages on pipes.

https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#stdio

    relay      between a client and a server: passes bytes on unchanged, and records them first
    serve      a player as the server on our own stdin and stdout
    connect    the client of a server that it starts; helpers for all clients
    live       a live server beside a replay
    url_relay  a recorded stdio server that forwards to a server at a URL
    bridge     a program that joins its stdin and stdout to a Unix socket
"""

"""stdio: newline-delimited messages on pipes.

https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#stdio

    relay      between a client and a server, every byte untouched, each recorded before it is passed on
    serve      a player as the server on our own stdin and stdout
    connect    the client of a server that is started; also what all clients share
    live       a live server beside a replay
    url_relay  a server on our own stdin and stdout that speaks to one at a URL, recorded
    bridge     a program that joins its stdin and stdout to a Unix socket
"""

"""HTTP: Streamable HTTP of both eras, and the older HTTP+SSE.

https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#streamable-http

    relay       between a client and a server: a recording proxy
    serve       the server of a replay: routes, sessions
    streams     one client's deck, and which of its open streams gets which message
    response    one response of a replay, as JSON or events
    connect     the client of a server at a URL
    live        a live server beside a replay, asked through the recording proxy
    upstream    the server at the other end: requests to it, responses from it
    listen      a listening socket and uvicorn; all that knows uvicorn and h11
    shortcut    usual requests parsed, and whole responses framed, without h11
    guard       who may talk to us; what is said when we fail
    asgi        ASGI's words
    addresses   hosts and ports
"""

"""HTTP: Streamable HTTP of both eras, and the older HTTP+SSE.

https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#streamable-http

    relay          between a client and a server: a recording proxy
    login          translates the URLs of a login between the proxy's clients and its servers
    serve          the server of a replay: routes, sessions
    authorization  the authorization server of a replay that needs a login
    streams        one client's deck, and which of its open streams gets which message
    response       one response of a replay, as JSON or events
    connect        the client of a server at a URL
    live           a live server beside a replay, reached through the recording proxy
    upstream       the server at the other end: requests to it, responses from it
    listen         sockets, connections and requests, for the replay, the proxy and the viewer
    parse          heads and chunked bodies of requests; the only user of httptools
    message        headers, and the heads of responses
    guard          refuses requests from foreign pages; reports our own failures
    addresses      hosts and ports
"""

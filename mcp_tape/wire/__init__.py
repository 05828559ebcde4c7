"""MCP, JSON-RPC and JSON as values, from bytes to matched messages.

Owns what crosses the wire and its meaning. Must not know files, SQL, sockets, clocks or randomness.

    protocol      every word of MCP: methods, revisions, headers, list kinds, what identifies a call
    channels      names of transports and channels
    apps          the words of MCP Apps
    jsontext      verbatim JSON: parse, find, splice, compare
    smalljson     small, plain JSON texts, before orjson is loaded
    jsonpath      a small JSONPath
    framing       bytes to lines, bodies and events
    compression   compressed HTTP bodies
    frames        Frame, Message, Entry, Exchange; messages classified by shape
    ledger        answers, exchanges and cues, from the order of messages
    match         match keys, and differences between two requests
    rewrite       live ids and tokens spliced into recorded text
    times         times as text, to values
    secret_names  names and values that look secret, and the placeholder for one
"""

"""Sessions in other forms, for people and for other tools; one of them can be read back.

Knows how a session is laid out. Must not know SQL or commands: what is written is handed out or goes to a stream, and
what is read goes to a builder of `cassette`.

    others/    recordings of other tools: an importer each, of one neutral stream
    sheet      a session as text for an editor, and back onto its cassette
    dump       text that stays the same when nothing of meaning changed, for git diff
    markdown   a report for people
    raw        the bytes of one side
    calls      requests with their answers and times, which the next are made of
    otlp       spans of OpenTelemetry; protobuf encodes them for a collector
    har        an HTTP archive
    perfetto   a time line for the trace viewer
    generated  tests for pytest and vitest
    lines      a row of a session in words, for show, search and agents
    pretty     JSON laid out, and text made harmless for a terminal
"""

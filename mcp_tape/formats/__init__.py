"""Sessions in other forms, for people and for other tools; one of them can be read back.

Knows how a session is laid out. Must not know SQL or commands: exporters return text or write it to a stream, and
importers feed a builder of `cassette`.

    foreign      recordings of other tools: the stream that their readers yield, and its way onto a cassette
    others/      those readers
    stubs        calls and answers written by hand, as a session
    sheet        a session as text for an editor, and back into its cassette
    dump         text that changes only when the meaning does, for git diff
    markdown     a report for people
    raw          the bytes of one side
    timed_calls  requests with their answers and times, on which the next three are built
    har          an HTTP archive
    perfetto     a timeline for the trace viewer
    generated    tests for pytest and vitest
    row_lines    a row of a session in words, for show, search and agents
    pretty       JSON laid out, and text made safe for a terminal
"""

"""Questions of people and commands about a cassette.

Reads only, a page at a time. Must not know terminals or formats.

    rows      a session as rows, one per message and event, and labels for frames
    exchanges requests with their answers, as plain values
    exchange  one exchange, and all that belongs to it
    sessions  cassettes below a directory, and facts of sessions
    filters   the filter grammar, as SQL over those rows
    search    words in all texts
    sql       queries of people in SQL
    stats     calls, errors, durations and bytes, by tool and method
    calls     requests and their answers, as compare and verify read them
    texts     messages and calls with their whole texts
    check     findings: damage, rows that do not fit, secrets
"""

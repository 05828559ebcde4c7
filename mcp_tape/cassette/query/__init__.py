"""Queries of people and commands about a cassette.

Read-only, a page at a time. Must not know terminals or formats.

    rows      a session as rows, one per message and event; one exchange with all that belongs to it
    exchanges requests with their answers, as plain values
    sessions  cassettes below a directory, and facts of sessions
    filters   the filter grammar, as SQL over those rows
    search    words in all texts
    sql       queries of people in SQL
    stats     calls, errors, durations and bytes, by tool and method
    calls     requests and their answers, for compare and verify
    texts     messages and calls with their whole texts
    parts     sessions that continue in another cassette
    check     findings: damage, inconsistent rows, secrets
"""

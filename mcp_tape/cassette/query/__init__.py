"""Queries of people and commands about a cassette.

Read-only, a page at a time. Must not know terminals or formats.

    timeline           a session as rows, one per message and event; one exchange with all that belongs to it
    exchanges          requests with their answers, as plain values
    inventory          cassettes below a directory, and facts of sessions
    filters            the filter grammar, as SQL over those rows
    word_search        words in all texts
    sql                queries of people in SQL
    totals             calls, errors, durations and bytes, by tool and method
    recorded_requests  requests and their answers, for compare and verify
    whole_texts        messages and calls with their whole texts
    parts              sessions that continue in another cassette
    integrity          findings: damage, inconsistent rows, secrets
"""

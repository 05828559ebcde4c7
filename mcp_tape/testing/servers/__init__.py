"""Several servers on one tape: a tape in use for each, one cassette, one report.

Owns the values of `servers={...}`, their form in clients' configurations, and the tape that combines the servers'
tapes. Must not know how one of them plays or records.

    entries   a server's description, and its replacement in a configuration
    group     the tape of several servers
"""

"""Several servers on one tape: a door for each, one cassette, one report.

Owns what stands in `servers={...}` and in clients' configurations, and the tape that is made of the tapes of the
servers. It must not know how one of them plays or records.

    entries   what is given for a server, and what stands for it in a configuration
    group     the tape of several servers
"""

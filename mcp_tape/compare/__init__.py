"""Comparing: the changes between two versions of a server, and which of them break its clients.

Owns the rules, the things they apply to, and the reports. A version comes from a cassette or from the answers of a live
server. Does no I/O except through an open cassette: `diff` opens files, asks git and starts servers.

A comparison runs through the files in this order:

    versions     two versions, and the entry: `compare`
    surface      a server's declarations: capabilities, tools, resources, prompts
    transcript   a client's calls with their answers
    renames      things with a new name
    align        pairs of calls from two recordings
    minted/      values that a server makes up anew each time, and that are not a change
    checks/      the differences, each under a rule
    schemas/     the differences of two JSON Schemas
    rule_table   the table of rules: level and category of each
    changes      a change: a difference with its subject, level and fingerprint
    lock         a server's surface as text, to commit and compare
    judging      the changes that count, and those that a project has accepted
    report/      a comparison as text, Markdown, HTML, JUnit or workflow commands
"""

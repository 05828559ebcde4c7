"""Comparing: the changes between two versions of a server, and which of them break its clients.

Owns the rules, what they are applied to, and the reports. A version is what a cassette holds, or what a live server
answers. Does no I/O but through an open cassette: `diff` opens files, asks git and starts servers.

A comparison runs through the files in this order:

    versions     two versions, and the entry: `compare`
    surface      what a server declares of itself: capabilities, tools, resources, prompts
    recording    what a client asked of it: the calls of a session with their answers
    renames      what has another name now
    align        which call of one recording is which of the other
    minted/      values that a server makes up anew each time, and that are no change
    checks/      the differences, each under a rule
    schemas/     the differences of two JSON Schemas
    rules        the table of rules: level and category of each
    changes      a change: a difference with its subject, level and fingerprint
    lock         what a server offers, as text to commit and compare
    judging      the changes that count, and those that a project has accepted
    report/      a comparison as text, Markdown, HTML, JUnit or workflow commands
"""

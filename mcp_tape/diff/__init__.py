"""Finds the versions to compare: files, git revisions, live servers; with the settings of a project.

Owns everything about a comparison that opens files, runs git or starts servers; `compare` does none of that. Must not
know commands.

    sources  the versions that a command line names: a file, a git revision, a lock
    surveys  asks live servers for their lists
    locking  the locks of live servers and of recordings
    base     pairs cassettes with those of a git revision
    project  the settings of a project, and its ignore file
    pending  decisions on the changes that `verify` has found
"""

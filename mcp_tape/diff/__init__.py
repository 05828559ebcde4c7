"""The diff of things that a command names: files, revisions of git, live servers; by the settings of a project.

Owns everything about a comparison that opens files, asks git or starts servers. `compare` is given versions and does
none of that. Must not know commands.

    sources  the versions that a command line names: a file, a revision of git, a lock
    surveys  live servers, which are asked what they offer
    locking  the locks of live servers and of recordings
    base     cassettes against those of a revision of git
    project  the settings of a project, and its ignore file
    pending  decisions on the changes that `verify` has found
"""

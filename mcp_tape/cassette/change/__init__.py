"""Changes to a cassette that is there.

Every file that is replaced is so by `cassette.replace`, every one that is changed by `connect`. Must not know commands,
nor formats other than the cassette's own.

    connect   connections to what is to be changed: a copy, or where it is in use, the file in its place
    edit      sessions replaced by others, or by what came back from an editor
    convert   a cassette in another form: SQLite or text
    same      whether two recordings say the same
    merge     the sessions of several cassettes on one
    remove    sessions removed
    derive    messages derived from frames again
    redact    secrets hidden after the fact
    secrets   where secrets stand, and their frames without them
"""

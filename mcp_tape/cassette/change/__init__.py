"""Changes to an existing cassette.

`cassette.replace` replaces every file, and `connect` opens every one to change. Must not know commands, nor formats
other than the cassette's own.

    connect   connections for changes: to a copy or, if the cassette is in use, to the file itself
    edit      sessions replaced by others, or by an edited version
    convert   a cassette in another form: SQLite or text
    same      whether two recordings have the same content
    merge     the sessions of several cassettes in one
    remove    sessions removed
    derive    messages derived from frames again
    redact    secrets hidden after recording
    secrets   places of secrets, and their frames without them
"""

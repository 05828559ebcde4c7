"""Changes to an existing cassette.

`cassette.replace` replaces every file, and `connect` opens every one to change. Must not know commands, nor formats
other than the cassette's own.

    write_access      connections for changes: to a copy or, if the cassette is in use, to the file itself
    replace_sessions  sessions replaced by others, or by an edited version
    reformat          a cassette in another form: SQLite or text
    same              whether two recordings have the same content
    merge_sessions    the sessions of several cassettes in one
    remove            sessions removed
    derive            messages derived from frames again
    hide_secrets      secrets hidden after recording
    secrets           places of secrets, and their frames without them
"""

"""The clients that people use: where they keep their servers, and how the tape is put in there and taken out again.

Owns the table of clients and every edit of their files: pieces of text put in and taken out, so that all other bytes
stay as they are and no note of what was there is needed. Must not know cassettes, servers or processes.

    table     the clients, their files, and the names that their entries have
    spans     values of a text with the places where they stand
    jsonc     JSON with comments and last commas: scanned, and parsed
    toml      TOML: scanned, and parsed
    yaml      YAML: servers are listed, edits are left to people
    entry     a server's entry as a value, wrapped and unwrapped
    remote    the same for an entry with a URL, and for its text
    splice    the text of an entry with a command, wrapped and unwrapped
    config    a file of a client: read, changed, checked and replaced
"""

"""The clients that people use: where they list their servers, and how a tape is put into an entry and taken out again.

Owns the table of clients and every edit of their files. An edit inserts or removes pieces of text, so that all other
bytes stay and the original needs no separate record. Must not know cassettes, servers or processes.

    discovery    the clients on this machine, and the servers that the user asks for
    table        the clients, their files, and the keys in their entries
    positions    values of a text, with their positions
    jsonc        JSON with comments and trailing commas: scanned, and parsed
    toml         TOML: scanned, and parsed
    yaml         YAML: servers are listed, edits are left to people
    entry        a server's entry as a value, wrapped and unwrapped
    url_entry    the same for an entry with a URL, and for its text
    config_file  a client's file: read, changed, checked and replaced; a few words inserted into an entry, or removed
"""

"""The SQLite file of a recording: read, written, looked up, queried, changed and replaced.

The only home of SQL and, in `replace`, of replacing files. Knows frames and messages, but not how they are recorded,
played, compared or shown.

    schema          tables, indices and views; recognizes a cassette by its first bytes, without SQLite
    journals        SQLite's files beside a cassette, checked before it is opened
    file            opening, checking and tidying up the file
    foreign_schema  the check of a schema that other programs have changed
    functions       SQL functions about texts and batches, and the joins built from them
    reader          `Cassette` and `Session`; a row type for each table
    pages           rows page by page: the one pager
    batch           rows made of frames and messages, inserted many at once
    writer          `Writer`: sessions appended by recorders
    build           a new cassette of given sessions and frames
    revisions       files in a revision of git, read through copies
    replace         the one way to replace a file by another
    lookup/         recorded messages found by index, for replay and verify
    query/          queries of people and commands
    text/           cassettes as text, and opening of all other kinds of files
    change/         changes to an existing cassette
"""

"""The SQLite file that a recording is: read, written, looked up, queried, changed and replaced.

The only home of SQL and, in `replace`, of putting one file in another's place. Knows frames and messages, but not how
they are recorded, played, compared or shown.

    schema           tables, indices and views; a cassette by its first bytes, without SQLite
    journals         SQLite's files beside a cassette, checked before it is opened
    file             opening, checking and tidying up the file
    foreign_schema   the check of a schema that others have changed
    functions        SQL functions about texts and batches, and the joins made of them
    reader           `Cassette` and `Session`; a row type for each table
    pages            rows page by page: the one pager
    batch            rows made of frames and messages, inserted many at once
    writer           `Writer`: sessions appended by recorders
    build            a new cassette of given sessions and frames
    revisions        files in a revision of git, read through copies
    replace          the one way to put a file in another's place
    lookup/          recorded messages found by index, for replay and verify
    query/           questions of people and commands
    text/            cassettes that are text, and the door of all other kinds of files
    change/          changes to a cassette that is there
"""

"""Cassettes as Parquet tables, which any engine of analysis reads. Needs pyarrow, the extra `lake`.

    columns   the tables and their columns: the schema, and its version
    rows      the rows of a session, some at a time
    tables    rows into Parquet files, in bounded memory
    places    where a lake is, and how a file gets there whole or not at all
    run       lake_one: one cassette into a lake

A file is named by what it comes from: a source has the same files whoever makes them, and however often. The tables of
a source are made in a private place first, and put into the lake when all of it is read; `sessions` is the last, and
its last file is the mark of a source that is done. So a run that is killed leaves nothing wrong, and the next one does
again what was not done.
"""

"""Cassettes as Parquet tables, readable by any analytics engine. Needs pyarrow, the extra `lake`.

    columns     the tables and their columns: the schema, and its version
    row_blocks  the rows of a session, in blocks
    lakes       where a lake is, and how a file gets there whole or not at all
    run         lake_one: one cassette into a lake, its rows into Parquet files in bounded memory

A file is named after its source, so a source always produces the same files, on any machine and in any run. The tables
of a source are first made in a private place, and put into the lake when all of it is read. `sessions` comes last, and
its last file marks the source as done. So a killed run leaves nothing wrong, and the next run repeats only unfinished
sources.
"""

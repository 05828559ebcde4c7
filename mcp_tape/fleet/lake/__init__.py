"""Cassettes as Parquet tables, readable by any analytics engine. Needs pyarrow, the extra `lake`.

    columns     the tables and their columns: the schema, and its version
    row_blocks  the rows of a session, in blocks
    lakes       lakes in directories and buckets; puts files there whole or not at all
    run         lake_one: one cassette into a lake, as Parquet files, in bounded memory

A file is named after its source, so a source always produces the same files, on any machine and in any run. The tables
of a source are made in a private directory, and put into the lake once the source is read. `sessions` comes last, and
its last file marks the source as done. So a killed run leaves nothing wrong, and the next run repeats only unfinished
sources.
"""

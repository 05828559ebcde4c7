"""Recordings of a team: in object storage, as columns for analytics, and many at once.

Owns everything beyond one file on one machine; none of it is a queue or a scheduler. Heavy libraries (obstore, pyarrow)
are extras, imported on use.

    cassette_paths  cassettes from files, directories, patterns and URLs
    shards          a share of the cassettes for each of several workers, by content
    jobs            calls a function with each cassette, in several processes
    stores          URLs of cassettes, the stores behind them, and their errors
    download        objects from a bucket or a web server
    web             one object at https://, and redirects within its server
    cache           local copies of remote cassettes
    bucket          many cassettes to or from a bucket, a few at a time
    pushing         puts cassettes into a bucket, under names made from their content
    pulling         fetches cassettes into a directory, whole or not at all
    partitions      directories by date and server
    lake/           cassettes as Parquet tables
    many/           one command for many cassettes
    serving         one cassette for many clients, by several processes at one address
"""

"""Recordings of a team: in object storage, as columns for analytics, and many at once.

It owns everything beyond one file on one machine; nothing in it is a server, a queue or a scheduler. Heavy libraries
(obstore, pyarrow) are extras, imported only where they are used.

    cassette_paths  cassettes from files, directories, patterns and URLs
    shards          a share of them for each of several workers, by content
    jobs            a function called with each of them, in several processes
    stores          URLs of cassettes, the stores behind them, and their errors
    download        objects from a bucket or a web server
    web             one object at https://, and redirects within its server
    cache           local copies of remote cassettes
    bucket          many cassettes to a bucket or from it, some at a time
    pushing         cassettes put into a bucket, under names made from their content
    pulling         cassettes fetched into a directory, whole or not at all
    partitions      directories by date and server
    lake/           cassettes as Parquet tables
    many/           one command for many cassettes
    serving         one cassette for many clients, by several processes at one address
"""

"""Recordings of a team: in object storage, as columns for an engine of analysis, and many at once.

It owns what is beyond one file on one machine; nothing in it is a server, a queue or a scheduler. What is heavy
(obstore, pyarrow) is an extra, and imported only where it is used.

    finding    the cassettes that are meant: files, directories, patterns, URLs
    shards     a share of them for each of several workers, by content
    jobs       a function called with each of them, in several processes
    remote     URLs of cassettes, the stores behind them, and their errors
    download   objects asked for, in a bucket or at a web server
    web        one object at https://, and redirects within its server
    cache      copies of remote cassettes on this machine
    bucket     many cassettes to a bucket or from it, some at a time
    push       cassettes put there, under names made of what they are
    pull       cassettes fetched into a directory, whole or not at all
    partitions directories by date and server
    lake/      cassettes as Parquet tables
    progress   how far it is, for people at a terminal
    serving    one cassette for many clients, by several processes
"""

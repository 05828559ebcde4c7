"""The SQLite file that a recording is: read, written, asked, changed and replaced.

The only home of SQL and, in replace.py, of putting one file in another's place. Knows frames and messages, but not how
they are recorded, played, compared or shown.

schema.py          tables, views and the version of the file
file.py            opening, checking and tidying up the file
journals.py        the files that SQLite keeps beside it, looked at before it is opened
foreign_schema.py  schemas that are not ours word for word
reader.py          `Cassette` and `Session`: sessions, frames and messages, for reading
pages.py           rows page by page
functions.py       functions of ours that SQL calls
writer.py          `Writer`: sessions appended by recorders
derive.py          messages made anew from frames
build.py           a new cassette from given sessions and frames
replace.py         the one way to change or replace a file, in use or not
check.py           findings in a cassette: damage, rows that do not fit, secrets
query/             questions of people and commands
change/            changes to a cassette that is there
"""

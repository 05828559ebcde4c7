"""Cassettes as text, and files of other kinds where a cassette is read: the one way in for files that are not SQLite.

recognize   which cassettes are text
safe_lines  one JSON object per line, safe to print
write       JSON lines: one for each session, then one for each frame; keeps the times of unchanged lines
read        JSON lines, read back
losses      what recordings of other tools lack, for the command that reads them
non_sqlite  opens a file that is not SQLite, as a database in memory
working     the database beside a text while it is recorded
"""

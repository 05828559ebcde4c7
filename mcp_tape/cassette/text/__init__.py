"""Cassettes as text, and the one way to read all other files that are not SQLite.

recognize   which cassettes are text
safe_lines  one JSON object per line, safe to print
write       JSON lines: one for each session, then one for each frame; keeps the times of unchanged frames
read        JSON lines, read back
losses      losses of other tools' recordings, reported to the command that reads them
non_sqlite  opens a file that is not SQLite, as a database in memory
working     the database beside a text while it is recorded
"""

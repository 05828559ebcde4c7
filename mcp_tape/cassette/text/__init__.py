"""A cassette as text, and files of other kinds, wherever a cassette is read: the one door of all that is no SQLite.

lines     one JSON object a line, safe to print
write     JSON lines: one for each session, then one for each frame
read      the same, read back
opening   the door: a file that is no SQLite, as a database in memory
"""

"""A cassette as text, and files of other kinds, wherever a cassette is read: the one door of all that is no SQLite.

names     which cassettes are text
lines     one JSON object a line, safe to print
write     JSON lines: one for each session, then one for each frame
read      the same, read back
times     times of an older text, kept where the rest is the same
opening   the door: a file that is no SQLite, as a database in memory
working   the database beside a text while it is recorded
"""

"""Sessions in other forms, for people and for other tools; two of them can be read back.

Knows how a session is laid out, and nothing of SQL, files and commands: what is written is handed out or goes to a
stream, and what is read goes to a builder of `cassette`.

jsonl.py      JSON lines, one frame each: written, and loaded again
sheet.py      a session as text for an editor, and back onto its cassette
dump.py       text that stays the same when nothing of meaning changed, for git diff
markdown.py   a report for people
raw.py        one side's bytes
pretty.py     JSON laid out, and text made harmless for a terminal
"""

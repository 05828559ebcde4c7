"""Changes to a cassette that is there: edited, merged, removed, migrated and redacted sessions.

Each of them goes through `cassette.replace`. Knows nothing of commands, nor of formats other than the cassette's own.

edit.py      sessions replaced by others, or by what came back from an editor
merge.py     the sessions of several cassettes on one
remove.py    sessions taken off
migrate.py   older schemas brought up to date
redact.py    secrets hidden after the fact
secrets.py   where secrets stand, and what recording would have written instead
"""

"""Indexed look-ups of what plays: start-up and each answer must not grow with the cassette.

Owns the SQL of replay and verify, and the row type of a recorded message. Knows nothing of clients or of what was
played.

- `messages.py`: recorded messages, by key, method, place, cue and exchange, and the text of their frames
- `sessions.py`: sessions that can be played, their runs and their eras
- `controls.py`: HTTP statuses, session ids and resumed streams, from control frames
"""

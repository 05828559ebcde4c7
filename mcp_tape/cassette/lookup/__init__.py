"""Indexed look-ups of what plays: neither start-up nor an answer may take longer the more a cassette holds.

Owns the SQL of replay and verify, and the row type of a recorded message. Knows nothing of clients or of what was
played.

    messages   recorded messages, by key, method, place, cue and exchange, and the text of their frames
    sessions   sessions that can be played, their runs and their eras
    controls   HTTP statuses, session ids and resumed streams, from control frames
"""

"""Indexed look-ups for replay: start-up and answers must not get slower as a cassette grows.

Owns the SQL of replay and verify, and the row type of a recorded message. Knows nothing of clients or of the state of a
replay.

    messages           recorded messages, by key, method, place, cue and exchange, and the text of their frames
    playable_sessions  sessions that can be played, their runs and their eras
    controls           HTTP statuses, session ids and resumed streams, from control frames
"""

"""Replaying: a recorded server, played to a client from its cassette.

Chooses the sessions that play, matches live requests to recorded ones, schedules the messages to send, and reports. Its
only I/O is reading the cassette through its look-ups and writing the report. It reads no clock, and knows no SQL. It
performs nothing on a transport: it returns actions.

    stage      a cassette with a deck for each client, its options, faults and report
    selection  the sessions that play, and look-ups across them
    opening    a deck chosen by a client's first requests
    deck       the playing rule: its theory, its table, and the machine that follows it
    finder     matches a live request to a recorded one by key, in recorded order
    matching   the rungs of looser matching, loaded on demand
    sends      a call, and the actions that transports perform
    live       new_episodes: a live server beside the tape
    faults     faults and stand-ins: answers other than the recorded ones
    misses     reports of misses and of inexact answers
    report     reports on stderr and as JSON lines
"""

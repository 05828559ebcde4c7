"""Replaying: a recorded server, played to a client from its cassette.

Owns which sessions play, which recorded request a live one is, what is sent and when, and the reports of it. Does no
I/O but reading the cassette through its look-ups and writing the report, and reads no clock; knows no SQL and no
transport.

    stage      a cassette with a deck for each client, its options, faults and report
    selection  the sessions that play, and look-ups across them
    opening    a deck chosen by how a client begins
    deck       the playing rule: its theory, its table, and the machine that follows it
    finder     the recorded request that a live one is, by its key, and whose turn it is
    matching   the rungs of matching below the exact one, loaded where they are asked for
    sends      a call, and the actions that transports perform
    live       new_episodes: a live server beside the tape
    faults     faults and stand-ins: answers other than the recorded ones
    misses     reports of misses and of inexact answers
    report     reports on stderr and as JSON lines
"""

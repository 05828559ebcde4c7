"""Verifying: the recorded client plays at a live server, and the recorder records what happens.

Owns the client's role, and what becomes of the new recording. Comparing the two recordings is left to `compare`; this
room knows nothing of how a change is judged or shown.

    plan       the sessions to play, and all that is checked before anything is started: writes, secrets
    script     what the client sent, in order, and what it waited for
    deck       the playing rule in the client's role
    client     the recorded client, fit for a live server: minted values, secrets, requests that are left out
    record     the live server, with the recorder before it
    play       the entry, `verify`: the two of them, until all is said or the server fails
    findings   what a play found beyond the answers, as changes that `compare` can judge
    probe      a live server started and greeted, to see whether it works at all
    update     the new recording in the old one's place, or beside it for a review
"""

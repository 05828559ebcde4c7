"""Verification: the recorded client plays against a live server, and the recorder records it.

Owns the client's role, and keeps or drops the new recording. `compare` compares the two recordings; this room does not
know how a change is judged or shown.

    plan             the sessions to play, and the checks before anything starts: writes, secrets
    client_deck      the playing rule in the client's role: sends its messages in order, after those that they wait for
    recorded_client  the recorded client, adapted to a live server: minted values, secrets, skipped requests
    play             the entry point, `verify`: starts the server behind a recorder, and runs both until the
                     script ends or the server fails
    scripted_calls   calls from a script, to record a server without another client
    play_findings    findings of a play beyond the answers, as changes that `compare` can judge
    probe            starts and greets a live server, to see whether it works at all
    update           replaces the old recording by the new one, or keeps the new one for a review
"""

"""Recording in production: a sample of all sessions, bodies left out, finished cassettes handed on.

Loaded only where an option asks for it. All of it but the choice of a sample runs in the recording process, so it does
not delay the traffic. Must not know transports or spans: a function that makes the sender of spans is an option.

    settings    what was asked for
    sampling    which sessions are recorded
    hooks       a command for each finished cassette
    equipment   all of these, as a recording is given them
"""

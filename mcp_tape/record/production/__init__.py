"""Recording in production: a sample of all sessions, without what was said, cassettes handed on, spans sent.

Loaded only where an option asks for it. All of it but the choice of a sample is in the writer's process, so that none
of it is in the way of the traffic. Must not know transports: what sends spans is found by its name.

    settings    what was asked for
    sampling    which sessions are recorded
    hooks       a command for each finished cassette
    spans       a span for each call as it ends
    equipment   all of these, as a recording is given them
"""

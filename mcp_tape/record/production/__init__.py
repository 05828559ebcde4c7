"""Recording in production: sampling, bodies left out, finished cassettes handed on.

Loaded only if an option asks for it. Except for sampling, all of it runs in the recording process and does not delay
the traffic. Must not know transports or spans: the function that makes the sender of spans is an option.

    production_options  the options
    sampling            which sessions are recorded
    hooks               a command for each finished cassette
    equipment           all of these together, passed to a recording
"""

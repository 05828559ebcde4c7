"""Recording: every message is in a pipe to another process before it is passed on.

Owns the pipe's format, the writer's process, and the recording core. Must not know transports: they hand over bytes,
each with a side and a channel. The core (`tape`, `http_sessions`) does no I/O and reads no clock.

    recording_options  how to record
    recorder           the relay's end of the pipe; light, because it is loaded at start-up
    backlog            the writer's end of the pipe: drains it while the rest of the writer still loads
    recording_process  the writer's process: from the pipe to a tape to a cassette, and on to the next cassette
    http_sessions      the session of each HTTP channel
    rotation           a series of cassettes, each of a bounded size
    tape               the recording core: bytes to redacted frames
    production/        sampling, hooks and spans, loaded on request
"""

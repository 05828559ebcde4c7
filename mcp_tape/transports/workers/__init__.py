"""Several processes that do the same work, and act as one server to their clients.

Knows processes, signals and descriptors. Callers decide which worker a request is for.

    crew       starts, watches, restarts and ends the worker processes
    listeners  the sockets that clients connect to
    passing    passes a client's connection from one worker to another
"""

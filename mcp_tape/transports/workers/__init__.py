"""Several processes that do the same work, and are one server to their clients.

Knows processes, signals and descriptors. Which of them a request is for, others say.

    crew       the processes: started, watched, started again when they die, ended together
    listeners  the sockets that clients connect to
    passing    a client's connection passed on from one of them to another
"""

"""A program run by `nursery.py`, which gets our signals: python -I -S warm.py SOCKET PROGRAM ARGUMENTS..."""

import json
import os
import signal
import socket
import sys

wanted = {"arguments": sys.argv[2:], "environment": dict(os.environ), "directory": os.getcwd()}
text = json.dumps(wanted).encode()
with socket.socket(socket.AF_UNIX) as connection:
    connection.connect(sys.argv[1])
    socket.send_fds(connection, [len(text).to_bytes(4, "big")], [0, 1, 2])
    connection.sendall(text)
    for stream in (0, 1):  # whoever waits for their end waits for the program's
        os.close(stream)
    process = int.from_bytes(connection.recv(4), "big")
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda number, _: os.kill(process, number))
    code = int.from_bytes(connection.recv(4), "big", signed=True)
if code < 0:
    signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
os._exit(code)

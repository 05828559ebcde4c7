"""A program run by `nursery.py`, which forwards our signals: python -I -S warm.py SOCKET PROGRAM ARGUMENTS...

Imports only built-in modules, or nearly: json, signal and socket take longer to load than Python itself.
"""

import _signal as signal
import _socket as socket
import marshal
import os
import sys

wanted = {"arguments": sys.argv[2:], "environment": dict(os.environ), "directory": os.getcwd()}
text = marshal.dumps(wanted)
streams = b"".join(number.to_bytes(4, sys.byteorder) for number in (0, 1, 2))
connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
connection.connect(sys.argv[1])
connection.sendmsg([len(text).to_bytes(4, "big")], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, streams)])
connection.sendall(text)
for stream in (0, 1):  # a reader that waits for their end waits for the program's
    os.close(stream)
process = int.from_bytes(connection.recv(4), "big")
for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
    if signal.getsignal(number) != signal.SIG_IGN:
        signal.signal(number, lambda number, _: os.kill(process, number))
answer = connection.recv(4)
code = int.from_bytes(answer, "big", signed=True) if answer else -signal.SIGKILL  # the nursery is gone
if code < 0:
    if code != -signal.SIGKILL:  # cannot be handled
        signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
os._exit(code)

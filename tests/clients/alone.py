"""mcp-tape where any attempt to start or reach a server would fail: python alone.py FILE ARGUMENTS...

Its exit code is appended to FILE, because clients do not report it.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from mcp_tape.__main__ import main

REFUSED = {"subprocess.Popen", "os.fork", "os.forkpty", "os.exec", "os.posix_spawn", "os.system", "socket.connect"}


def refuse(event: str, _: Any) -> None:
    if event in REFUSED:
        os.write(2, f"not alone: {event}\n".encode())
        os._exit(97)


if __name__ == "__main__":
    codes = sys.argv.pop(1)
    sys.addaudithook(refuse)
    try:
        main()
    except SystemExit as end:
        with open(codes, "a") as file:
            print(end.code, file=file)
        raise

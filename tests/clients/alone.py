"""mcp-tape where any attempt to start or reach a server would fail: python alone.py FILE ARGUMENTS...

Its exit code is appended to FILE, because clients do not report it.
"""

from __future__ import annotations

import os
import sys
from typing import Any, NoReturn

from mcp_tape.__main__ import main

REFUSED = {"subprocess.Popen", "os.fork", "os.forkpty", "os.exec", "os.posix_spawn", "os.system", "socket.connect"}


def refuse(event: str, _: Any) -> None:
    if event in REFUSED:
        os.write(2, f"not alone: {event}\n".encode())
        os._exit(97)


def note(code: int) -> NoReturn:
    """End as mcp-tape does, and leave the exit code."""
    with open(codes, "a") as file:
        print(code, file=file)
    end(code)


if __name__ == "__main__":
    codes, end = sys.argv.pop(1), os._exit
    sys.addaudithook(refuse)
    os._exit = note
    main()

"""A Python that logs which files of mcp-tape it executes: python crossed.py LOG PACKAGE ARGUMENTS..., as of Python.

A file counts if one of its functions is called, but not while a module is being loaded. Forks are included. Each line
of the log is a file, written when it is first called: a process may be killed.
"""

from __future__ import annotations

import os
import runpy
import sys
import threading
from pathlib import Path
from types import FrameType

FUNCTION = 1  # inspect.CO_OPTIMIZED: not a module or a class


def watch(log: str, package: str) -> None:
    seen: set[str] = set()
    here = threading.local()

    def look(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        is_loaded = code.co_name == "<module>" and frame.f_globals.get("__name__") != "__main__"
        if event == "call" and is_loaded:
            here.depth = getattr(here, "depth", 0) + 1
        elif event == "return" and is_loaded:
            here.depth = max(getattr(here, "depth", 0) - 1, 0)
        elif event == "call" and code.co_flags & FUNCTION and not getattr(here, "depth", 0):
            name = code.co_filename
            if name not in seen:
                seen.add(name)
                if name.startswith(package + os.sep):
                    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)  # a writer closes what it inherits
                    os.write(file, os.fsencode(name[len(package) + 1 :]) + b"\n")
                    os.close(file)

    threading.setprofile(look)
    sys.setprofile(look)


if __name__ == "__main__":
    _, log, package, *words = sys.argv
    while words[0] in ("-I", "-S", "-u"):
        words.pop(0)
    sys.path[0] = str(Path(package).parent)
    watch(log, package)
    if words[0] == "-m":
        sys.argv[:] = words[1:]
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv[:] = words
        runpy.run_path(words[0], run_name="__main__")

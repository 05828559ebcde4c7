"""`python -m mcp_tape` and the `mcp-tape` command."""

from __future__ import annotations

import os
import sys


def main() -> None:
    _open_outputs()
    from . import start
    from .system import calls

    calls.prepare_command()
    code = start.run(sys.argv[1:])
    if code is not None:
        _leave(code)
    from .cli import cli

    try:
        cli()
    except SystemExit as end:
        if "obstore" in sys.modules and isinstance(end.code, int):
            _leave(end.code)
        raise


def _leave(code: int) -> None:
    """Exit without the interpreter's clean-up, which takes a tenth of the time of a short replay.

    During clean-up, a thread of obstore that still holds a Python object aborts:
    https://github.com/python/cpython/issues/87135
    """
    for output in (sys.stdout, sys.stderr):
        try:
            output.flush()
        except (OSError, ValueError):
            pass  # the reader has gone; the command has reported it already
    os._exit(code if code < 1 << 31 else code - (1 << 32))  # Windows has codes of 32 bits, and this takes signed ones


def _open_outputs() -> None:
    """Open outputs that were closed, as with `>&-`, on the null device."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 - for as long as we run


if __name__ == "__main__":
    main()

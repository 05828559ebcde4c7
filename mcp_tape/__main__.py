"""`python -m mcp_tape` and the `mcp-tape` command."""

from __future__ import annotations

import os
import sys


def main() -> None:
    if sys.platform == "win32":
        sys.exit("mcp-tape: Windows is not supported yet; it runs on Linux, macOS and WSL.")
    _open_outputs()
    from . import start

    code = start.run(sys.argv[1:])
    if code is not None:
        sys.exit(code)
    from .cli import cli

    cli()


def _open_outputs() -> None:
    """Open outputs that were closed, as with `>&-`, at nothing."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 - for as long as we run


if __name__ == "__main__":
    main()

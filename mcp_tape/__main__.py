"""`python -m mcp_tape` and the `mcp-tape` command."""

from __future__ import annotations

import sys


def main() -> None:
    if sys.platform == "win32":
        sys.exit("mcp-tape: Windows is not supported yet; it runs on Linux, macOS and WSL.")
    from .cli import cli

    cli()


if __name__ == "__main__":
    main()

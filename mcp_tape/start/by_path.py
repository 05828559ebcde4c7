"""mcp-tape as a script, for a process that is to find modules where another does: the first argument has their places.

Its command is plain words, with nothing that a shell acts on: some clients take a command as one string, and refuse
those with a semicolon or a bracket.
"""

import os
import sys

if __name__ == "__main__":
    sys.path[:] = sys.argv.pop(1).split(os.pathsep)
    from mcp_tape.__main__ import main

    main()

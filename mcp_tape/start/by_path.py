"""mcp-tape as a script, with the module path of another process as its first argument.

Its command line has no shell metacharacters: some clients take a command as one string, and refuse semicolons and
brackets.
"""

import os
import sys

if __name__ == "__main__":
    sys.path[:] = sys.argv.pop(1).split(os.pathsep)
    from mcp_tape.__main__ import main

    main()

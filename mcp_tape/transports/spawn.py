"""Start a server beside other work, and talk to it: behind a replay, or in place of a client."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

from ..errors import ServerError
from .process import AS_WE_ARE, Around, die_with_parent, given_environment, not_started


def start(command: Sequence[str], around: Around = AS_WE_ARE) -> subprocess.Popen[bytes]:
    """Start a server with pipes to us, which dies with us."""
    around.check()
    try:
        return subprocess.Popen(
            command,
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=given_environment(around),
            cwd=around.cwd,
            preexec_fn=die_with_parent(),
        )
    except OSError as error:
        raise ServerError(not_started(command[0], error.errno or 0)) from None

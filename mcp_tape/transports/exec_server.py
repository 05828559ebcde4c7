"""Replace this process by the server: an unrecorded session needs no relay."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import ServerError
from ..system import processes
from .process import AS_WE_ARE, Around, given_environment, start_failure


def become(command: Sequence[str], around: Around | None = None) -> int:
    """Become a command, with our streams and process id, or run it to its end and return its exit code."""
    around = around or AS_WE_ARE
    around.check()
    processes.open_standard_streams()
    try:
        return processes.become(command, given_environment(around), around.cwd)
    except OSError as error:
        raise ServerError(start_failure(command[0], error.errno or 0)) from None
    except ValueError:
        raise ServerError(start_failure(command[0], 0)) from None

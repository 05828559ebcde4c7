"""Replace this process by the server: an unrecorded session needs no relay."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence

from ..errors import ServerError
from .process import AS_WE_ARE, Around, given_environment, open_standard_streams, start_failure


def become(command: Sequence[str], around: Around | None = None) -> int:
    """Become a command, with our streams and process id. Never returns."""
    around = around or AS_WE_ARE
    around.check()
    environment = given_environment(around)
    open_standard_streams()
    for ignored in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores these from its start
        signal.signal(ignored, signal.SIG_DFL)
    try:
        if around.cwd is not None:
            os.chdir(around.cwd)
        os.execvpe(command[0], [*command], os.environ if environment is None else environment)
    except OSError as error:
        raise ServerError(start_failure(command[0], error.errno or 0)) from None
    except ValueError:
        raise ServerError(start_failure(command[0], 0)) from None

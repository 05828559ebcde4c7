"""mcp-tape replay, with the values of its options."""

from __future__ import annotations

import gc

from .. import api
from ..console import announce, say
from ..errors import MisuseError
from .server_values import check_faults, web_from

TYPE_CHECKING = False  # as in the package's __init__
if TYPE_CHECKING:
    from ..options import OptionValues

_GARBAGE = 50_000  # objects between two runs of the cycle collector: a replay makes no cycles


def replay(file: str, values: OptionValues) -> int:
    """Be the recorded server; return the exit code."""
    gc.set_threshold(_GARBAGE)
    if values.lock is None:
        return _replay(file, values)
    from ..formats.stubs import is_stubs, with_lock

    if not is_stubs(file):
        raise MisuseError(f"--lock goes with stubs, and {file} holds none; a recording has its own lists")
    with with_lock(values.lock):
        return _replay(file, values)


def _replay(file: str, values: OptionValues) -> int:
    options = api.replay_options(values)
    check_faults(options, values.listen)
    web = web_from(values)
    if (values.workers or 1) > 1:
        from ..system import calls

        if not calls.HAS_FORK:
            raise MisuseError("--workers needs processes that share a socket, which Windows lacks; leave it out")
        from ..fleet.serving import replay_web

        played = replay_web(file, options, web, values.workers or 1, quiet=values.quiet, say=say, started=announce)
    elif values.listen:
        played = api.replay_web(file, options, web, say=say, started=announce)
    else:
        played = api.replay(file, options, say=say)
    from .end_report import report_outcome  # late, for a fast start

    report_outcome(played, options, file, values.quiet)
    return played.code

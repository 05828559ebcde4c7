"""mcp-tape replay, with the values of its options."""

from __future__ import annotations

from .. import api
from ..console import announce, say
from .values import check_faults, web_from

TYPE_CHECKING = False  # as in the package's __init__
if TYPE_CHECKING:
    from typing import Any


def replay(file: str, given: dict[str, Any]) -> int:
    """Be the recorded server; return the exit code."""
    options = api.replay_options(given)
    check_faults(options, given["listen"])
    web = web_from(given)
    if (given["workers"] or 1) > 1:
        from ..fleet.serving import replay_web

        played = replay_web(file, options, web, given["workers"], quiet=given["quiet"], say=say, started=announce)
    elif given["listen"]:
        played = api.replay_web(file, options, web, say=say, started=announce)
    else:
        played = api.replay(file, options, say=say)
    from .summary import report_played  # when all is over

    report_played(played, options, file, given["quiet"])
    return played.code

"""`record`, `replay` and `use`, from their first millisecond: a mock server is started for every test.

Owns what these commands do with the values of their options, and the way to them that needs no click: plain words are
read by the table (mcp_tape/options.py). Help, errors, completion and all that is unusual are click's (cli/), which is
made from the same table and comes here with the values that it has read.

    words     values of a command line, or none where it is click's turn
    values    values for the API, made from those of the table
    names     the cassette of a server, where none is named
    config    use, for a program with a configuration of several servers
    record    replay    use      the commands
    production    record, with a sample and the like
    remote    record, for a stdio server in front of one at a URL
    summary   what is said of a recording, or of a replay, at its end
    by_path   mcp-tape as a script, for a process that finds modules where another does
"""

from __future__ import annotations

import os

from ..console import ended_by
from ..errors import MisuseError, TapeError
from .words import read

TYPE_CHECKING = False  # as in the package's __init__
if TYPE_CHECKING:
    from collections.abc import Sequence

_COMMANDS = ("record", "replay", "use")
_COMPLETE = "_COMPLETE"  # ends the variable by which a shell asks click for completions


def run(words: Sequence[str]) -> int | None:
    """Carry out a command line and return its exit code; None, with nothing done, where it is click's turn."""
    if not words or words[0] not in _COMMANDS or any(name.endswith(_COMPLETE) for name in os.environ):
        return None
    try:
        return _carried_out(words[0], words[1:])
    except MisuseError:
        return None  # click words it
    except (TapeError, KeyboardInterrupt, OSError) as error:
        return ended_by(error)


def _carried_out(name: str, words: Sequence[str]) -> int | None:
    from .. import options

    found = read(getattr(options, name.upper()), words, interspersed=name != "record")
    if found is None:
        return None
    values, others = found
    if name == "record":
        from .record import record

        return record(tuple(others), values)
    if not others or not others[0] or "://" in others[0]:
        return None  # nor is a URL plain
    if name == "replay":
        from .replay import replay

        return replay(others[0], values) if len(others) == 1 else None
    from .use import use

    return use(others[0], tuple(others[1:]), values)

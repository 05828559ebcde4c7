"""Lines for people: what commands and leaves print, and the exit code of an error.

Must not be known to the VCR or the diff: a function there that reports something is given a callback. This file is
loaded by every command, so it needs neither click nor the other two.

    terminal  lines that fit a terminal, colours, JSON, questions
    progress  a line that shows how far a command is
"""

from __future__ import annotations

import sys

from ..errors import ServerError, TapeError, replace_control_characters

TYPE_CHECKING = False  # as in the package's __init__
if TYPE_CHECKING:
    from typing import TextIO


def say(text: str) -> None:
    """Print a line for people, to stderr: stdout is for the protocol, or for data."""
    # A message may quote what a stranger's cassette says: a terminal must not act on it.
    plain = replace_control_characters(text, lambda character: character if character == "\n" else " ")
    try:
        _write(sys.stderr, f"mcp-tape: {plain}")
    except OSError:
        pass  # nobody reads our stderr; that must not stop a recording


def report(text: str) -> None:
    """Print a line unless stderr is full, as its reader never reads it: that must not stop the traffic."""
    from ..transports.stdio.relay import has_room

    if has_room(2):
        say(text)


def announce(url: str) -> None:
    """Print the URL for clients to stdout."""
    _write(sys.stdout, url)


def _write(stream: TextIO, text: str) -> None:
    if (stream.encoding or "").lower() != "utf-8":
        import click  # knows what other encodings need

        click.echo(text, stream)
        return
    stream.write(f"{text}\n")
    stream.flush()


def report_error(error: TapeError | KeyboardInterrupt | OSError, found: int = 0) -> int:
    """Report an error that ended a command; return the exit code. `found`: the code if only our reader has left."""
    if isinstance(error, TapeError):
        from ..redaction.diagnostics import hide_secrets  # a server's URL, command line and last words may hold secrets

        say(hide_secrets(str(error)) if isinstance(error, ServerError) else str(error))
        return error.exit_code
    if isinstance(error, KeyboardInterrupt):
        return 130  # as a shell has it; 1 would mean that something was found
    if isinstance(error, BrokenPipeError):
        discard_output()  # its reader has seen enough, as with `| head`
        return found
    import errno

    if error.errno != errno.ENOSPC:
        raise error
    discard_output()  # what is still buffered would fail again
    say(f"cannot write the output: {error.strerror}; free some space, or write it elsewhere")
    return 1


def discard_output() -> None:
    from ..transports.process import point_at_null

    point_at_null(1)

"""Output for people: the lines that commands and leaves print, and the exit code of an error.

The VCR and the diff must not import it: their functions take a callback for reports. Every command loads this file, so
it imports neither click nor the other two.

    terminal  lines that fit a terminal, colours, JSON, questions
    progress  a line that shows the progress of a command
"""

from __future__ import annotations

import sys

from ..errors import ServerError, TapeError, replace_control_characters

TYPE_CHECKING = False  # as in the package's __init__
if TYPE_CHECKING:
    from typing import TextIO


def say(text: str) -> None:
    """Print a line for people, to stderr: stdout is for the protocol, or for data."""
    # A message may quote an untrusted cassette: strip terminal control characters.
    plain = replace_control_characters(text, lambda character: character if character == "\n" else " ")
    try:
        _write(sys.stderr, f"mcp-tape: {plain}")
    except OSError:
        pass  # stderr is closed, which must not stop a recording


def report(text: str) -> None:
    """Print a line, unless stderr is full because nothing reads it: that must not stop the traffic."""
    from ..transports.stdio.relay import has_room

    if has_room(2):
        say(text)


def announce(url: str) -> None:
    """Print the URL for clients to stdout."""
    _write(sys.stdout, url)


def _write(stream: TextIO, text: str) -> None:
    if (stream.encoding or "").lower() != "utf-8":
        import click  # handles other encodings

        click.echo(text, stream)
        return
    stream.write(f"{text}\n")
    stream.flush()


def report_error(error: TapeError | KeyboardInterrupt | OSError, found: int = 0) -> int:
    """Report the error that ended a command; return the exit code. `found`: the code for a broken pipe."""
    if isinstance(error, TapeError):
        from ..redaction.diagnostics import hide_secrets  # the server's URL, command and stderr may contain secrets

        say(hide_secrets(str(error)) if isinstance(error, ServerError) else str(error))
        return error.exit_code
    if isinstance(error, KeyboardInterrupt):
        return 130  # as in a shell; 1 would mean findings
    if isinstance(error, BrokenPipeError):
        discard_output()  # the reader has closed the pipe, as `| head` does
        return found
    import errno

    if error.errno != errno.ENOSPC:
        raise error
    discard_output()  # flushing the buffer would fail again
    say(f"cannot write the output: {error.strerror}; free some space, or write it elsewhere")
    return 1


def discard_output() -> None:
    from ..system import calls

    calls.point_at_null(1)

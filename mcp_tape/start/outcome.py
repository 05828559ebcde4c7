"""What a command says to people, and the exit code that an error ends it with. Needs no click: it may not be there."""

from __future__ import annotations

import sys

from ..errors import ServerError, TapeError, harmless


class MisuseError(Exception):
    """Options that do not go together, in words for click to put below a usage line."""


def say(text: str) -> None:
    """Print a line for people, to stderr: stdout is for the protocol, or for data."""
    # A message may quote what a stranger's cassette says: a terminal must not act on it.
    plain = harmless(text, lambda character: character if character == "\n" else " ")
    try:
        _echo(f"mcp-tape: {plain}", is_error=True)
    except OSError:
        pass  # nobody reads our stderr; that must not stop a recording


def report(text: str) -> None:
    """Print a line unless stderr is full, as its reader never reads it: that must not stop the traffic."""
    from ..transports.stdio.relay import has_room

    if has_room(2):
        say(text)


def echo(text: str) -> None:
    """Print a line to stdout: the URL for clients."""
    _echo(text, is_error=False)


def _echo(text: str, *, is_error: bool) -> None:
    stream = sys.stderr if is_error else sys.stdout
    if (stream.encoding or "").lower() != "utf-8":
        import click  # knows what other encodings need

        click.echo(text, err=is_error)
        return
    stream.write(f"{text}\n")
    stream.flush()


def ended_by(error: TapeError | KeyboardInterrupt | OSError, found: int = 0) -> int:
    """Report an error that ended a command; return the exit code. `found`: the code if only our reader has left."""
    if isinstance(error, TapeError):
        say(_discreetly(error))
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


def _discreetly(error: TapeError) -> str:
    """Return an error's message without secrets, which a server's URL, command line and last words may hold."""
    if not isinstance(error, ServerError):
        return str(error)
    from ..redaction.diagnostics import hidden

    return hidden(str(error))


def discard_output() -> None:
    from ..transports.process import point_at_null

    point_at_null(1)

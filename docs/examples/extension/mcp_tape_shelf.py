"""A reader, a store and a command for mcp-tape."""

import os
from contextlib import contextmanager

import click
from mcp_tape import Cassette, CassetteError
from mcp_tape.formats.foreign import INVENTED, Loss, Reader, Readers, SentBytes, SessionStart


# A reader: the file of another tool. Its first line is "talk"; the others begin with > or <, by who sent them.
def is_talk(source):
    return source.start.startswith("talk\n")


def read_talk(source):
    yield SessionStart(started_at="2026-01-01T00:00:00Z", target={"command": ["talk"]})
    yield Loss(INVENTED)  # of what the tape has to have, and the file does not
    for number, line in enumerate(source.text.splitlines()[1:]):
        yield SentBytes(number * 1000, "client" if line[0] == ">" else "server", line[2:].encode())


READERS = Readers(Reader("talk", is_talk, read_talk))


# A store: shelf://a.db is the file a.db in the directory $SHELF.
@contextmanager
def fetch(url):
    path = os.path.join(os.environ["SHELF"], url.removeprefix("shelf://"))
    if not os.path.isfile(path):
        raise CassetteError(f"there is nothing at {url}")
    yield url, path  # the name to show, and a file that stays until the cassette is closed


# A command: mcp-tape tools FILE
@click.command()
@click.argument("file")
def tools(file):
    """List the tools that were called."""
    with Cassette(file) as cassette:
        calls = [one for session in cassette.sessions() for one in cassette.exchanges(session.id)]
    for name in sorted({one.name for one in calls if one.method == "tools/call"}):
        click.echo(name)

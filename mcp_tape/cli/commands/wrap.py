"""mcp-tape wrap"""

from __future__ import annotations

import os

import click

from ...clients import config as files
from ...clients import yaml
from ...clients.finding import Choice, is_shared, name_of, words_for
from ...console import say
from ...console.terminal import echo
from ...errors import TapeError
from ...start.names import path_for
from ..wrapping import change, found, is_yaml, meant, options, program, say_restart


@click.command(
    "wrap",
    epilog="\b\nExamples:\n"
    "  mcp-tape wrap\n"
    "  mcp-tape wrap github --dry-run\n"
    "  mcp-tape wrap github --client cursor\n"
    "  mcp-tape wrap --all --config .vscode/mcp.json\n"
    "  mcp-tape wrap time --mode use -o cassettes/time.db\n"
    "  mcp-tape unwrap github",
)
@options
@click.option("--mode", type=click.Choice(["record", "use"]), default="record", show_default=True,
              help="record: every session. use: the first one, and replay it from then on.")  # fmt: skip
@click.option("-o", "--output", metavar="CASSETTE", type=click.Path(dir_okay=False),
              help="The cassette. Default: one for each client and server, in your data directory.")  # fmt: skip
@click.pass_context
def command(
    ctx: click.Context, names: tuple[str, ...], client: str | None, scope: str | None, file: str | None,
    everything: bool, dry_run: bool, mode: str, output: str | None,
) -> None:  # fmt: skip
    """Put the tape into the clients you use: their servers are recorded from then on.

    In the client's own configuration, mcp-tape goes in front of the server's command. Everything else in
    the file stays, to the byte. mcp-tape unwrap takes it out again, even after you have changed other
    things; until then, a copy of the original file is kept beside it, readable only by you.

    Without names it lists what it found, and asks. Restart the client afterwards, or let it read its file
    again. What cannot be changed safely is left alone, with the reason, and the exit code is 1.
    """
    there = found(client, scope, file)
    chosen = meant(there, names, everything, "wrap", lambda choice: not choice.server.is_wrapped)
    if output and len(chosen) > 1:
        raise click.UsageError("-o names one cassette, and there are several servers: name one, or leave out -o")

    def edit(config: files.Config, server: files.Server) -> str:
        choice = next(one for one in chosen if one.server.name == server.name and one.found.place == config.place)
        return files.wrap(config, server, program(is_shared(config.place)), _words(choice, mode, output))

    by_hand = [choice for choice in chosen if is_yaml(choice) and choice.server.parts]
    for choice in by_hand:
        _advise(choice, _words(choice, mode, output))
    chosen = [choice for choice in chosen if choice not in by_hand]
    changed, refused = change(chosen, edit, dry_run=dry_run)
    for choice in chosen:
        if choice.server.is_wrapped:
            say(f"{choice.server.name} of {choice.found.place.client.title} was wrapped already")
    for choice in () if dry_run else changed:
        place = choice.found.place
        cassette = output or path_for(name_of(choice))
        say(f"{choice.server.name} of {place.client.title} goes through mcp-tape: {cassette}")
    if not dry_run:
        say_restart(changed)
    ctx.exit(int(refused > 0 or any(one.problem for one in there)))


def _words(choice: Choice, mode: str, output: str | None) -> list[str]:
    """The words that go in front of a server's command."""
    server, place = choice.server, choice.found.place
    if server.problem:
        raise TapeError(f"{server.name} in {place.path} stays as it is: {server.problem}")
    if server.remote and mode == "use":
        raise TapeError(f"{server.name} in {place.path} stays as it is: it has a URL, which can only be recorded")
    name = name_of(choice)
    cassette = os.path.abspath(output) if output else path_for(name) if mode == "use" else None
    return words_for(server.parts, name, mode, cassette)


def _advise(choice: Choice, words: list[str]) -> None:
    server, place = choice.server, choice.found.place
    say(f"{place.path} is YAML, which mcp-tape does not change; put this in:")
    assert server.parts
    echo(yaml.advice(server.name, server.parts.command_key, server.parts.words[0], program(False), words))

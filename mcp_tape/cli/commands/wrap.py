"""mcp-tape wrap"""

from __future__ import annotations

import os
from collections.abc import Sequence

import click

from ...clients import config as files
from ...clients import yaml
from ...clients.finding import Choice, Found, is_shared, name_of, words_for
from ...console import say
from ...console.terminal import columns, echo, echo_json, fit, wrap, writable
from ...errors import TapeError
from ...redaction.redactor import Redactor
from ...start.names import path_for
from ..wrapping import change, find_files, is_yaml, line, meant, options, program, say_restart


@click.command(
    "wrap",
    epilog="\b\nExamples:\n"
    "  mcp-tape wrap --list\n"
    "  mcp-tape wrap github --dry-run\n"
    "  mcp-tape wrap github --client cursor\n"
    "  mcp-tape wrap --all --config .vscode/mcp.json\n"
    "  mcp-tape wrap time --mode use -o cassettes/time.db\n"
    "  mcp-tape wrap github --undo",
)
@options
@click.option("--mode", type=click.Choice(["record", "use"]), default="record", show_default=True,
              help="record: every session. use: the first one, and replay it from then on.")  # fmt: skip
@click.option("-o", "--output", metavar="CASSETTE", type=click.Path(dir_okay=False),
              help="The cassette. Default: one for each client and server, in your data directory.")  # fmt: skip
@click.option("--undo", is_flag=True, help="Take the tape out again.")
@click.option("--list", "only_list", is_flag=True, help="Only list the clients on this machine, and their servers.")
@click.option("--json", "as_json", is_flag=True, help="--list: one JSON object per client.")
@click.pass_context
def command(
    ctx: click.Context, names: tuple[str, ...], client: str | None, scope: str | None, file: str | None,
    everything: bool, dry_run: bool, mode: str, output: str | None, undo: bool, only_list: bool, as_json: bool,
) -> None:  # fmt: skip
    """Put the tape into the clients you use: their servers are recorded from then on.

    In the client's own configuration, mcp-tape goes in front of the server's command. Everything else in
    the file stays, to the byte. --undo removes only what was added, even after you have changed other
    things; until then, a copy of the original file is kept beside it, readable only by you.

    --list looks where each client keeps the user's servers, and in the current directory for a project's. It
    changes nothing.

    Without names it lists what it found, and asks. Restart the client afterwards, or let it read its file
    again. What cannot be changed safely is left alone, with the reason, and the exit code is 1.
    """
    _check(undo, only_list, as_json, output, mode)
    there = find_files(client, scope, file, reports=not only_list)
    if only_list:
        _list(there, names, as_json)
        return
    if undo:
        ctx.exit(_undo(there, names, everything, dry_run))
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


def _check(undo: bool, only_list: bool, as_json: bool, output: str | None, mode: str) -> None:
    """Refuse options that do not go together."""
    if undo and only_list:
        raise click.UsageError("either --undo or --list, not both")
    if (undo or only_list) and (output or mode != "record"):
        raise click.UsageError(f"-o and --mode are for wrapping; leave them out with {'--undo' if undo else '--list'}")
    if as_json and not only_list:
        raise click.UsageError("--json goes with --list")


def _undo(there: Sequence[Found], names: Sequence[str], everything: bool, dry_run: bool) -> int:
    """Take the tape out of servers; return the exit code."""
    chosen = meant(there, names, everything, "unwrap", lambda choice: choice.server.is_wrapped)
    if everything and not names:
        chosen = [choice for choice in chosen if choice.server.is_wrapped]
    changed, refused = change([choice for choice in chosen if not is_yaml(choice)], files.unwrap, dry_run=dry_run)
    for choice in chosen:
        title = choice.found.place.client.title
        if not choice.server.is_wrapped:
            say(f"{choice.server.name} of {title} is not wrapped")
        elif choice in changed and not dry_run:
            say(f"{choice.server.name} of {title} is as it was")
    if not dry_run:
        say_restart(changed)
    return int(refused > 0 or any(one.problem for one in there))


def _list(there: Sequence[Found], names: Sequence[str], as_json: bool) -> None:
    """List files of clients, and their servers; only those of these names, if there are some."""
    for one in there:
        if as_json:
            echo_json(_facts(one, names))
            continue
        title = f"{one.place.client.title} ({one.place.scope}): {one.place.path}"
        echo(writable(fit(title, columns())), bold=True)
        if one.problem:
            say(one.problem)
        for server in one.servers():
            if not names or server.name in names:
                echo(writable("  " + wrap(line(Choice(one, server))[2:], columns() - 2, indent=5)))
    if not there and not as_json:
        say("no client has a configuration here; to name one: mcp-tape wrap --config FILE")


def _facts(one: Found, names: Sequence[str]) -> dict[str, object]:
    redactor = Redactor(os.environ)  # arguments and URLs may hold secrets
    servers = [
        {
            "name": server.name,
            "command": redactor.arguments(server.parts.words) if server.parts else None,
            "url": server.url and redactor.text(server.url),
            "wrapped": server.is_wrapped,
            "problem": server.problem,
        }
        for server in one.servers()
        if not names or server.name in names
    ]
    place = one.place
    facts = {"client": place.client.name, "scope": place.scope, "path": place.path, "format": place.client.kind}
    return facts | {"problem": one.problem, "servers": servers}


def _words(choice: Choice, mode: str, output: str | None) -> list[str]:
    """The words that go in front of a server's command."""
    server, place = choice.server, choice.found.place
    if server.problem:
        raise TapeError(f"{server.name} in {place.path} was not changed: {server.problem}")
    if server.remote and mode == "use":
        raise TapeError(f"{server.name} in {place.path} was not changed: it has a URL, which can only be recorded")
    name = name_of(choice)
    cassette = os.path.abspath(output) if output else path_for(name) if mode == "use" else None
    return words_for(server.parts, name, mode, cassette)


def _advise(choice: Choice, words: list[str]) -> None:
    server, place = choice.server, choice.found.place
    say(f"{place.path} is YAML, which mcp-tape does not change; put this in:")
    assert server.parts
    echo(yaml.advice(server.name, server.parts.command_key, server.parts.words[0], program(False), words))

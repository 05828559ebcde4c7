"""mcp-tape wrap"""

from __future__ import annotations

import difflib
import os
import shutil
import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from ...clients import config_file as files
from ...clients import yaml
from ...clients.discovery import ClientFile, ServerChoice, choose, find, find_file, is_shared, name_of, words_for
from ...clients.entry import PROGRAM
from ...clients.table import BY_NAME, PROJECT, USER, YAML
from ...console import say
from ...console.terminal import clip, columns, echo, echo_json, fit, is_attended, pad, pick_several, wrap, writable_text
from ...errors import TapeError, replace_control_characters
from ...redaction.diagnostics import hide_secrets
from ...redaction.redactor import Redactor
from ...start.cassette_names import path_for

F = TypeVar("F", bound=Callable[..., Any])
Edit = Callable[[files.Config, files.ServerEntry], str]


def options(function: F) -> F:
    """Decorator of a command: the options that choose servers."""
    for option in reversed((
        click.argument("names", metavar="[SERVER]...", nargs=-1),
        click.option("--client", type=click.Choice(sorted(BY_NAME)), metavar="NAME",
                     help="Only servers of this client; see --list."),
        click.option("--user", "scope", flag_value=USER, help="Only servers in your own files."),
        click.option("--project", "scope", flag_value=PROJECT, help="Only servers in files of this directory."),
        click.option("--config", "file", metavar="FILE", type=click.Path(dir_okay=False),
                     help="Only servers in this file."),
        click.option("--all", "everything", is_flag=True, help="All servers, or all servers of that name."),
        click.option("--dry-run", is_flag=True, help="Show the change, but do not make it."),
    )):  # fmt: skip
        function = option(function)
    return function


def find_files(client: str | None, scope: str | None, file: str | None, reports: bool) -> list[ClientFile]:
    """Return the chosen files. `reports`: print their problems."""
    here = os.getcwd()
    there = [find_file(file, here, os.environ, client)] if file else list(find(here, os.environ, client, scope))
    for one in there if reports else ():
        if one.problem:
            say(one.problem)
    return there


def choose_servers(
    there: Sequence[ClientFile],
    names: Sequence[str],
    everything: bool,
    verb: str,
    is_due: Callable[[ServerChoice], bool],
) -> list[ServerChoice]:
    """Return the chosen servers; at a terminal, ask if no name was given."""
    chosen = choose(there, names, several=everything)
    due = chosen if names or everything else [choice for choice in chosen if is_due(choice)]
    if not due:
        say(f"there is nothing to {verb}; to see the servers here: mcp-tape wrap --list")
    if not due or names or everything:
        return due
    if not is_attended():
        raise click.UsageError(f"which servers to {verb}? Name them, or give --all; only at a terminal, you are asked")
    return [due[number] for number in pick_several(f"Which to {verb}?", [server_line(choice) for choice in due])]


def server_line(choice: ServerChoice) -> list[str]:
    """The parts of a line about a server."""
    place, server = choice.found.place, choice.server
    started = hide_secrets(" ".join(server.parts.words) if server.parts else server.url or "-")
    state = "wrapped" if server.is_wrapped else server.problem or ""
    parts = [pad(place.client.name, 14), pad(place.scope, 7), pad(clip(server.name, 24), 16), clip(started, 80), state]
    return [part for part in parts if part]


def change(chosen: Sequence[ServerChoice], edit: Edit, *, dry_run: bool) -> tuple[list[ServerChoice], int]:
    """Change the files of servers, each once. Print refusals; return the servers changed, and the number of refusals.

    A file is read again: the user may have edited it before answering, and several places may be in one file.
    """
    changed: list[ServerChoice] = []
    refused = 0
    for place in dict.fromkeys(choice.found.place for choice in chosen):
        here = [choice for choice in chosen if choice.found.place == place]
        try:
            now = config = files.read(place)
        except (TapeError, OSError) as error:
            say(str(error) if isinstance(error, TapeError) else f"cannot read {place.path}: {error.strerror}")
            refused += len(here)
            continue
        done: list[ServerChoice] = []
        for choice in here:
            try:
                text = edit(now, files.find_server(now, choice.server.name))
            except TapeError as error:
                say(str(error))
                refused += 1
                continue
            if text != now.text:
                now, done = files.with_text(now, text), [*done, choice]
        if dry_run:
            _show(config, now)
        elif done:
            files.write(config, now.text)
        changed += done
    return changed, refused


def _show(old: files.Config, new: files.Config) -> None:
    before, after = (config.text.splitlines(keepends=True) for config in (old, new))
    for text in difflib.unified_diff(before, after, old.path, new.path, n=2):
        style = {"+": "green", "-": "red"}.get(text[0]) if not text.startswith(("+++", "---")) else None
        echo(
            writable_text(
                replace_control_characters(
                    hide_secrets(text.rstrip("\r\n")), lambda letter: letter if letter == "\t" else " "
                )
            ),
            fg=style,
        )


def program(is_shared: bool) -> str:
    """Return our command for a client's file.

    Desktop programs lack the PATH of a shell, so a user's file gets the full path. A project's file is also read on
    other machines, and gets the name.
    """
    if is_shared:
        return PROGRAM
    place = shutil.which(PROGRAM) or shutil.which(PROGRAM, path=os.path.dirname(sys.executable))
    if place is None:
        raise TapeError("mcp-tape is not on the PATH, so a client could not start it; install it with pipx or uv tool")
    return os.path.abspath(place)


def is_yaml(choice: ServerChoice) -> bool:
    return choice.found.place.client.kind == YAML


def report_restarts(changed: Sequence[ServerChoice]) -> None:
    """Print which clients must read their files again."""
    titles = dict.fromkeys(choice.found.place.client.title for choice in changed)
    if titles:
        say(f"{', '.join(titles)}: restart it, or let it read its configuration again")


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
@click.option("--undo", is_flag=True, help="Remove mcp-tape from the configuration again.")
@click.option(
    "--list", "only_list", is_flag=True, help="List the clients on this machine and their servers, and change nothing."
)
@click.option("--json", "as_json", is_flag=True, help="With --list, one JSON object per client.")
@click.pass_context
def command(
    ctx: click.Context, names: tuple[str, ...], client: str | None, scope: str | None, file: str | None,
    everything: bool, dry_run: bool, mode: str, output: str | None, undo: bool, only_list: bool, as_json: bool,
) -> None:  # fmt: skip
    """Record a client's servers by changing its configuration, and undo it.

    wrap puts mcp-tape in front of the server's command in the client's own configuration, and leaves every other byte
    of the file alone. --undo removes only that, even after you have changed other things; until then, a copy of the
    original file is kept beside it, readable only by you.

    --list shows your servers in the files of each client, and those of a project in the current directory. It changes
    nothing.

    Without names, wrap lists the servers, and asks. Then restart the client, or let it reload its file. If a server
    cannot be changed safely, wrap leaves it alone, gives the reason, and exits with 1.
    """
    _check(undo, only_list, as_json, output, mode)
    there = find_files(client, scope, file, reports=not only_list)
    if only_list:
        _list(there, names, as_json)
        return
    if undo:
        ctx.exit(_undo(there, names, everything, dry_run))
    chosen = choose_servers(there, names, everything, "wrap", lambda choice: not choice.server.is_wrapped)
    if output and len(chosen) > 1:
        raise click.UsageError("-o names one cassette, and there are several servers: name one, or leave out -o")

    def edit(config: files.Config, server: files.ServerEntry) -> str:
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
        report_restarts(changed)
    ctx.exit(int(refused > 0 or any(one.problem for one in there)))


def _check(undo: bool, only_list: bool, as_json: bool, output: str | None, mode: str) -> None:
    """Refuse options that do not go together."""
    if undo and only_list:
        raise click.UsageError("either --undo or --list, not both")
    if (undo or only_list) and (output or mode != "record"):
        raise click.UsageError(f"-o and --mode are for wrapping; leave them out with {'--undo' if undo else '--list'}")
    if as_json and not only_list:
        raise click.UsageError("--json goes with --list")


def _undo(there: Sequence[ClientFile], names: Sequence[str], everything: bool, dry_run: bool) -> int:
    """Unwrap servers; return the exit code."""
    chosen = choose_servers(there, names, everything, "unwrap", lambda choice: choice.server.is_wrapped)
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
        report_restarts(changed)
    return int(refused > 0 or any(one.problem for one in there))


def _list(there: Sequence[ClientFile], names: Sequence[str], as_json: bool) -> None:
    """List the files of clients with their servers; if names are given, only servers of these names."""
    for one in there:
        if as_json:
            echo_json(_facts(one, names))
            continue
        title = f"{one.place.client.title} ({one.place.scope}): {one.place.path}"
        echo(writable_text(fit(title, columns())), bold=True)
        if one.problem:
            say(one.problem)
        for server in one.servers():
            if not names or server.name in names:
                echo(writable_text("  " + wrap(server_line(ServerChoice(one, server))[2:], columns() - 2, indent=5)))
    if not there and not as_json:
        say("no client has a configuration here; to name one: mcp-tape wrap --config FILE")


def _facts(one: ClientFile, names: Sequence[str]) -> dict[str, object]:
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


def _words(choice: ServerChoice, mode: str, output: str | None) -> list[str]:
    """Return the words to put in front of a server's command."""
    server, place = choice.server, choice.found.place
    if server.problem:
        raise TapeError(f"{server.name} in {place.path} was not changed: {server.problem}")
    if server.remote and mode == "use":
        raise TapeError(f"{server.name} in {place.path} was not changed: it has a URL, which can only be recorded")
    name = name_of(choice)
    cassette = os.path.abspath(output) if output else path_for(name) if mode == "use" else None
    return words_for(server.parts, name, mode, cassette)


def _advise(choice: ServerChoice, words: list[str]) -> None:
    server, place = choice.server, choice.found.place
    say(f"{place.path} is YAML, which mcp-tape does not change; put this in:")
    assert server.parts
    echo(yaml.advice(server.name, server.parts.command_key, server.parts.words[0], program(False), words))

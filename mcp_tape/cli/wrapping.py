"""What wrap does: the options, which servers are meant, and the change of their files."""

from __future__ import annotations

import difflib
import os
import shutil
import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from ..clients import config as files
from ..clients.entry import PROGRAM
from ..clients.finding import Choice, Found, choose, find, find_file
from ..clients.table import BY_NAME, PROJECT, USER, YAML
from ..console import say
from ..console.terminal import clip, echo, is_attended, pad, pick_several, writable
from ..errors import TapeError, harmless
from ..redaction.diagnostics import hidden

F = TypeVar("F", bound=Callable[..., Any])
Edit = Callable[[files.Config, files.Server], str]


def options(function: F) -> F:
    """Decorator of a command: the options that say which servers are meant."""
    for option in reversed((
        click.argument("names", metavar="[SERVER]...", nargs=-1),
        click.option("--client", type=click.Choice(sorted(BY_NAME)), metavar="NAME",
                     help="Only of this client; see --list."),
        click.option("--user", "scope", flag_value=USER, help="Only in the user's own files."),
        click.option("--project", "scope", flag_value=PROJECT, help="Only in files of this directory."),
        click.option("--config", "file", metavar="FILE", type=click.Path(dir_okay=False), help="Only in this file."),
        click.option("--all", "everything", is_flag=True, help="All servers, or all of that name."),
        click.option("--dry-run", is_flag=True, help="Show the change, and make none."),
    )):  # fmt: skip
        function = option(function)
    return function


def find_files(client: str | None, scope: str | None, file: str | None, reports: bool) -> list[Found]:
    """Return the files that are meant. `reports`: what is wrong with one of them, too."""
    here = os.getcwd()
    there = [find_file(file, here, os.environ, client)] if file else list(find(here, os.environ, client, scope))
    for one in there if reports else ():
        if one.problem:
            say(one.problem)
    return there


def meant(
    there: Sequence[Found], names: Sequence[str], everything: bool, verb: str, is_due: Callable[[Choice], bool]
) -> list[Choice]:
    """Return the servers that are meant; at a terminal, a person is asked if no name was given."""
    chosen = choose(there, names, several=everything)
    if names or everything:
        return chosen
    due = [choice for choice in chosen if is_due(choice)]
    if not due:
        say(f"there is nothing to {verb}; mcp-tape wrap --list shows what is here")
        return []
    if not is_attended():
        raise click.UsageError(f"which servers to {verb}? Name them, or give --all; only at a terminal, you are asked")
    return [due[number] for number in pick_several(f"Which to {verb}?", [line(choice) for choice in due])]


def line(choice: Choice) -> list[str]:
    """The parts of a line about a server."""
    place, server = choice.found.place, choice.server
    started = hidden(" ".join(server.parts.words) if server.parts else server.url or "-")
    state = "wrapped" if server.is_wrapped else server.problem or ""
    parts = [pad(place.client.name, 14), pad(place.scope, 7), pad(clip(server.name, 24), 16), clip(started, 80), state]
    return [part for part in parts if part]


def change(chosen: Sequence[Choice], edit: Edit, *, dry_run: bool) -> tuple[list[Choice], int]:
    """Change the files of servers, each once; return the servers changed, and how many were refused, which is printed.

    A file is read anew: a person may have been asked meanwhile, and several places may be in one file.
    """
    changed: list[Choice] = []
    refused = 0
    for place in dict.fromkeys(choice.found.place for choice in chosen):
        here = [choice for choice in chosen if choice.found.place == place]
        try:
            now = config = files.read(place)
        except (TapeError, OSError) as error:
            say(str(error) if isinstance(error, TapeError) else f"cannot read {place.path}: {error.strerror}")
            refused += len(here)
            continue
        done: list[Choice] = []
        for choice in here:
            try:
                text = edit(now, files.server(now, choice.server.name))
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
            writable(harmless(hidden(text.rstrip("\r\n")), lambda letter: letter if letter == "\t" else " ")), fg=style
        )


def program(is_shared: bool) -> str:
    """Return our command for a client's file.

    Desktop programs have not the PATH of a shell, so a user's file names it with its directory. A project's file is
    also read where that is another.
    """
    if is_shared:
        return PROGRAM
    beside = os.path.join(os.path.dirname(sys.executable), PROGRAM)
    place = shutil.which(PROGRAM) or (beside if os.access(beside, os.X_OK) else None)
    if place is None:
        raise TapeError("mcp-tape is not on the PATH, so a client could not start it; install it with pipx or uv tool")
    return os.path.abspath(place)


def is_yaml(choice: Choice) -> bool:
    return choice.found.place.client.kind == YAML


def say_restart(changed: Sequence[Choice]) -> None:
    """Say which clients have to read their files again."""
    titles = dict.fromkeys(choice.found.place.client.title for choice in changed)
    if titles:
        say(f"{', '.join(titles)}: restart it, or let it read its configuration again")

"""mcp-tape lock"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import click

from ...cassette.replace import OutputExistsError
from ...console import say
from ...diff.surveys import CAPABILITIES
from ...errors import count, quote_path
from ...options import AROUND, CWD, HEADER_ENV, REDACT, UPSTREAM, URL, OptionValues, is_given
from ...redaction.diagnostics import hide_secrets
from ...start.server_values import rules_from
from ..click_options import files, option_reader, read_place, table_options
from ..compare import AfterDashes, ComparisonOptions, judging_options, report
from ..running import CommandRun, worst_exit_code
from .breaking import give_verdict
from .convert import write_out
from .diff import _TIMEOUT

if TYPE_CHECKING:
    from ...compare.versions import Version
    from ...diff.locking import NewLock
    from ...diff.surveys import LiveTarget

    Servers = Mapping[str, LiveTarget | str]  # by name; a text is the reference of a recording

_ENV = AROUND[0]
_NONE = "none"


def _capabilities(text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if names == (_NONE,):
        return ()
    for name in names:
        if name not in CAPABILITIES:
            raise ValueError(f"{name!r} is not one of {', '.join(CAPABILITIES)}, or {_NONE} alone")
    return names


@click.command(
    "lock",
    cls=AfterDashes,
    epilog="\b\nExamples:\n"
    "  mcp-tape lock -o mcp.lock -- uvx mcp-server-time\n"
    "  mcp-tape lock --check mcp.lock -- uvx mcp-server-time\n"
    "  mcp-tape lock --check mcp.lock --update -- uvx mcp-server-time\n"
    "  mcp-tape lock --check mcp.lock --config .mcp.json --format github\n"
    "  mcp-tape lock -o mcp.lock --url https://example.com/mcp\n"
    "  mcp-tape lock -o mcp.lock tape.db",
)
@click.argument("cassette", metavar="[CASSETTE]", required=False, shell_complete=files)
@click.option("-o", "--output", metavar="FILE", shell_complete=files, help="Write the lock here. Default: stdout.")
@click.option("--check", metavar="FILE", shell_complete=files, help="Compare with this lock, as mcp-tape breaking "
              "does: exit with 1 if a client of the locked server can break.")  # fmt: skip
@click.option("--update", is_flag=True, help="With --check, show the changes, then lock the server again.")
@click.option("--config", metavar="FILE", type=click.Path(exists=True, dir_okay=False),
              help="Lock all servers of this configuration (mcpServers, or VS Code's servers), by name.")  # fmt: skip
@click.option("--server", "name", metavar="NAME", help="The server's name in the lock; of several servers, only this "
              "one. Default: what the server calls itself.")  # fmt: skip
@click.option("--capabilities", metavar="NAMES", callback=option_reader(_capabilities), help="Ask as a client with "
              f"these capabilities: {', '.join(CAPABILITIES)}, or {_NONE}. Default: all, and each alone if the offer "
              "depends on them; with --check, those of the lock.")  # fmt: skip
@judging_options
@table_options(URL, *UPSTREAM, HEADER_ENV, _ENV, CWD, *REDACT)
@_TIMEOUT
@click.pass_context
def command(
    ctx: click.Context,
    /,
    cassette: str | None,
    output: str | None,
    check: str | None,
    update: bool,
    config: str | None,
    name: str | None,
    capabilities: tuple[str, ...] | None,
    timeout: float,
    command: tuple[str, ...],
    options: ComparisonOptions,
    values: OptionValues,
) -> None:
    """Lock a server's tools, prompts and resources in a file, and fail when a change breaks clients.

    Asks a live server for everything that it declares, calls no tool, and writes the answers as text to review and
    commit: one fact a line, sorted, without times. Equal answers give equal bytes. CASSETTE: a recording instead of a
    live server.

    With --check, asks the server again, in the same way, and compares. Exit codes: 0, nothing breaks; 1, something
    does, or mcp-tape cannot know; 2, wrong usage; 3, the lock cannot be read; 4, a server could not be started or
    reached. mcp-tape diff, breaking and verify also take a lock as OLD.
    """
    from ...diff.surveys import LiveTarget
    from ...transports.process import Around
    from ...transports.signals import exit_on_signal

    _expect_one_server(cassette, config, command, values.url)
    _expect_of_server(values, command)
    if update and check is None:
        raise click.UsageError("--update goes with --check: mcp-tape lock --check mcp.lock --update -- SERVER")
    if output is not None and check is not None:
        raise click.UsageError("either -o, for a new lock, or --check; to lock it again: --check FILE --update")
    headers, around = (*values.headers, *values.header_env), Around(values.env, values.cwd)
    live = LiveTarget(command, values.url or "", headers, values.cacert, timeout, around, capabilities)
    with exit_on_signal():
        servers = _servers(cassette, config, name, live)
        if check is None:
            _put(_new_lock({name or "": servers[""]} if "" in servers else servers, values), output)
            return
        from ...diff.locking import servers_of

        locked = servers_of(check)
        is_one = name is not None or "" in servers
        if "" in servers:
            servers = {_locked_name(check, locked, name): servers[""]}
        code = _check(check, sorted(servers if is_one else locked), len(locked), servers, options, values)
        if update:
            keep = {one: version for one, version in locked.items() if one not in servers}
            _write(_new_lock(servers, values, locked, keep if is_one else {}), check)
        else:
            _hint(check, sorted(servers.keys() - locked.keys()), code)
    ctx.exit(code)


def _expect_of_server(values: OptionValues, command: tuple[str, ...]) -> None:
    """Refuse options that need a URL or a command without one."""
    for row in (*UPSTREAM, HEADER_ENV):
        if is_given(row, values) and not values.url:
            raise click.UsageError(f"{row.flag} goes with --url")
    for row in (_ENV, CWD):
        if is_given(row, values) and not command:
            raise click.UsageError(f"{row.flag} goes with a command")


def _servers(cassette: str | None, config: str | None, name: str | None, live: LiveTarget) -> Servers:
    """Return the servers to ask, or their recordings, by name; the name is empty if it is not known yet."""
    if cassette:
        from ...diff.locking import references_in

        return references_in(read_place(cassette), name)
    if not config:
        return {"": live}
    from ...start.config_run import read_config
    from ...testing.entries import read_entries

    settings, key = read_config(config)
    entries = read_entries(settings[key])
    if name is not None and name not in entries:
        raise click.UsageError(f"{config} has no server {name}; it has: {', '.join(entries)}")
    found = {}
    for one, entry in entries.items():
        if name in (None, one):
            own = entry.expand(os.environ)
            around = live.around._replace(env=tuple(own.env.items()), cwd=own.cwd)
            headers = tuple(own.headers.items())
            found[one] = live._replace(command=own.command, url=own.url or "", headers=headers, around=around, name=one)
    return found


def _locked_name(check: str, locked: Mapping[str, Version], name: str | None) -> str:
    """Return the name in a lock of the only server to ask."""
    if name is None and len(locked) == 1:
        return next(iter(locked))
    if name in locked:
        return str(name)
    listed = ", ".join(locked)
    if name is None:
        raise click.UsageError(f"{check} holds several servers: {listed}; say which this is with --server NAME")
    raise click.UsageError(f"{check} has no server {name}; it has: {listed}")


def _new_lock(
    servers: Servers, values: OptionValues, locked: Mapping[str, Version] = {}, keep: Mapping[str, Version] = {}
) -> NewLock:
    """Lock servers: with all capabilities or, if they are locked already, with the same again. `keep`: others."""
    from ...diff.locking import lock_of
    from ...diff.surveys import names_of

    wanted = {}
    for name, one in servers.items():
        if not isinstance(one, str) and one.capabilities is None:
            client = locked[name].surface.client if name in locked else None
            one = one._replace(capabilities=names_of(client))
        wanted[name] = one
    return lock_of(wanted, rules_from(values), keep)


def _expect_one_server(cassette: str | None, config: str | None, command: Sequence[str], url: str | None) -> None:
    """Refuse none, and more than one."""
    given = [
        *([f"the cassette {cassette}"] if cassette else ()),
        *([f"--config {config}"] if config else ()),
        *([f"the command {command[0]}"] if command else ()),
        *([f"--url {hide_secrets(url)}"] if url else ()),
    ]
    if not given:
        raise click.UsageError("which server? Give one of: -- and its command, --url URL, --config FILE, a CASSETTE")
    if len(given) > 1:
        raise click.UsageError(f"give one server, not {len(given)}: {', '.join(given)}")


def _put(made: NewLock, output: str | None) -> None:
    if output is None or not os.path.lexists(output):
        return _write(made, output)
    if os.path.isfile(output):
        with open(output, "rb") as file:
            if file.read() == made.text.encode():
                return say(f"{output} is up to date")
    if os.path.isdir(output):
        raise OutputExistsError(
            f"{output} is a directory; name a file in it: -o {quote_path(os.path.join(output, 'mcp.lock'))}"
        )
    place = quote_path(output)
    raise OutputExistsError(
        f"{output} already exists, and was not changed\n"
        f"To compare with it: --check {place}; to lock it again: --check {place} --update"
    )


def _write(made: NewLock, output: str | None) -> None:
    for note in made.notes:
        say(note)
    write_out([made.text.encode()], output)
    if output is not None:
        counted = (count(number, what.removesuffix("s")) for what, number in made.counts.items() if number)
        say(f"{output}: {', '.join(counted)}")


def _check(
    check: str, names: Sequence[str], of: int, now: Servers, options: ComparisonOptions, values: OptionValues
) -> int:
    """Compare servers of a lock, which holds `of`, with today's servers of the same names. Return the exit code."""
    from ...compare.versions import PARTS
    from ...fleet.many.diffing import CassettePair, DiffTask, compare_pair, files_of, name_of

    pairs = [CassettePair(f"{check}#{name}" if of > 1 else check, now.get(name)) for name in names]
    judging = options.judging()._replace(fail_on="error")
    task = DiffTask(judging, PARTS[:1], rules_from(values)._replace(environ={}), command="lock")
    run = CommandRun("lock", "checking", 1, None, quiet=True)
    results = run.results(partial(compare_pair, task=task), pairs, name_of, files_of)
    is_alone = len(pairs) == 1
    project = judging.project()
    return worst_exit_code(report(results, project, options, alone=is_alone, names=not is_alone, verdict=give_verdict))


def _hint(check: str, new: Sequence[str], code: int) -> None:
    for name in new:
        say(f"{name} is not in {check}, so it breaks no client; to add it: --update")
    if code == 1:
        say(f"if this is intended, lock it: mcp-tape lock --check {quote_path(check)} --update …")

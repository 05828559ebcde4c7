"""mcp-tape clients"""

from __future__ import annotations

import os

import click

from ...clients.finding import Choice, Found, find
from ...console import say
from ...console.terminal import columns, echo, echo_json, fit, wrap, writable
from ...redaction.redactor import Redactor
from ..click_options import json_option
from ..wrapping import line


@click.command("clients", epilog="\b\nExamples:\n  mcp-tape clients\n  mcp-tape clients --json")
@json_option
def command(as_json: bool) -> None:
    """List the MCP clients on this machine: their files, their servers, and which are wrapped.

    It looks where each client keeps the user's servers, and in the current directory for a project's.
    Nothing is changed. mcp-tape wrap puts the tape into a server, mcp-tape unwrap takes it out.
    """
    there = list(find(os.getcwd(), os.environ))
    for one in there:
        if as_json:
            echo_json(_facts(one))
            continue
        title = f"{one.place.client.title} ({one.place.scope}): {one.place.path}"
        echo(writable(fit(title, columns())), bold=True)
        if one.problem:
            say(one.problem)
        for server in one.servers():
            echo(writable("  " + wrap(line(Choice(one, server))[2:], columns() - 2, indent=5)))
    if not there and not as_json:
        say("no client has a configuration here; see mcp-tape wrap --config FILE")


def _facts(one: Found) -> dict[str, object]:
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
    ]
    place = one.place
    facts = {"client": place.client.name, "scope": place.scope, "path": place.path, "format": place.client.kind}
    return facts | {"problem": one.problem, "servers": servers}

"""Options of the command line: click's, made from the table, and values for the API made from them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ..options import LISTENING, MAX_BODY, Option, known
from . import say

if TYPE_CHECKING:
    from ..api import Web
    from ..record.recorder import Options as RecordOptions
    from ..redaction.diagnostics import Rules
    from ..replay.stage import Replay

F = TypeVar("F", bound=Callable[..., Any])


def files(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:
    """Let a shell complete a word to files."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="file")]


def cassette_argument(function: F) -> F:
    return click.argument("file", metavar="FILE", shell_complete=files)(function)


def session_option(function: F) -> F:
    return click.option("--session", type=int, metavar="N", help="Which session; default: the newest.")(function)


def json_option(function: F) -> F:
    return click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")(function)


_TYPES: dict[str, Any] = {
    "integer": int,
    "number": click.FloatRange(min=0),
    "seconds": click.FloatRange(min=0, min_open=True),
    "file": click.Path(exists=True, dir_okay=False),
}


def given_as(*rows: Option) -> Callable[[F], F]:
    """Decorator of a command: rows of the table as its options, in this order."""

    def decorate(function: F) -> F:
        for row in reversed(rows):
            function = _option(row)(function)
        return function

    return decorate


def _option(row: Option) -> Callable[[F], F]:
    def take(ctx: click.Context, param: click.Parameter, value: Any) -> Any:
        try:
            return row.taken(value)
        except ValueError as error:
            raise click.BadParameter(str(error)) from None

    names = (row.short, row.flag, row.name) if row.short else (row.flag, row.name)
    more: dict[str, Any] = {"is_flag": True} if row.kind == "flag" else {"multiple": row.multiple}
    if row.default is not None:
        more |= {"default": row.default, "show_default": True}
    if row.kind == "path":
        more["shell_complete"] = files
    kind = click.Choice(row.kind) if isinstance(row.kind, tuple) else _TYPES.get(row.kind)
    return click.option(
        *names, metavar=row.metavar, type=kind, callback=take, hidden=bool(row.hidden), help=row.help, **more
    )


def web_from(given: dict[str, Any]) -> Web:
    """Where to listen and which server to ask. Refuse what does not count there."""
    from ..api import Web

    more = {name: given[name] for name in ("url", "headers", "cacert", "max_body", "head_timeout") if given.get(name)}
    if not given["listen"]:
        if given["allow_remote"]:
            raise click.UsageError("--allow-remote goes with --listen")
        for row in (MAX_BODY, *LISTENING):
            if row.counts == "listening" and given.get(row.name) and not given.get("url"):
                raise click.UsageError(f"{row.flag} goes with --listen; on stdin and stdout it does not count")
        return Web(**more)
    from ..transports.http.addresses import is_loopback

    host, port = given["listen"]
    if not is_loopback(host):
        if not given["allow_remote"]:
            raise click.UsageError(
                f"--listen {host}:{port} can be reached by other machines; add --allow-remote if that is meant"
            )
        say(f"warning: everybody who can reach {host}:{port} can talk to it; there is no password")
    return Web(host, port, **more)


def record_from(command: tuple[str, ...], given: dict[str, Any]) -> RecordOptions:
    from ..record.recorder import Options

    chosen = {name: value for name, value in given.items() if name in Options._fields and value is not None}
    chosen |= {"known": known(given)}
    chosen |= {"target": {"url": given["url"]}, "transport": "http"} if given["url"] else {}
    words = list(command) if given["no_redact"] else without_home(command)
    return Options(**{"target": {"command": words}} | chosen, redact=not given["no_redact"])


def without_home(words: Sequence[str]) -> list[str]:
    """Words with ~ for the user's home directory, which is private."""
    import os

    home = os.path.expanduser("~").rstrip("/")
    inside = re.compile(rf"(?:^|(?<=[=:,])){re.escape(home)}(?=[/:,]|$)")
    return [inside.sub("~", word) for word in words] if home.startswith("/") else list(words)


def rules_from(given: dict[str, Any]) -> Rules:
    import os

    from ..redaction.diagnostics import Rules

    keys, paths, values = (given[name] for name in ("redact_keys", "redact_paths", "redact_values"))
    return Rules(keys, paths, values, named=given["redact_with"], environ=os.environ, known=known(given))


def check_faults(options: Replay, listen: object) -> None:
    """Refuse faults that need HTTP where there is none."""
    for source in options.faults:
        from ..replay.faults import ONLY_HTTP, parse

        if not listen and parse(source).kind in ONLY_HTTP:
            raise click.UsageError(f"--fault {source} is for HTTP: add --listen, or try disconnect or error:CODE")

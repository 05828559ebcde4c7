"""Options that several commands share, and what is made of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from . import say
from .known import KNOWN, OF_TEST, known

if TYPE_CHECKING:
    from ..api import Replay, Web
    from ..record.recorder import Options as RecordOptions
    from ..redaction.diagnostics import Rules

F = TypeVar("F", bound=Callable[..., Any])


def files(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:
    """What a shell completes a word to: files."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="file")]


def cassette_argument(function: F) -> F:
    return click.argument("file", metavar="FILE", shell_complete=files)(function)


def session_option(function: F) -> F:
    return click.option("--session", type=int, metavar="N", help="Which session; default: the newest.")(function)


def json_option(function: F) -> F:
    return click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")(function)


def json_paths(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    """A callback that refuses what is no JSONPath."""
    for value in values:
        from ..wire.jsonpath import compile_path  # only where the option is used

        try:
            compile_path(value)
        except ValueError as error:
            raise click.BadParameter(str(error)) from None
    return values


def patterns(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    """A callback that refuses what is no regular expression."""
    for value in values:
        try:
            re.compile(value)
        except re.error as error:
            raise click.BadParameter(f"{value!r} is not a regular expression: {error}") from None
    return values


def size(ctx: click.Context, param: click.Parameter, value: str) -> int:
    """A callback that makes a number of bytes of 64M and the like."""
    from ..wire.sizes import parse_size  # only where the option is used

    try:
        return parse_size(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def size_if_given(ctx: click.Context, param: click.Parameter, value: str | None) -> int | None:
    """The same where there may be none."""
    return None if value is None else size(ctx, param, value)


def _functions(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    for value in values:
        from ..wire.named_functions import named_function  # only where the option is used

        try:
            named_function(value)
        except ValueError as error:
            raise click.BadParameter(str(error)) from None
    return values


def _list_of_paths(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[str, ...]:
    if not value:
        return ()
    from ..wire.jsonpath import split_paths  # only where the option is used

    return json_paths(ctx, param, tuple(split_paths(value)))


def _faults(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    for value in values:
        from ..replay.faults import parse  # only where the option is used

        try:
            parse(value)
        except ValueError as error:
            raise click.BadParameter(str(error)) from None
    return values


def _appendable(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    try:
        if value is not None:
            open(value, "ab").close()
    except OSError as error:
        raise click.BadParameter(f"cannot write {value}: {error.strerror}") from None
    return value


def _session(ctx: click.Context, param: click.Parameter, value: str) -> str:
    if value not in ("latest", "all") and not value.isdigit():
        raise click.BadParameter(f"{value!r} is neither latest, all nor a session's number")
    return value


def _address(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[str, int] | None:
    """HOST:PORT, or a port alone."""
    if value is None:
        return None
    host, colon, port = value.rpartition(":")
    host = host.removeprefix("[").removesuffix("]") if colon else "127.0.0.1"
    if not port.isdecimal() or int(port) > 65535 or not host:
        raise click.BadParameter(f"{value!r} is not HOST:PORT, as in 127.0.0.1:8000; port 0 picks a free one")
    return host, int(port)


def _headers(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    pairs = [tuple(part.strip() for part in value.split(":", 1)) for value in values]
    for pair in pairs:
        if len(pair) != 2 or not re.fullmatch(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", pair[0]) or not _is_header(pair[1]):
            # What stands behind the colon, or alone, is probably a secret.
            shown = f" ({pair[0]!r})" if len(pair) == 2 else ""
            raise click.BadParameter(f"that is no header{shown}; write it as 'Name: value'")
    return tuple((name, value) for name, value in pairs)


def _is_header(value: str) -> bool:
    return all(c == "\t" or (c.isprintable() and ord(c) < 256) for c in value)


def _url(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    if value is not None and not _is_url(value):
        from ..redaction.diagnostics import hidden

        raise click.BadParameter(f"{hidden(value)!r} is no http or https URL, as in https://host/mcp")
    return value


def _is_url(value: str) -> bool:
    from urllib.parse import urlsplit  # only where the option is used

    try:
        parts = urlsplit(value)
        port = parts.port  # raises where it is no number, or none that could be
    except ValueError:
        return False
    plain = all(c.isprintable() and not c.isspace() for c in value)
    return plain and parts.scheme in ("http", "https") and bool(parts.hostname) and port != 0


def _certificates(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    if value is not None:
        import ssl  # only where the option is used

        try:
            ssl.create_default_context(cafile=value)
        except (OSError, ssl.SSLError) as error:
            raise click.BadParameter(f"{value} holds no certificate that can be read: {error}") from None
    return value


_URL = (click.option("--url", metavar="URL", callback=_url, help="The HTTP server, instead of a command."),)
_UPSTREAM = (
    click.option("--header", "headers", metavar="'K: V'", multiple=True, callback=_headers,
                 help="Send this header to the server with every request, e.g. 'Authorization: Bearer …'."),
    click.option("--cacert", metavar="FILE", type=click.Path(exists=True, dir_okay=False),
                 callback=_certificates,
                 help="Trust this certificate authority, and no other."),
)  # fmt: skip
_LISTENING = (
    click.option("--listen", metavar="HOST:PORT", callback=_address,
                 help="Serve HTTP here; port 0 picks a free one. The URL is printed on stdout."),
    click.option("--allow-remote", is_flag=True, help="Let --listen name an address that other machines can reach."),
    click.option("--head-timeout", metavar="SECONDS", type=click.FloatRange(min=0, min_open=True),
                 help="Over HTTP, how long the head of a request may take. Default: 30."),
)  # fmt: skip
_BODIES = (
    click.option("--max-body", metavar="SIZE", callback=size_if_given,
                 help="Over HTTP, refuse larger requests to a replay with status 413, e.g. 800k or 1G. Default: 64M."),
)  # fmt: skip
_REDACTING = (
    click.option("--redact-key", "redact_keys", metavar="KEY", multiple=True,
                 help="Hide strings under this key too."),
    click.option("--redact-path", "redact_paths", metavar="JSONPATH", multiple=True, callback=json_paths,
                 help="Hide what stands at this place, e.g. '$.params.arguments.pin'."),
    click.option("--redact-value", "redact_values", metavar="REGEX", multiple=True, callback=patterns,
                 help="Hide text that this regular expression finds."),
    click.option("--redact-with", metavar="MODULE:FUNCTION", multiple=True, callback=_functions,
                 help="Hide what this Python function of a text hides."),
)  # fmt: skip
_RECORDING = (
    click.option("--note", metavar="TEXT", help="A remark, kept with the session."),
    *_REDACTING,
    *KNOWN,
    *OF_TEST,
    click.option("--max-decoded", metavar="SIZE", default="64M", show_default=True, callback=size,
                 help="Leave out the body of an HTTP message that has more bytes than this when decompressed."),
    click.option("--no-redact", is_flag=True, help="Keep secrets. The cassette is then one itself."),
)  # fmt: skip
_REPLAYING = (
    click.option("--session", default="latest", show_default=True, callback=_session,
                 help="latest, all or a number; latest: the newest that is more than a probe, and what extends it."),
    click.option("--ignore", metavar="JSONPATH", multiple=True, callback=json_paths,
                 help="Leave this out when requests are compared, e.g. '$.params.arguments.now'."),
    click.option("--match-on", metavar="JSONPATH,...", callback=_list_of_paths,
                 help="Compare only these, e.g. '$.params.name'."),
    click.option("--repeats", type=click.Choice(["error", "last", "cycle"]),
                 help="More requests than recorded: a miss, the last answer, or start over. Default: error; cycle for "
                 "clients of the modern era over HTTP, who share one tape."),
    click.option("--order", type=click.Choice(["arrival", "recorded"]), default="arrival", show_default=True,
                 help="Answer concurrent calls as they arrive, or in the order recorded."),
    click.option("--speed", type=click.FloatRange(min=0), default=0.0, show_default=True,
                 help="0: never wait. 1: as slow as it was. 2: twice as fast."),
    click.option("--fault", "faults", metavar="TARGET=FAULT", multiple=True, callback=_faults,
                 help="Break an answer, e.g. 'tools/call:search@2=error:-32000'."),
    click.option("--seed", type=int, default=0, show_default=True, help="For faults that happen by chance."),
    click.option("--strict", is_flag=True, help="Recorded requests that nobody made are a finding too (exit 1)."),
    click.option("--report", metavar="FILE", callback=_appendable, help="Append what happens, as JSON lines."),
)  # fmt: skip
_BOTH = (
    click.option(
        "--run",
        metavar="ID",
        help="Commands with the same ID are one run: recorded together, replayed in that order. Give each "
        "run a new one. Default: $MCP_TAPE_RUN; for use and replay else the program that started them.",
    ),
    click.option("-q", "--quiet", is_flag=True, help="Say nothing unless something is wrong."),
)


def recording_options(function: F) -> F:
    return _with(function, _RECORDING)


def redacting_options(function: F) -> F:
    return _with(function, _REDACTING)


def replaying_options(function: F) -> F:
    return _with(function, _REPLAYING)


def web_options(function: F) -> F:
    return _with(function, _URL + _UPSTREAM)


def upstream_options(function: F) -> F:
    """How to ask a server at a URL that is given otherwise."""
    return _with(function, _UPSTREAM)


def listening_options(function: F) -> F:
    return _with(function, _LISTENING)


def body_options(function: F) -> F:
    """What a replay takes in over HTTP."""
    return _with(function, _BODIES)


def web_from(given: dict[str, Any]) -> Web:
    """Where to listen and whom to ask, from what was given on the command line."""
    from ..api import Web

    more = {name: given[name] for name in ("url", "headers", "cacert", "max_body", "head_timeout") if given.get(name)}
    if not given["listen"]:
        if given["allow_remote"]:
            raise click.UsageError("--allow-remote goes with --listen")
        for name in ("max_body", "head_timeout"):
            if given.get(name) and not given.get("url"):
                raise click.UsageError(
                    f"--{name.replace('_', '-')} goes with --listen; on stdin and stdout it does not count"
                )
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


def common_options(function: F) -> F:
    return _with(function, _BOTH)


def _with(function: F, options: tuple[Callable[[F], F], ...]) -> F:
    for option in reversed(options):
        function = option(function)
    return function


def record_from(command: tuple[str, ...], given: dict[str, Any]) -> RecordOptions:
    """How to record, from what was given on the command line."""
    from ..record.recorder import Options

    chosen = {name: value for name, value in given.items() if name in Options._fields}
    chosen |= {"known": known(given)}
    chosen |= {"target": {"url": given["url"]}, "transport": "http"} if given["url"] else {}
    words = list(command) if given["no_redact"] else without_home(command)
    return Options(**{"target": {"command": words}} | chosen, redact=not given["no_redact"])


def without_home(words: Sequence[str]) -> list[str]:
    """Paths within the user's home, from ~ on: where that is, is nobody's business but the user's."""
    import os

    home = os.path.expanduser("~").rstrip("/")
    inside = re.compile(rf"(?:^|(?<=[=:,])){re.escape(home)}(?=[/:,]|$)")
    return [inside.sub("~", word) for word in words] if home.startswith("/") else list(words)


def rules_from(given: dict[str, Any]) -> Rules:
    """What to hide, from what was given on the command line."""
    import os

    from ..redaction.diagnostics import Rules

    keys, paths, values = (given[name] for name in ("redact_keys", "redact_paths", "redact_values"))
    return Rules(keys, paths, values, named=given["redact_with"], environ=os.environ, known=known(given))


def replay_from(given: dict[str, Any]) -> Replay:
    """How to replay, from what was given on the command line."""
    from ..api import Replay

    chosen = {name: value for name, value in given.items() if name in Replay._fields}
    return Replay(in_recorded_order=given["order"] == "recorded", known=known(given), **chosen)


def check_faults(options: Replay, listen: object) -> None:
    """Some faults need HTTP."""
    for source in options.faults:
        from ..replay.faults import ONLY_HTTP, parse

        if not listen and parse(source).kind in ONLY_HTTP:
            raise click.UsageError(f"--fault {source} is for HTTP: add --listen, or try disconnect or error:CODE")

"""Values for the API, made from option values. Contradictory options raise MisuseError."""

from __future__ import annotations

import os

from ..console import say
from ..errors import MisuseError
from ..options import AUTH, HEADER_ENV, LISTENING, MAX_BODY, OVER_STDIO, USE, WORKERS, is_given, known_variables
from ..wire.channels import HTTP, STDIO

TYPE_CHECKING = False  # as in the package's __init__
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..api import Web
    from ..options import OptionValues
    from ..record.recording_options import RecordingOptions as RecordOptions
    from ..redaction.diagnostics import Rules
    from ..replay.stage import ReplayOptions
    from ..transports.process import Around


def check_server(command: tuple[str, ...], values: OptionValues) -> None:
    """Refuse anything but exactly one server, and options that don't fit it."""
    url = values.url
    if not command and not url:
        raise MisuseError("which server should be recorded? Add -- and its command, or --url URL")
    if command and url:
        from ..redaction.diagnostics import hide_secrets

        raise MisuseError(f"either --url {hide_secrets(url)} or the command {command[0]}, not both")
    if values.over_stdio and (values.listen or values.head_timeout):
        raise MisuseError("either --stdio or --listen, not both: one client comes on stdin, others at an address")
    for row in (*USE, HEADER_ENV, OVER_STDIO):
        if command and row.counts not in (None, "command") and is_given(row, values):
            raise MisuseError(f"{row.flag} needs --url; a command talks on stdin and stdout")
        if url and row.counts == "command" and is_given(row, values):
            raise MisuseError(f"{row.flag} needs a command; a server at a URL is not started by mcp-tape")


def complete_values(values: OptionValues) -> tuple[OptionValues, tuple[str, ...]]:
    """Add variables and headers for the server from a test, and variables from our parent processes.

    Also returns the names of variables that none of them has.
    """
    env, missing = values.env, tuple[str, ...]()
    headers = (*values.headers, *values.header_env)
    if values.env_from:
        from ..transports.environment_handover import from_parents

        found = tuple(from_parents(values.env_from))
        env, missing = (*found, *env), tuple(name for name in values.env_from if name not in dict(found))
    if handed := values.of_test:
        env, headers, missing = (*env, *handed.env), (*headers, *handed.headers), (*missing, *handed.missing)
    return values._replace(env=env, headers=headers), missing


def around_from(values: OptionValues, missing: tuple[str, ...]) -> Around | None:
    """The additions to our environment for a server; None if there are none."""
    if not (values.env or values.cwd or missing):
        return None
    from ..transports.process import Around

    return Around(values.env, values.cwd, missing)


def web_from(values: OptionValues) -> Web:
    """The address to listen at, and the server to ask. Refuse options that don't apply."""
    from ..api import Web

    web = Web(
        url=values.url or "", headers=values.headers, cacert=values.cacert, max_body=values.max_body,
        head_timeout=values.head_timeout,
    )  # fmt: skip
    if not values.listen:
        if values.allow_remote:
            raise MisuseError("--allow-remote needs --listen")
        for row in (AUTH, MAX_BODY, WORKERS, *LISTENING):
            if row.counts == "listening" and is_given(row, values) and not values.url:
                raise MisuseError(f"{row.flag} needs --listen; it has no effect on stdin and stdout")
        return web
    from ..transports.http.addresses import is_loopback

    host, port = values.listen
    if not is_loopback(host):
        if not values.allow_remote:
            raise MisuseError(
                f"--listen {host}:{port} can be reached by other machines; add --allow-remote if that is intended"
            )
        say(f"warning: anyone who can reach {host}:{port} can talk to it; there is no password")
    return web._replace(host=host, port=port)


def record_from(command: tuple[str, ...], values: OptionValues) -> RecordOptions:
    from ..record.recording_options import RecordingOptions

    target: dict[str, object] = {"url": values.url}
    if not values.url:
        target = {"command": list(command) if values.no_redact else hide_home(command)}
    return RecordingOptions(
        target, HTTP if values.url and not values.over_stdio else STDIO,
        note=values.note, run=values.run, label=values.label, new_times=values.new_times, redact=not values.no_redact,
        redact_keys=values.redact_keys, redact_paths=values.redact_paths, redact_values=values.redact_values,
        redact_with=values.redact_with, max_decoded=values.max_decoded, headers=values.headers,
        known=known_variables(values),
    )  # fmt: skip


def hide_home(words: Sequence[str]) -> list[str]:
    """Replace the user's home directory, which is private, by ~."""
    home = os.path.expanduser("~").rstrip(r"\/")
    if not os.path.isabs(home) or not any(home in word for word in words):
        return list(words)
    import re

    inside = re.compile(rf"(?:^|(?<=[=:,])){re.escape(home)}(?=[\\/:,]|$)")
    return [inside.sub("~", word) for word in words]


def rules_from(values: OptionValues) -> Rules:
    from ..redaction.diagnostics import Rules

    own = values.redact_keys, values.redact_paths, values.redact_values
    return Rules(*own, named=values.redact_with, environ=os.environ, known=known_variables(values))


def check_faults(options: ReplayOptions, listen: object) -> None:
    """Refuse faults that need HTTP, or a login, where there is none."""
    for source in options.faults:
        from ..replay.faults import ONLY_HTTP, ONLY_LOGIN, parse_fault

        kind = parse_fault(source).kind
        if not listen and kind in ONLY_HTTP:
            raise MisuseError(f"--fault {source} is for HTTP: add --listen, or try disconnect or error:CODE")
        if kind in ONLY_LOGIN and not (listen and options.auth):
            raise MisuseError(f"--fault {source} is for a server that needs a login: add --listen and --auth")

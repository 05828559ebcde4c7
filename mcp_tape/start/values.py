"""Values for the API, made from those of the table of options; MisuseError for what does not go together."""

from __future__ import annotations

import os

from ..console import say
from ..errors import MisuseError
from ..options import HEADER_ENV, LISTENING, MAX_BODY, OVER_STDIO, USE, WORKERS, known
from ..wire.channels import HTTP, STDIO

TYPE_CHECKING = False  # as in the package's __init__
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from ..api import Web
    from ..record.options import Options as RecordOptions
    from ..redaction.diagnostics import Rules
    from ..replay.stage import Replay
    from ..transports.process import Around


def check_server(command: tuple[str, ...], given: dict[str, Any]) -> None:
    """Refuse all but one server, and options of a URL without one."""
    url = given["url"]
    if not command and not url:
        raise MisuseError("what should be recorded? Add -- and the server's command, or --url URL")
    if command and url:
        from ..redaction.diagnostics import hidden

        raise MisuseError(f"either --url {hidden(url)} or the command {command[0]}, not both")
    if given.get("over_stdio") and (given["listen"] or given["head_timeout"]):
        raise MisuseError("either --stdio or --listen, not both: one client comes on stdin, others at an address")
    for row in (*USE, HEADER_ENV, OVER_STDIO):
        if command and row.counts not in (None, "command") and given.get(row.name):
            raise MisuseError(f"{row.flag} needs --url; a command talks on stdin and stdout")
        if url and row.counts == "command" and given.get(row.name):
            raise MisuseError(f"{row.flag} needs a command; a server at a URL is not started by mcp-tape")


def completed(given: dict[str, Any]) -> dict[str, Any]:
    """Add what the server is to get of others: of a test, and of the programs that started us."""
    env, missing, handed = given["env"], (), given.get("of_test")
    headers = (*given["headers"], *given.get("header_env", ()))
    if given["env_from"]:
        from ..transports.handover import from_parents

        found = tuple(from_parents(given["env_from"]))
        env, missing = (*found, *env), tuple(name for name in given["env_from"] if name not in dict(found))
    if handed:
        env, headers, missing = (*env, *handed.env), (*headers, *handed.headers), (*missing, *handed.missing)
    return given | {"env": env, "headers": headers, "missing": missing}


def around(given: dict[str, Any]) -> Around | None:
    """What a server of ours gets beside our own environment; None if that is nothing."""
    if not (given["env"] or given["cwd"] or given["missing"]):
        return None
    from ..transports.process import Around

    return Around(given["env"], given["cwd"], given["missing"])


def web_from(given: dict[str, Any]) -> Web:
    """Where to listen and which server to ask. Refuse what does not count there."""
    from ..api import Web

    more = {name: given[name] for name in ("url", "headers", "cacert", "max_body", "head_timeout") if given.get(name)}
    if not given["listen"]:
        if given["allow_remote"]:
            raise MisuseError("--allow-remote needs --listen")
        for row in (MAX_BODY, WORKERS, *LISTENING):
            if row.counts == "listening" and given.get(row.name) and not given.get("url"):
                raise MisuseError(f"{row.flag} needs --listen; it has no effect on stdin and stdout")
        return Web(**more)
    from ..transports.http.addresses import is_loopback

    host, port = given["listen"]
    if not is_loopback(host):
        if not given["allow_remote"]:
            raise MisuseError(
                f"--listen {host}:{port} can be reached by other machines; add --allow-remote if that is intended"
            )
        say(f"warning: anyone who can reach {host}:{port} can talk to it; there is no password")
    return Web(host, port, **more)


def record_from(command: tuple[str, ...], given: dict[str, Any]) -> RecordOptions:
    from ..record.options import Options

    chosen = {name: value for name, value in given.items() if name in Options._fields and value is not None}
    chosen |= {"known": known(given)}
    if given["url"]:
        chosen |= {"target": {"url": given["url"]}, "transport": STDIO if given.get("over_stdio") else HTTP}
    words = list(command) if given["no_redact"] else without_home(command)
    return Options(**{"target": {"command": words}} | chosen, redact=not given["no_redact"])


def without_home(words: Sequence[str]) -> list[str]:
    """Words with ~ for the user's home directory, which is private."""
    home = os.path.expanduser("~").rstrip("/")
    if not home.startswith("/") or not any(home in word for word in words):
        return list(words)
    import re

    inside = re.compile(rf"(?:^|(?<=[=:,])){re.escape(home)}(?=[/:,]|$)")
    return [inside.sub("~", word) for word in words]


def rules_from(given: dict[str, Any]) -> Rules:
    from ..redaction.diagnostics import Rules

    keys, paths, values = (given[name] for name in ("redact_keys", "redact_paths", "redact_values"))
    return Rules(keys, paths, values, named=given["redact_with"], environ=os.environ, known=known(given))


def check_faults(options: Replay, listen: object) -> None:
    """Refuse faults that need HTTP where there is none."""
    for source in options.faults:
        from ..replay.faults import ONLY_HTTP, parse

        if not listen and parse(source).kind in ONLY_HTTP:
            raise MisuseError(f"--fault {source} is for HTTP: add --listen, or try disconnect or error:CODE")

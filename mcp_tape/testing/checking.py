"""Refuses at once what would fail only when a client comes, perhaps in another thread or process."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, get_args

from .. import api, modes
from ..errors import TapeError
from ..redaction.diagnostics import hidden


def check(mode: str, replay: api.Replay, order: str, paths: Sequence[str], patterns: Sequence[str]) -> None:
    """The options of a tape; `paths` and `patterns` are those of redactions."""
    _one_of("mode", mode, get_args(modes.Mode))
    _one_of("order", order, ("arrival", "recorded"))
    _one_of("repeats", replay.repeats, (None, "error", "last", "cycle"))
    if replay.session not in ("latest", "all") and not replay.session.isdecimal():
        raise TapeError(f"session {replay.session!r} is neither latest, all nor a session's number")
    if not replay.speed >= 0:
        raise TapeError(f"speed {replay.speed} is less than 0")
    _try(re.compile, patterns, "no regular expression")
    for name, sources in (("ignore", replay.ignore), ("match_on", replay.match_on), ("redact_paths", paths)):
        if sources:
            from ..wire.jsonpath import compile_path  # only where it is needed

            _try(compile_path, sources, f"nothing for {name}")
    if replay.faults:
        from ..replay.faults import parse

        _try(parse, replay.faults, "no fault")
    for function in (*replay.rules, *replay.choosers):
        if not callable(function):
            raise TapeError(f"{function!r} is neither a text nor a function")


def check_server(command: Sequence[str], url: str | None) -> None:
    if isinstance(command, str):
        raise TapeError(f"the command must be a list of words, as in {command.split()!r}")
    if command and url:
        raise TapeError(f"either the command {command[0]} or the URL {hidden(url)}, not both")


def check_session(path: str, session: str) -> None:
    """That there is the session to play."""
    if session.isdecimal():
        from ..cassette.reader import Cassette

        with Cassette(path) as cassette:
            cassette.session(int(session))


def _one_of(name: str, value: object, choices: Sequence[object]) -> None:
    if value not in choices:
        named = ", ".join(str(choice) for choice in choices if choice is not None)
        raise TapeError(f"there is no {name} {value!r}: choose one of {named}")


def _try(understand: Callable[[str], Any], sources: Sequence[str], what: str) -> None:
    if isinstance(sources, str):
        raise TapeError(f"{sources!r} must be in a list")
    for source in sources:
        try:
            understand(source)
        except (ValueError, TypeError, re.error) as error:
            raise TapeError(f"{source!r} is {what}: {error}") from None

"""How recorders are started: settings as a command line."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import TapeError
from ..values import name_of
from .used import Settings


def options(settings: Settings) -> list[str]:
    """The settings as options of the command line."""
    replay = settings.replay
    try:
        functions = [name_of(function) for function in settings.redactions]
    except ValueError as error:
        raise TapeError(str(error)) from None
    words = [
        *_repeated("--redact-key", settings.redact_keys),
        *_repeated("--redact-path", settings.redact_paths),
        *_repeated("--redact-value", settings.redact_values),
        *_repeated("--redact-with", functions),
        *([] if settings.redact else ["--no-redact"]),
        *(["--note", settings.note] if settings.note else []),
    ]
    if settings.mode == "new_episodes":
        if replay.rules or replay.choosers:
            raise TapeError("in mode new_episodes another process plays: rules and faults must be texts, not functions")
        words += ["--session", replay.session, "--speed", str(replay.speed), "--seed", str(replay.seed)]
        words += [*_repeated("--ignore", replay.ignore), *_repeated("--fault", replay.faults)]
        words += ["--match-on", ",".join(replay.match_on)] if replay.match_on else []
        words += ["--repeats", replay.repeats] if replay.repeats else []
        words += ["--order", "recorded"] if replay.in_recorded_order else []
    return words


def _repeated(option: str, values: Sequence[str]) -> list[str]:
    return [word for value in values for word in (option, value)]

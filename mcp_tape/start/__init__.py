"""The commands `record`, `replay` and `use`, with a fast start: tests start a mock server each.

Runs these commands with the values of their options, and parses plain command lines without click, by the table in
mcp_tape/options.py. Help, errors, completion and unusual command lines go to click (cli/), which uses the same table
and calls these functions with the parsed values.

    server_values   values for the API, made from option values
    cassette_names  the default cassette of a server
    config_run      use, for a program with a configuration of several servers
    run_record      the command record
    run_replay      the command replay
    run_use         the command use
    production      record, with sampling and the like
    url_over_stdio  record, for a stdio server in front of one at a URL
    end_report      the summary of a recording or a replay
    by_path         mcp-tape as a script, with the module path of another process
"""

from __future__ import annotations

import os

from ..console import report_error
from ..errors import MisuseError, TapeError

TYPE_CHECKING = False  # as in the package's __init__
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from ..options import Option, OptionValues

    Read = tuple[OptionValues, list[str]]

_COMMANDS = ("record", "replay", "use")
_COMPLETE = "_COMPLETE"  # the suffix of the variable with which a shell asks click for completions


def run(words: Sequence[str]) -> int | None:
    """Run a command line and return its exit code; None, without any effect, if click must handle it."""
    if not words or words[0] not in _COMMANDS or any(name.endswith(_COMPLETE) for name in os.environ):
        return None
    try:
        return _carry_out(words[0], words[1:])
    except MisuseError:
        return None  # click reports it
    except (TapeError, KeyboardInterrupt, OSError) as error:
        return report_error(error)


def _carry_out(name: str, words: Sequence[str]) -> int | None:
    from .. import options

    found = read_options(getattr(options, name.upper()), words, interspersed=name != "record")
    if found is None:
        return None
    values, others = found
    if name == "record":
        from .run_record import record

        return record(tuple(others), values)
    if not others or not others[0] or "://" in others[0]:
        return None  # click handles URLs
    if name == "replay":
        from .run_replay import replay

        return replay(others[0], values) if len(others) == 1 else None
    from .run_use import use

    return use(others[0], tuple(others[1:]), values)


# -- parsing a command line by the table, as click does; None if click must do it


def read_options(rows: Sequence[Option], words: Sequence[str], *, interspersed: bool) -> Read | None:
    """Return the values of options, and the other words; None if the command line is unusual or wrong.

    Unless `interspersed`, options end at the first other word.
    """
    from ..options import OptionValues

    split = _split(rows, words, interspersed)
    if split is None:
        return None
    texts, others = split
    try:
        return OptionValues(**{row.name: _value(row, texts[row.name]) for row in rows if row.name in texts}), others
    except (ValueError, TapeError):
        return None  # click reports the first error


def _split(
    rows: Iterable[Option], words: Sequence[str], interspersed: bool
) -> tuple[dict[str, list[str]], list[str]] | None:
    """The texts of options, by name, and the other words."""
    by_flag = {flag: row for row in rows for flag in (row.flag, row.short)}
    texts: dict[str, list[str]] = {}
    others: list[str] = []
    rest = iter(words)
    for word in rest:
        if word == "--":
            break
        if not word.startswith("-") or word == "-":
            others.append(word)
            if interspersed:
                continue
            break
        flag, equals, text = word.partition("=") if word.startswith("--") else (word, "", "")
        row = by_flag.get(flag)
        if row is None or (equals and row.kind == "flag"):
            return None
        if not equals and row.kind != "flag":
            following = next(rest, None)
            if following is None:
                return None
            text = following
        texts.setdefault(row.name, []).append(text)
    return texts, [*others, *rest]


def _value(row: Option, texts: list[str]) -> Any:
    if row.kind == "flag":
        return True
    if row.multiple:
        return row.convert(tuple(_convert(row.kind, text) for text in texts))
    return row.convert(_convert(row.kind, texts[-1]))  # the last one wins


def _convert(kind: str | tuple[str, ...], text: str) -> Any:
    """Convert a text by its kind. Raises ValueError if click may refuse it."""
    if kind == "integer":
        return int(text)
    if kind in ("number", "seconds"):
        value = float(text)
        if not (value > 0 or (value == 0 and kind == "number")):
            raise ValueError(text)
        return value
    if kind == "file" and not (os.path.isfile(text) and os.access(text, os.R_OK)):
        raise ValueError(text)
    if isinstance(kind, tuple) and text not in kind:
        raise ValueError(text)
    return text

"""mcp-tape use --config: runs a program with the servers of its configuration replaced by their tapes."""

from __future__ import annotations

import json
import os
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from ..clients import jsonc
from ..console import report_error, say
from ..errors import MisuseError, SettingsError, TapeError, count, describe_unwritten, quote_path
from ..options import URL, USE, is_given
from ..testing.entries import KEYS, read_entries
from ..testing.use import use_servers
from ..transports import programs
from .end_report import inexact_text

if TYPE_CHECKING:
    from ..options import OptionValues
    from ..replay.misses import Advice
    from ..testing.used import UsedCassette

VARIABLE = "MCP_TAPE_CONFIG"
_SHAPE = 'it must be JSON, as in {"mcpServers": {"time": {"command": "uvx", "args": ["mcp-server-time"]}}}'
_PLACE = "{config}"
_OURS = {"mode", "config", "strict", "fail_on", "quiet"}  # accepted here, though they have no keyword


def run_config(file: str, program: Sequence[str], values: OptionValues, config: str) -> int:
    """Run a program, report misses, and keep the recording if nothing failed. Return the exit code."""
    _check(program, values)
    settings, key = read_config(config)
    # These are checked here, not in the recorders that the tape starts.
    tape = use_servers(file, values._replace(strict=False, fail_on=None), settings[key])
    try:
        tape.words = lambda advice: _advice_words(advice, file, config)
        with _write_copy(settings | tape.config(key), config) as copy:
            words = [word.replace(_PLACE, copy) for word in program]
            code = programs.run(words, {VARIABLE: copy})
    except BaseException:
        tape.finish(keep=False)
        raise
    return _end_tape(tape, code, values)


def _end_tape(tape: UsedCassette, code: int, values: OptionValues) -> int:
    """End the tape and report. Return the exit code: the program's, or 1 if only the tape found problems."""
    if code:  # nothing is kept, so don't wait for servers that might still begin to record
        with suppress(TapeError):
            tape.finish(keep=False)
    problems = [*tape.errors, *dict.fromkeys(miss.report for miss in tape.misses)]
    if values.strict and not problems:
        problems += [
            f"unplayed: {call.server}: #{call.seq} of session {call.session} {call.method} {call.name or ''}"
            for call in tape.unplayed
        ]
    unstruck = [f"the fault {fault} has struck nothing on {tape.path}" for fault in tape.unstruck]
    if values.strict:
        problems += unstruck
    else:
        for text in unstruck:
            say(text)
    if values.fail_on and not problems:
        problems += [f"inexact: {found.title}" for found in tape.inexact]
    for note in () if values.quiet else tape.notes:
        say(f"note: {note}")
    for problem in problems:
        say(problem)
    is_well = not code and not problems
    if tape.is_recording and not is_well:
        why = f"the program ended with {code}" if code else "not all went well"
        say(f"{describe_unwritten(tape.path)}: {why}")
    failed = 0
    try:
        tape.finish(keep=is_well)
    except TapeError as error:
        failed = report_error(error) if is_well else 0  # else it is reported already
    if not values.quiet or problems:
        inexact = inexact_text(Counter(found.rung for found in tape.inexact).items())
        recorded = f", {count(len(tape.calls()), 'call')} made" if tape.is_recording else ""
        say(f"{tape.play_count} played, {len(tape.misses)} missed{inexact}{recorded}: {tape.path}")
    return code or failed or int(not is_well)


def _check(program: Sequence[str], values: OptionValues) -> None:
    if not program:
        raise MisuseError("which program should run? Add -- and its command, with {config} in place of the file")
    for row in USE:
        counts = row is not URL and (row.keyword or row.name in _OURS)
        if not counts and is_given(row, values):
            raise MisuseError(f"{row.flag} does not go with --config, which runs a program with the servers of a file")


def read_config(path: str) -> tuple[dict[str, Any], str]:
    """Read a configuration; return it with the key of its servers. Allows comments and trailing commas, as VS Code."""
    try:
        with open(path, encoding="utf-8-sig") as source:
            text = source.read()
        settings = json.loads(jsonc.plain(text))
    except (OSError, ValueError) as error:
        raise SettingsError(f"cannot read the configuration {path}: {error}; {_SHAPE}") from None
    keys = [key for key in KEYS if isinstance(settings, dict) and isinstance(settings.get(key), dict)]
    if len(keys) != 1:
        raise SettingsError(f"{path} is not a configuration: it must be a JSON object with one of {', '.join(KEYS)}")
    try:
        read_entries(settings[keys[0]])
    except TapeError as error:
        raise SettingsError(f"{path} is not a configuration: {error}") from None
    return settings, keys[0]


@contextmanager
def _write_copy(settings: dict[str, Any], path: str) -> Iterator[str]:
    """Yield a temporary file with this name and the given settings, readable only by this user."""
    with tempfile.TemporaryDirectory(prefix="mcp-tape-") as directory:
        copy = os.path.join(directory, os.path.basename(path))
        with open(copy, "x", encoding="utf-8", opener=lambda name, flags: os.open(name, flags, 0o600)) as target:
            json.dump(settings, target, ensure_ascii=False, indent=2)
        yield copy


def _advice_words(advice: Advice, file: str, config: str) -> str:
    """Advice as a command line."""
    from ..replay.misses import show_command  # loaded only after a miss

    if advice.what == "show":
        return show_command(file, advice)
    words = f"mcp-tape use {quote_path(file)} --{advice.what} {quote_path(advice.value)}"
    return f"{words} --config {quote_path(config)} -- PROGRAM"

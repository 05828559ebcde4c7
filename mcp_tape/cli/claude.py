"""Claude Code's own commands: several of its processes write the user's file at once, so it is left to them.

https://code.claude.com/docs/en/mcp
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from typing import Any

from ..clients.config import Config, keep_backup
from ..clients.spans import Pairs
from ..clients.table import LOCAL, USER
from ..errors import TapeError, pasted

_PATIENCE = 60.0  # seconds
_NAMES_VARIABLE = re.compile(r"\$\{[^}]*\}|")  # nothing but a name, or nothing at all


def has_commands_for(config: Config) -> bool:
    """Return whether a file is to be changed by `claude`, which is here."""
    place = config.place
    is_its = place.client.name == "claude-code" and place.scope in (USER, LOCAL)
    return is_its and os.path.basename(place.path) == ".claude.json" and shutil.which("claude") is not None


def put(config: Config, name: str, entry: Pairs) -> None:
    """Put an entry in the place of the one of that name; TapeError if it stays as it is."""
    scope, old = config.place.scope, config.value.at((*config.way, name))
    _expect_no_secrets(config, name, entry)
    keep_backup(config)
    _claude("remove", "--scope", scope, name)
    try:
        _claude("add-json", "--scope", scope, name, _json(entry))
    except TapeError:
        _claude("add-json", "--scope", scope, name, _json(old))
        raise


def _expect_no_secrets(config: Config, name: str, entry: Pairs) -> None:
    """Refuse to move values of variables and headers onto a command line, where others see them."""
    values = [value for key in ("env", "headers") for _, value in entry.get(key) or ()]
    if not all(isinstance(value, str) and _NAMES_VARIABLE.fullmatch(value) for value in values):
        raise TapeError(
            f"{name} in {config.path} stays as it is: claude would have to be given its variables on a command line; "
            f"end Claude Code, then add: --config {pasted(config.path)}"
        )


def _json(value: Any) -> str:
    return json.dumps(_plain(value), ensure_ascii=False)


def _plain(value: Any) -> Any:
    if isinstance(value, Pairs):
        return {key: _plain(inner) for key, inner in value}
    return [_plain(inner) for inner in value] if isinstance(value, list) else value


def _claude(*words: str) -> None:
    try:
        done = subprocess.run(
            ["claude", "mcp", *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_PATIENCE
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise TapeError(f"claude mcp {words[0]} failed: {error}") from None
    if done.returncode:
        raise TapeError(f"claude mcp {words[0]} failed: {(done.stderr or done.stdout).strip()}")

"""YAML: the servers in the usual files of Goose and Continue, and an edit for people to make.

Reads only what these clients write themselves: blocks with one line per value. Never writes.
"""

from __future__ import annotations

import re

from .positions import Pairs

_LINE = re.compile(
    r"(?P<indent> *)(?P<dash>- +)?(?P<key>[\w.@/-]+|\"[^\"]+\"|'[^']+'):(?: +(?P<value>[^#]*?))?\s*(?:#.*)?"
)


def servers(text: str) -> Pairs:
    """Return `extensions` (by name) or `mcpServers` (a list), each as one object of servers with their plain values."""
    found = Pairs()
    top, depth, entry = "", 0, Pairs()
    for line in text.splitlines():
        match = _LINE.fullmatch(line)
        if not match:
            continue
        indent, key, value = len(match["indent"]), match["key"].strip("\"'"), (match["value"] or "").strip("\"'")
        if not indent and not match["dash"]:
            top, depth = key, 0
            if top in ("extensions", "mcpServers"):
                found.append((top, Pairs()))
        elif top == "extensions" and (not depth or indent == depth):
            depth, entry = indent, Pairs([("args", [])])
            found[-1][1].append((key, entry))
        elif top == "mcpServers" and match["dash"] and key == "name":
            entry = Pairs([("args", [])])
            found[-1][1].append((value, entry))
        elif top in ("extensions", "mcpServers") and value and key != "args":
            entry.append((key, value))
    return found


def advice(name: str, command_key: str, command: str, program: str, words: list[str]) -> str:
    """Return the edit to paste."""
    quoted = [f"      - '{word}'" for word in [*words, "--", command]]
    return "\n".join(
        [
            f"# {name}: the command, and these before all other args",
            f"    {command_key}: {program}",
            "    args:",
            *quoted,
        ]
    )

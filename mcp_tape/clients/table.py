"""The clients: their files, the key of their servers, and the keys within an entry.

Paths begin with ~ (home), {config} (`$XDG_CONFIG_HOME` or ~/.config on Linux, ~/Library/Application Support on macOS,
%APPDATA% on Windows), {xdg} (~/.config on macOS and Windows), {zed}, {goose} or {codex}. Paths of a project begin with
none of these. A * matches any name, ** any directories.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from ..system import calls

JSON, TOML, YAML = "json", "toml", "yaml"
USER, PROJECT, LOCAL = "user", "project", "local"
_SERVERS = (("mcpServers",),)
_BARE = (*_SERVERS, ())  # the whole file may be the map
_CODE = "{config}/Code/User"
_STORAGE = f"{_CODE}/globalStorage"


class Client(NamedTuple):
    """A row of the table.

    name      the value of --client
    title     for people
    user      the user's files, all of which count
    project   files of a project, relative to its directory
    keys      ways to the object of servers; the first that exists counts
    kind      the format of its files
    words     the keys of the command and its arguments in an entry
    desktop   whether it is started from a desktop without a shell's PATH; VS Code and its forks ask a shell
    """

    name: str
    title: str
    user: tuple[str, ...]
    project: tuple[str, ...] = ()
    keys: tuple[tuple[str, ...], ...] = _SERVERS
    kind: str = JSON
    words: tuple[str, str] = ("command", "args")
    desktop: bool = False


CLIENTS = (
    Client("claude-desktop", "Claude Desktop", ("{config}/Claude/claude_desktop_config.json",), desktop=True),
    Client("claude-code", "Claude Code", ("~/.claude.json", "~/.claude/plugins/cache/**/.mcp.json"), (".mcp.json",),
           _BARE),
    Client("cursor", "Cursor", ("~/.cursor/mcp.json",), (".cursor/mcp.json",)),
    Client("vscode", "VS Code", (f"{_CODE}/mcp.json", f"{_CODE}/profiles/*/mcp.json"), (".vscode/mcp.json",),
           (("servers",),)),
    Client("copilot", "Copilot CLI", ("~/.copilot/mcp-config.json",), (".mcp.json", ".github/mcp.json"), _BARE),
    Client("windsurf", "Windsurf, Devin", ("~/.codeium/windsurf/mcp_config.json", "{xdg}/devin/mcp_config.json",
                                           "{xdg}/devin/config.json"), (".devin/config.json",)),
    Client("zed", "Zed", ("{zed}/settings.json",), (".zed/settings.json",), (("context_servers",),)),
    Client("cline", "Cline", (f"{_STORAGE}/saoudrizwan.claude-dev/settings/cline_mcp_settings.json",
                              "~/.cline/data/settings/cline_mcp_settings.json")),
    Client("roo", "Roo Code", (f"{_STORAGE}/rooveterinaryinc.roo-cline/settings/mcp_settings.json",),
           (".roo/mcp.json",)),
    Client("kilo", "Kilo Code", ("{xdg}/kilo/kilo.jsonc", "{xdg}/kilo/kilo.json"),
           (".kilo/kilo.jsonc", ".kilo/kilo.json", "kilo.jsonc", "kilo.json"), (("mcp", "servers"), ("mcp",))),
    Client("opencode", "opencode", ("{xdg}/opencode/opencode.jsonc", "{xdg}/opencode/opencode.json"),
           ("opencode.jsonc", "opencode.json"), (("mcp", "servers"), ("mcp",))),
    Client("gemini", "Gemini CLI", ("~/.gemini/settings.json",), (".gemini/settings.json",)),
    Client("antigravity", "Antigravity", ("~/.gemini/config/mcp_config.json", "~/.gemini/antigravity/mcp_config.json")),
    Client("codex", "Codex", ("{codex}/config.toml",), (".codex/config.toml",), (("mcp_servers",),), TOML),
    Client("grok", "Grok Build", ("~/.grok/config.toml",), keys=(("mcp_servers",),), kind=TOML),
    Client("goose", "Goose", ("{goose}/config.yaml",), keys=(("extensions",),), kind=YAML, words=("cmd", "args")),
    Client("continue", "Continue", ("~/.continue/config.yaml",),
           (".continue/mcpServers/*.yaml", ".continue/mcpServers/*.json"), kind=YAML),
    Client("kiro", "Kiro", ("~/.kiro/settings/mcp.json",), (".kiro/settings/mcp.json",)),
    Client("amazon-q", "Amazon Q", ("~/.aws/amazonq/mcp.json", "~/.aws/amazonq/agents/*.json")),
    Client("lmstudio", "LM Studio", ("~/.lmstudio/mcp.json",), desktop=True),
    Client("kimi", "Kimi", ("~/.kimi-code/mcp.json",)),
    Client("pi", "Pi", ("~/.pi/agent/mcp.json",)),
    Client("mcporter", "mcporter", ("~/.mcporter/mcporter.json",), ("config/mcporter.json",)),
    Client("amp", "Amp", ("{xdg}/amp/settings.json",), keys=(("amp.mcpServers",), ("mcpServers",))),
    Client("trae", "Trae", ("{config}/Trae/User/mcp.json",)),
    Client("fx", "fx", ("~/.fx/mcp.json",), keys=(("mcp",),)),
)  # fmt: skip
BY_NAME = {client.name: client for client in CLIENTS}


class ConfigLocation(NamedTuple):
    """A file in which a client may have servers, and the way to them."""

    client: Client
    scope: str  # user, project, or local: the user's, for one project
    path: str
    keys: tuple[tuple[str, ...], ...]


def places(project: str, environ: Mapping[str, str], platform: str | None = None) -> Iterator[ConfigLocation]:
    """Yield every file that a client may have, existing or not; for a pattern, the existing ones."""
    for client in CLIENTS:
        for pattern in client.user:
            for path in _paths(pattern, lambda one: path_of(one, environ, platform)):
                yield ConfigLocation(client, USER, path, client.keys)
        if client.name == "claude-code":  # the same file has the user's servers for one project
            path = path_of(client.user[0], environ, platform)
            yield ConfigLocation(client, LOCAL, path, (("projects", project, "mcpServers"),))
        for pattern in client.project:
            written = client._replace(kind=JSON) if pattern.endswith(".json") else client  # some have both
            for path in _paths(pattern, lambda one: os.path.join(project, one)):
                yield ConfigLocation(written, PROJECT, path, client.keys)


def _paths(pattern: str, resolve: Callable[[str], str]) -> list[str]:
    if "*" not in pattern:
        return [resolve(pattern)]
    head = os.path.dirname(pattern.partition("*")[0])
    root = resolve(head)  # resolved first: a * in it is literal
    return sorted(os.path.join(root, one) for one in glob.glob(pattern[len(head) + 1 :], root_dir=root, recursive=True))


def path_of(pattern: str, environ: Mapping[str, str], platform: str | None = None) -> str:
    """Return the path for a pattern of the table."""
    homes = calls.config_homes(environ, platform)
    home = homes["home"]
    codex = environ.get("CODEX_HOME") or os.path.join(home, ".codex")
    filled = pattern.format(codex=codex, **homes)
    return os.path.normpath(home + filled[1:] if filled.startswith("~/") else filled)

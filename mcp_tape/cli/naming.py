"""Where a cassette goes when nobody says: a name made from the server command."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence

_LAUNCHERS = {
    "npx", "bunx", "uvx", "pipx", "node", "bun", "deno", "tsx", "ts-node", "uv", "npm", "pnpm", "yarn", "poetry",
    "hatch", "docker", "podman", "env", "sudo", "nice", "python", "py", "sh", "bash", "zsh", "ruby", "java",
}  # fmt: skip
_SUBCOMMANDS = {"run", "exec", "dlx", "tool", "x", "start"}
_TAKE_A_VALUE = {
    "--from", "--with", "--python", "--directory", "--project", "--env-file", "--package", "-p", "-e", "--env", "-v",
    "--volume", "--name", "--network", "--mount", "-u", "--user", "-w", "--workdir", "--require", "-r", "--import",
    "--loader", "-W", "-X",
}  # fmt: skip
_TOO_GENERAL = {"index", "main", "server", "__main__", "cli", "app", "dist", "build", "src", "bin", "lib", "out", ""}
_PROJECT_FILES = (
    "pyproject.toml", "setup.py", "package.json", "Cargo.toml", "go.mod", "pom.xml", "build.gradle", "Gemfile",
    "composer.json", "deno.json", "mix.exs", "Makefile", ".git", ".hg", "cassettes",
)  # fmt: skip


def default_path(command: Sequence[str]) -> str:
    """`cassettes/NAME.db` in a project, else in the user's data directory.

    Desktop clients start servers anywhere, often in / or the home directory.
    """
    name = f"{cassette_name(command)}.db"
    if any(os.path.exists(file) for file in _PROJECT_FILES):
        return os.path.join("cassettes", name)
    return os.path.join(_data_directory(), "cassettes", name)


def cassette_name(command: Sequence[str]) -> str:
    """What a server command is about: `npx -y @scope/server-x` is `server-x`."""
    name = _bare(_subject(list(command)))
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.")[:80] or "server"


def _subject(words: list[str]) -> str:
    launched = False
    while words:
        word = words.pop(0)
        if word == "-m" and words:
            return words[0]
        if word in _TAKE_A_VALUE and launched:
            words = words[1:]
        elif word.startswith("-") or re.match(r"[A-Za-z_]\w*=", word):
            continue
        elif re.sub(r"[\d.]+$", "", os.path.basename(word)) in _LAUNCHERS:
            launched = True
        elif not (launched and word in _SUBCOMMANDS):
            return word
    return "server"


def _bare(subject: str) -> str:
    if subject.startswith("@"):  # @scope/name@version
        subject = subject.partition("/")[2]
    subject = re.split(r"(?<=.)@|==|>=|:(?=[\w.-]+$)", subject, maxsplit=1)[0]
    parts = [part for part in subject.replace("\\", "/").split("/") if part not in (".", "..")]
    while parts:
        name = re.sub(r"\.(?:py|pyz|[cm]?js|[cm]?ts|jar|sh|exe|rb)$", "", parts.pop())
        if name not in _TOO_GENERAL or not parts:
            return name
    return "server"


def _data_directory() -> str:
    if sys.platform == "darwin":
        return os.path.expanduser("~/Library/Application Support/mcp-tape")
    base = os.environ.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share")
    return os.path.join(base, "mcp-tape")

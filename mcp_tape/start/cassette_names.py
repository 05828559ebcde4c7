"""The default cassette of a server: a path made from the command or the URL."""

from __future__ import annotations

import os
import re

from ..system import calls

TYPE_CHECKING = False  # as in the package's __init__
if TYPE_CHECKING:
    from collections.abc import Sequence


# Programs that start servers, each with its options that take the next word as their value.
_PYTHON = "-W -X --check-hash-based-pycs"
_NODE = "-r --require --import --loader --experimental-loader --env-file -C --conditions"
_NPX = "-p --package -w --workspace --prefix -C --dir"
_UV = (
    "--from --with --with-editable --with-requirements --python -p --directory --project --env-file --index --extra "
    "--group"
)
_DOCKER = (
    "-e --env --env-file -v --volume --mount -p --publish --name --network --net -u --user -w --workdir -h --hostname "
    "--entrypoint --platform --pull -l --label -m --memory --cpus --gpus --add-host --device --cap-add --cap-drop"
)
_LAUNCHERS = {
    "python": _PYTHON, "pypy": _PYTHON, "py": _PYTHON,
    "node": _NODE, "tsx": _NODE, "ts-node": _NODE, "bun": _NODE, "deno": "-c --config --import-map --env-file",
    "npx": _NPX, "npm": _NPX, "pnpm": _NPX, "yarn": _NPX, "bunx": _NPX,
    "uv": _UV, "uvx": _UV, "pipx": "--spec --python --pip-args", "poetry": "-C --directory -P --project",
    "hatch": "-e --env -p --project", "docker": _DOCKER, "podman": _DOCKER,
    "env": "-u --unset -C --chdir", "sudo": "-u --user -g --group", "nice": "-n --adjustment",
    "sh": "", "bash": "", "zsh": "", "ruby": "-r -I", "java": "-cp -classpath --class-path",
}  # fmt: skip
_SHELLS = ("sh", "bash", "zsh")
_MODULES = ("python", "pypy", "py", "uv")  # `-m` names the module that they run
_SUBCOMMANDS = {"run", "exec", "dlx", "tool", "x", "start", "container"}
_INTERPRETERS = ("python", "pypy", "py", "node", "tsx", "ts-node", "bun", "ruby")
_CODE = ("-c", "-e", "--eval", "-p", "--print")  # options of interpreters that are followed by code, not by a name

_TOO_GENERAL = {"index", "main", "server", "__main__", "cli", "app", "dist", "build", "src", "bin", "lib", "out", ""}
# Names of devices on Windows, with any ending.
_RESERVED = re.compile(r"(?:con|prn|aux|nul|com[0-9]|lpt[0-9])(?:\.|$)", re.IGNORECASE)
_LETTERS = str.maketrans("0123456789", "ghijklmnop")  # a final number would look like part of a series
_PROJECT_FILES = (
    "pyproject.toml", "setup.py", "package.json", "Cargo.toml", "go.mod", "pom.xml", "build.gradle", "Gemfile",
    "composer.json", "deno.json", "mix.exs", "Makefile", ".git", ".hg", "cassettes",
)  # fmt: skip


def default_path(command: Sequence[str]) -> str:
    """`cassettes/NAME.db` in a project, else in the user's data directory.

    All directories share the latter, so there the name also identifies the file that the command runs: two directories
    may each have a `weather.py`.
    """
    name, file = cassette_name(command), None if _is_project() else _program_file(list(command))
    return _path_of(f"{name}.db" if file is None else f"{name}-{_digest(file)}.db")


def _program_file(command: list[str]) -> str | None:
    """The file that a command runs, or the directory that names it; None if the directory does not matter."""
    subject = _subject(command)
    if _bare_name(subject).lower() in _TOO_GENERAL and not os.path.isabs(subject):
        subject = "."
    module = subject.replace(".", os.sep)
    try:
        if os.path.isfile(subject) or subject == ".":
            return os.path.realpath(subject)
        return os.path.realpath(module) if os.path.isfile(f"{module}.py") or os.path.isdir(module) else None
    except (OSError, ValueError):
        return None  # the current directory was removed, or the name is not valid for a file


def default_path_of_url(url: str) -> str:
    """The default path for a URL: `example.com.db` for `https://example.com/mcp`."""
    from urllib.parse import urlsplit

    return _path_of(f"{_plain_name(urlsplit(url).netloc.rpartition('@')[2]) or 'server'}.db")


def path_for(client_and_server: str) -> str:
    """The path for a client's server in the user's data directory: `cassettes/cursor/github.db` for `cursor/github`."""
    client, _, server = client_and_server.partition("/")
    return os.path.join(data_cassettes(), _unique_name(client), f"{_unique_name(server)}.db")


def data_cassettes() -> str:
    """The directory for cassettes outside any project."""
    return os.path.join(calls.data_home(), "mcp-tape", "cassettes")


def _unique_name(name: str) -> str:
    """A unique file name. It must not look like a later cassette of a series: `time-2` belongs to `time`."""
    plain = _plain_name(name)
    if plain == name and not re.search(r"-[0-9]+$", name):
        return name
    return f"{plain or 'server'}-{_digest(name)}"


def _digest(text: str) -> str:
    from hashlib import sha256

    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8].translate(_LETTERS)


def default_directory() -> str:
    """The directory to search for cassettes: the project, else the directory of `default_path`."""
    return "." if _is_project() else os.path.dirname(_path_of(""))


def _path_of(name: str) -> str:
    return os.path.join("cassettes" if _is_project() else data_cassettes(), name)


def _is_project() -> bool:
    # Desktop clients start servers anywhere, often in / or the home directory.
    return any(os.path.exists(file) for file in _PROJECT_FILES)


def cassette_name(command: Sequence[str]) -> str:
    """The name of the server that a command starts: `server-x` for `npx -y @scope/server-x`."""
    name = _plain_name(_bare_name(_subject(list(command))))
    # `node build/index.js` does not name a server, but its working directory may.
    return name if name.lower() not in _TOO_GENERAL else _plain_name(_directory_name()) or "server"


def _directory_name() -> str:
    try:
        return os.path.basename(os.getcwd())
    except OSError:
        return ""  # it was removed


def _plain_name(name: str) -> str:
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.")[:80]
    return f"server-{plain}" if _RESERVED.match(plain) else plain


def _subject(words: list[str]) -> str:
    """The word of a command that names the server, after launchers and their options."""
    launcher, takes_value = "", frozenset[str]()
    while words:
        word = words.pop(0)
        if launcher in _SHELLS and word == "-c":
            return _subject(words[0].split()) if words else ""
        if word == "-m" and words and launcher in _MODULES:
            return words[0]
        if word in takes_value:
            words = words[1:]
        elif word in _CODE and launcher in _INTERPRETERS:
            return ""
        elif word.startswith("-") or re.match(r"[A-Za-z_]\w*=", word):
            continue
        elif (name := _launcher_name(word)) in _LAUNCHERS:
            launcher, takes_value = name, frozenset(_LAUNCHERS[name].split())
        elif not (launcher and word in _SUBCOMMANDS):
            return word
    return ""


def _launcher_name(word: str) -> str:
    """The name of a program without its version, and without an ending of Windows: `python` for `python3.12.exe`."""
    return re.sub(r"[\d.]*(?:\.(?:exe|cmd|bat))?$", "", os.path.basename(word))


def _bare_name(subject: str) -> str:
    subject = re.sub(r"^(?:npm|jsr):", "", subject)
    if subject.startswith("@"):  # @scope/name@version
        subject = subject.partition("/")[2]
    subject = re.split(r"(?<=.)@|==|>=|\[|:(?=[\w.-]+$)", subject, maxsplit=1)[0]
    parts = [part for part in subject.replace("\\", "/").split("/") if part not in (".", "..")]
    while parts:
        name = re.sub(r"\.(?:py|pyz|[cm]?js|[cm]?ts|jar|sh|exe|cmd|bat|rb)$", "", parts.pop())
        if name.lower() not in _TOO_GENERAL:
            return name
    return ""

"""Remakes the recordings of this directory, and what `mcp-tape diff` says of them: python make.py [--diff] [NAME...]

With --diff the recordings stay, and only what is said of them is made anew.
Installs an older and the newest release of four reference servers aside, each with what it needs, and visits each of
them with session.py; the newest twice. Needs mcp-tape, Node, git, and the package registries. Installed releases are
kept in RELEASES (default: .cache/pairs of the project), so that the second time is faster.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parent
RELEASES = Path(os.environ.get("RELEASES", HERE.parents[2] / ".cache" / "pairs"))
PATIENCE = 600  # seconds
NPM = "@modelcontextprotocol/server-"
# The command of each server, by bare names, and what has to be installed for the old and the new release of it.
COMMANDS = {
    "time": ["mcp-server-time", "--local-timezone", "UTC"],
    "git": ["mcp-server-git", "--repository", "repo"],
    "everything": ["mcp-server-everything"],
    "filesystem": ["mcp-server-filesystem", "."],
}
PLACES = {"filesystem": "notes"}  # where they are started, if not beside everything
OLD = {
    "time": ["mcp-server-time==0.6.2", "mcp<2"],
    "git": ["mcp-server-git==2025.7.1", "mcp<2"],
    "everything": [f"{NPM}everything@2025.8.4"],
    "filesystem": [f"{NPM}filesystem@2025.3.28", "zod@3"],  # with a later zod, its schemas come out empty
}
NEW = {
    "time": ["mcp-server-time==2026.10.19"],
    "git": ["mcp-server-git==2026.10.19"],
    "everything": [f"{NPM}everything@2026.8.31"],
    "filesystem": [f"{NPM}filesystem@2026.8.31"],
}
RECORDINGS = {"old": OLD, "new": NEW, "again": NEW}
OTHER_FORMS = {"git": (("markdown", "md"), ("html", "html"))}
PERSON = {
    f"GIT_{role}_{what}": value
    for role in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "Ada"), ("EMAIL", "ada@example.org"))
}
POEM = ("Roses are red\n", "Violets are blue\n")


def main(names: Sequence[str]) -> None:
    for name in [name for name in names if name != "--diff"] or COMMANDS:
        if "--diff" not in names:
            for recording, packages in RECORDINGS.items():
                with tempfile.TemporaryDirectory() as place:
                    record(name, recording, installed(packages[name]), Path(place).resolve())
        for form, ending in (("text", "txt"), *OTHER_FORMS.get(name, ())):
            (HERE / f"{name}.{ending}").write_bytes(diff(name, form))


def installed(packages: Sequence[str]) -> Path:
    """Where the commands of these packages are."""
    place = RELEASES / "+".join(package.rpartition("/")[2] for package in packages)
    if packages[0].startswith("@"):
        if not place.exists():
            run(["npm", "install", "--prefix", str(place), "--no-audit", "--no-fund", "--loglevel=error", *packages])
        return place / "node_modules" / ".bin"
    if not place.exists():
        run([sys.executable, "-m", "venv", str(place)])
        run([str(place / "bin" / "python"), "-m", "pip", "install", "-q", "--disable-pip-version-check", *packages])
    return place / "bin"


def record(name: str, recording: str, commands: Path, place: Path) -> None:
    """One visit, in a place made for it, whose own path is kept off the tape."""
    furnish(place)
    tape = place / "tape.db"
    path = os.pathsep.join([str(commands), str(Path(sys.executable).parent), os.environ["PATH"]])
    recorder = ["mcp-tape", "record", "-q", "-o", str(tape), "--redact-value", re.escape(str(place)), "--"]
    session = [sys.executable, str(HERE / "session.py"), name]
    run([*session, *recorder, *COMMANDS[name]], place / PLACES.get(name, "."), {"PATH": path})
    shutil.copy(tape, HERE / f"{name}-{recording}.db")


def furnish(place: Path) -> None:
    """A repository with two commits and a change, another one, and some notes."""
    for repository in ("repo", "another"):
        (place / repository).mkdir()
        git(place / repository, "init", "-q", "-b", "main")
    for number, line in enumerate(POEM, 1):
        append(place / "repo" / "poem.txt", line)
        git(place / "repo", "add", "poem.txt")
        git(place / "repo", "commit", "-q", "-m", f"Line {number}")
    append(place / "repo" / "poem.txt", "Tapes are black\n")
    (place / "notes" / "more").mkdir(parents=True)
    append(place / "notes" / "poem.txt", "".join(POEM))
    append(place / "notes" / "more" / "list.txt", "milk\n")
    append(place / "outside.txt", "secret\n")


def append(file: Path, text: str) -> None:
    with file.open("a", encoding="utf-8") as opened:
        opened.write(text)


def git(repository: Path, *arguments: str) -> None:
    # The same hashes on every machine, whatever its user has set.
    dates = {f"GIT_{role}_DATE": "2026-01-02T03:04:05+0000" for role in ("AUTHOR", "COMMITTER")}
    run(["git", *arguments], repository, dates)


def diff(name: str, form: str) -> bytes:
    """What is said of a pair, outside of any project and its settings."""
    command = ["mcp-tape", "diff", "old.db", "new.db", "--format", form, "--fail-on", "never"]
    with tempfile.TemporaryDirectory() as place:
        for recording in ("old", "new"):
            shutil.copy(HERE / f"{name}-{recording}.db", Path(place) / f"{recording}.db")
        return subprocess.run(command, cwd=place, stdout=subprocess.PIPE, timeout=PATIENCE, check=True).stdout


def run(command: Sequence[str], cwd: Path | None = None, env: dict[str, str] | None = None) -> None:
    settings = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull, **PERSON, **(env or {})}
    subprocess.run(command, cwd=cwd, env=os.environ | settings, timeout=PATIENCE, check=True)


if __name__ == "__main__":
    main(sys.argv[1:])

"""mcp-tape git-setup"""

from __future__ import annotations

import itertools
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence

import click

from ...console import say
from ...console.terminal import echo_json
from ...diff.pending import ENDING
from ...diff.project import read_file
from ...errors import TapeError

_DRIVER = "diff=mcp-tape"
_KEY = "diff.mcp-tape.textconv"
_NOTE = "# Cassettes in git diff; every clone runs once: mcp-tape git-setup"
_LEFT_NOTE = "# Recordings that mcp-tape verify leaves for mcp-tape review"


@click.command(
    "git-setup",
    epilog="\b\nExamples:\n"
    "  mcp-tape git-setup\n"
    "  mcp-tape git-setup --path 'cassettes/*.db' --path 'tests/**/*.db'\n"
    "  mcp-tape git-setup --undo",
)
@click.argument("directory", metavar="[DIR]", default=".", type=click.Path(exists=True, file_okay=False))
@click.option("--path", "paths", metavar="PATTERN", multiple=True, default=("*.db",), show_default=True,
              help="The files that are cassettes, as a pattern of .gitattributes.")  # fmt: skip
@click.option("--undo", is_flag=True, help="Remove both settings again.")
@click.option("--json", "as_json", is_flag=True, help="Report the changes as a JSON object.")
def command(directory: str, paths: tuple[str, ...], undo: bool, as_json: bool) -> None:
    """Make git diff, git show and git log -p show cassettes as text.

    Writes `*.db diff=mcp-tape` into .gitattributes at the top of the repository, for you to commit, and the command
    that git runs (mcp-tape convert --to txt) into the configuration of this clone. Git never takes commands from a
    repository, so run this once in every clone. Other .db files are shown as before. The recordings that verify
    leaves for review, *.db.new, are kept out of git status.
    """
    if any(set(path) & set(" \t\n#\"'!") or not path for path in paths):
        raise click.UsageError("a pattern has no spaces, quotes, # or !; e.g. --path 'cassettes/*.db'")
    top = _git(directory, "rev-parse", "--show-toplevel")
    attributes = os.path.join(top, ".gitattributes")
    changed = _undo(attributes) if undo else _write(attributes, _NOTE, [f"{path} {_DRIVER}" for path in paths])
    configured = any(
        (_show_again(top), _configure_textconv(top, ""))
        if undo
        else (_ignore(top, paths), _configure_textconv(top, _textconv()))
    )
    if as_json:
        done = {"attributes": attributes, "attributes_changed": changed, "config_changed": configured}
        echo_json(done | {"textconv": None if undo else _textconv()})
    else:
        _report_setup(attributes, changed, configured, undo)


def _report_setup(attributes: str, changed: bool, configured: bool, undo: bool) -> None:
    if not changed and not configured:
        say("nothing to remove" if undo else "git already shows cassettes as text here")
        return
    if changed:
        say(f"{'took it out of' if undo else 'wrote'} {attributes}{'' if undo else '; commit it'}")
    if configured:
        say(f"{'took' if undo else 'set'} {_KEY}{' out of' if undo else ' in'} the configuration of this clone")
    if not undo:
        say(
            "git diff, git show and git log -p now show cassettes; every other clone has to run mcp-tape git-setup once"
        )


def _write(file: str, note: str, lines: Sequence[str]) -> bool:
    """Append lines that are missing. Return whether there were any."""
    text = _read(file)
    there = text.splitlines()
    missing = [line for line in lines if line not in there]
    if not missing:
        return False
    _replace(file, _append_lines(text, [*([] if note in there else [note]), *missing]))
    return True


def _ignore(top: str, paths: Sequence[str]) -> bool:
    """Keep the *.db.new files of verify out of git status, in this clone."""
    file = _exclude_file(top)
    os.makedirs(os.path.dirname(file), exist_ok=True)
    return _write(file, _LEFT_NOTE, [f"{path}{ENDING}" for path in paths])


def _show_again(top: str) -> bool:
    file = _exclude_file(top)
    before, note, ours = _read(file).partition(f"{_LEFT_NOTE}\n")
    if not note:
        return False
    left = itertools.dropwhile(lambda line: line.rstrip().endswith(ENDING), ours.splitlines(keepends=True))
    _replace(file, before + "".join(left))
    return True


def _exclude_file(top: str) -> str:
    return os.path.join(top, _git(top, "rev-parse", "--git-path", "info/exclude"))


def _append_lines(text: str, lines: Sequence[str]) -> str:
    """Append lines with the existing line ends, and end with a newline only if the text did."""
    end = "\r\n" if "\r\n" in text else "\n"
    if text and not text.endswith("\n"):
        return text + "".join(f"{end}{line}" for line in lines)
    return text + "".join(f"{line}{end}" for line in lines)


def _undo(attributes: str) -> bool:
    text = _read(attributes)
    left = "".join(map(_strip_attribute, text.splitlines(keepends=True)))
    if left == text:
        return False
    if not text.endswith("\n"):
        left = left.removesuffix("\n").removesuffix("\r")
    if left:
        _replace(attributes, left)
    else:
        os.unlink(attributes)
    return True


def _strip_attribute(line: str) -> str:
    """A line without our attribute; empty if nothing else is on it."""
    body = line.rstrip("\r\n")
    pattern, *words = body.split() or [""]
    others = [word for word in words if word != _DRIVER]
    if body == _NOTE or (words and not others):
        return ""
    return line if others == words else " ".join([pattern, *others]) + line[len(body) :]


def _read(attributes: str) -> str:
    try:
        return read_file(attributes).decode("utf-8", "surrogateescape")
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise TapeError(f"cannot read {attributes}: {error.strerror}") from None


def _replace(attributes: str, text: str) -> None:
    try:
        with open(attributes, "w", encoding="utf-8", errors="surrogateescape", newline="") as file:
            file.write(text)
    except OSError as error:
        raise TapeError(f"cannot write {attributes}: {error.strerror}") from None


def _configure_textconv(top: str, textconv: str) -> bool:
    """Set the command that git runs in this clone, or remove it. Return whether that changes anything."""
    if _git(top, "config", "--local", "--get", _KEY, fails=True) == textconv:
        return False
    _git(top, "config", "--local", *((_KEY, textconv) if textconv else ("--remove-section", _KEY.rpartition(".")[0])))
    return True


def _textconv() -> str:
    """The command as git's shell finds it."""
    ours = "mcp-tape" if shutil.which("mcp-tape") else f"{shlex.quote(sys.executable)} -m mcp_tape"
    return f"{ours} convert --to txt --textconv"


def _git(directory: str, *words: str, fails: bool = False) -> str:
    try:
        done = subprocess.run(["git", "-C", directory, *words], capture_output=True, text=True, errors="replace")
    except FileNotFoundError:
        raise TapeError("git was not found; install it, or run this where it is") from None
    if done.returncode and not fails:
        why = done.stderr.strip().removeprefix("fatal: ").partition("\n")[0]
        if "not a git repository" in why:
            raise TapeError(f"{directory} is in no git repository; run this in one, or make one with: git init")
        raise TapeError(f"git says of {directory}: {why}")
    return done.stdout.removesuffix("\n")

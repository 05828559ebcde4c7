"""mcp-tape edit"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from hashlib import sha256

import click

from ...console import say
from ...console.progress import Progress
from ...console.terminal import echo_json
from ...errors import CassetteError, TapeError, count
from ...formats import sheet
from ...formats.sheet import Edit, SheetError, WrittenSession
from ..click_options import changed_cassette_argument, session_option


@click.command(
    "edit",
    epilog="\b\nExamples:\n"
    "  mcp-tape edit tape.db\n"
    "  mcp-tape edit tape.db --session 2 --editor 'code --wait'\n"
    "  mcp-tape edit tape.db --editor 'sed -i s/sunny/rainy/'",
)
@changed_cassette_argument
@session_option
@click.option(
    "--editor", metavar="CMD", help="Run this editor, with the file's name appended. Default: $VISUAL, then $EDITOR."
)
@click.option("--json", "as_json", is_flag=True, help="Report the changes as a JSON object.")
def command(file: str, session: int | None, editor: str | None, as_json: bool) -> None:
    """Change a recorded session in your editor.

    Each frame is shown with its text laid out. Frames that you do not touch stay the same, byte for byte; derived
    values are computed again. The session is put back as a whole or not at all, and only if you changed it. Edited
    text is not redacted. You can edit a session while it is being recorded: change and delete its frames, but not
    add or move any.
    """
    chosen = editor or _editor()
    directory = tempfile.mkdtemp(prefix="mcp-tape-")  # readable by this user only
    try:
        stem = os.path.splitext(os.path.basename(file))[0]
        number, edit = _edit_session(file, session, chosen, os.path.join(directory, f"{stem}.txt"))
    except _UnfinishedError:
        raise  # keep the edited text
    except BaseException:
        shutil.rmtree(directory, ignore_errors=True)
        raise
    shutil.rmtree(directory, ignore_errors=True)
    _report_edit(file, number, edit, as_json)


class _UnfinishedError(TapeError):
    """The text was not put back, and is kept."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def _edit_session(file: str, session: int | None, editor: str, text: str) -> tuple[int, Edit]:
    try:
        with open(text, "w", encoding="utf-8", errors="surrogateescape", newline="\n") as out:
            written = sheet.write(file, session, out)
    except OSError as error:
        raise TapeError(f"cannot write {text}: {error.strerror}; nothing was changed") from None
    number = written.session.id
    before = _digest(text)
    while True:
        _run(editor, text)
        if _digest(text) == before:
            return number, Edit(0, 0, 0)
        try:
            with (
                open(text, encoding="utf-8", errors="surrogateescape", newline="\n") as lines,
                Progress(f"putting session {number} back", os.path.getsize(text)) as progress,
            ):
                return number, sheet.put_back(file, written, _show_progress(lines, progress))
        except SheetError as error:
            say(f"{text}, {error}")
            if not _wants_to_go_on():
                message = f"{file} was not changed. {_retry(file, written, text)}"
                raise _UnfinishedError(message, TapeError.exit_code) from None
        except CassetteError as error:
            raise _UnfinishedError(f"{error}\n{_retry(file, written, text)}", error.exit_code) from None
        except OSError as error:
            message = f"{file} was not changed: {error.strerror}. {_retry(file, written, text)}"
            raise _UnfinishedError(message, TapeError.exit_code) from None


def _show_progress(lines: Iterable[str], progress: Progress) -> Iterator[str]:
    done = 0
    for number, line in enumerate(lines):
        done += len(line)
        if not number % 1000:
            progress(done)
        yield line


def _digest(text: str) -> bytes:
    try:
        with open(text, "rb") as file:
            digest = sha256()
            while block := file.read(1 << 20):
                digest.update(block)
            return digest.digest()
    except OSError as error:
        raise TapeError(f"cannot read {text}: {error.strerror}; nothing was changed") from None


def _wants_to_go_on() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty() and click.confirm("Edit again?", default=True, err=True)


def _retry(file: str, written: WrittenSession, text: str) -> str:
    if written.is_open:  # put back later, it would lack the messages recorded since
        return f"Your text is in {text}"
    session = written.session.id
    again = f"mcp-tape edit {shlex.quote(file)} --session {session} --editor {shlex.quote('cp ' + shlex.quote(text))}"
    return f"Your text is in {text}; to put it back once it is right: {again}"


def _run(editor: str, text: str) -> None:
    """Run the editor, which may be a whole command line, as for git. Only the editor handles Ctrl-C."""
    with subprocess.Popen(["sh", "-c", f'{editor} "$@"', editor, text]) as process:
        while process.returncode is None:
            try:
                process.wait()
            except KeyboardInterrupt:
                continue
    if process.returncode:
        raise TapeError(
            f"the editor ({editor}) ended with {process.returncode}; nothing was changed. To use another: --editor CMD"
        )


def _editor() -> str:
    for name in ("VISUAL", "EDITOR"):
        if os.environ.get(name, "").strip():
            return os.environ[name]
    for name in ("editor", "nano", "vi"):
        if shutil.which(name):
            return name
    raise click.UsageError("no editor was found: set $EDITOR, or add --editor CMD")


def _report_edit(file: str, session: int, edit: Edit, as_json: bool) -> None:
    if as_json:
        echo_json({"file": file, "session": session, **edit._asdict()})
    elif not any(edit):
        say(f"nothing was changed in {file}")
    else:
        done = [f"{count(n, 'frame')} {what}" for what, n in edit._asdict().items() if n]
        say(f"session {session} of {file}: {', '.join(done)}")

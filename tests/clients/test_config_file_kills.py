"""kill -9 and a second writer at every step of a change: the file is the old or the new one, never anything else."""

from __future__ import annotations

import os
import shutil
import stat
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path

import pytest

from mcp_tape.clients import config_file
from mcp_tape.errors import TapeError
from tests.support.configs import read, unwrapped, wrapped
from tests.support.kills import FORKS, Act, fork_with, stopped, until_it_lives
from tests.support.warm import WAIT

OLD = '{"mcpServers": {"a": {"command": "x"}, "b": {"command": "y"}}}\n'
OTHER = '{"mcpServers": {"a": {"command": "by somebody else"}}}\n'
REFUSED = 3
fork_with(__name__)


def wrap(path: str) -> None:
    found = read(Path(path))
    config_file.write(found, wrapped(found, "a").text)


def unwrap(path: str) -> None:
    found = read(Path(path))
    config_file.write(found, unwrapped(found, "a").text)


def begun(directory: Path, act: Act) -> Path:
    """A file before a change."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir()
    path = directory / "mcp.json"
    path.write_text(OLD)
    path.chmod(0o604)
    if act is unwrap:
        wrap(str(path))
    return path


def both(directory: Path, act: Act) -> tuple[str, str]:
    """The text of a file before a change and after."""
    path = begun(directory, act)
    before = path.read_text()
    act(str(path))
    return before, path.read_text()


@pytest.mark.slow
@pytest.mark.parametrize("act", [wrap, unwrap])
def test_a_kill_leaves_the_old_file_or_the_new_one(act: Act, tmp_path: Path) -> None:
    directory = tmp_path / "here"
    before, after = both(directory, act)
    killed = 0
    steps = until_it_lives(act, str(directory / "mcp.json"))
    while True:
        path = begun(directory, act)
        was_killed = next(steps)
        assert path.read_text() in ((before, after) if was_killed else (after,)), killed
        assert stat.S_IMODE(path.stat().st_mode) == 0o604
        backup = Path(f"{path}{config_file.BACKUP}")
        assert not backup.exists() or (backup.read_text() == OLD and stat.S_IMODE(backup.stat().st_mode) == 0o600)
        with suppress(FileNotFoundError):
            os.utime(f"{path}.lock", (1, 1))  # as if some seconds had passed
        for again in (wrap, unwrap):  # the next command tidies up
            again(str(path))
        assert path.read_text() == OLD and os.listdir(directory) == ["mcp.json"], killed
        if not was_killed:
            break
        killed += 1
    assert killed > 10


def write_other(path: str) -> None:
    """Replace the file as another program does."""
    new = f"{path}.other"
    with open(new, "w") as file:
        file.write(OTHER)
    os.replace(new, path)
    Path(f"{path}.written").touch()


def tried(act: Act, path: str) -> None:
    try:
        act(path)
    except TapeError:
        os._exit(REFUSED)


@pytest.mark.slow
@pytest.mark.parametrize("act", [wrap, unwrap])
def test_a_second_writer_at_any_step_leaves_a_whole_file_of_one_of_the_two(act: Act, tmp_path: Path) -> None:
    directory = tmp_path / "here"
    _, after = both(directory, act)
    refused = 0
    for number in count(1):
        path = begun(directory, act)
        writer = partial(write_other, str(path))
        process = FORKS.Process(target=stopped, args=(number, partial(tried, act), str(path), writer))
        process.start()
        process.join(WAIT)
        assert process.exitcode in (0, REFUSED)
        now = path.read_text()
        if not os.path.exists(f"{path}.written"):  # there are no more steps
            assert now == after
            break
        if process.exitcode == REFUSED:
            refused += 1
            assert now == OTHER
        else:  # ours came before, includes the other's change, or came between the last check and the rename
            assert now in (OTHER, after, changed_other(path, act))
    assert refused > 5


def changed_other(path: Path, act: Act) -> str:
    other = path.parent / "other.json"
    other.write_text(OTHER)
    found = read(other)
    return (wrapped if act is wrap else unwrapped)(found, "a").text

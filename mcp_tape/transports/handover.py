"""Secrets that a recorder does not inherit: a test is asked for them, other processes' are read on Linux."""

from __future__ import annotations

import json
import os
import re
from _socket import AF_UNIX, SOCK_STREAM, socket  # what `socket` would load takes longer than all the rest

from ..errors import TapeError
from ..redaction.environment import Pairs, secrets

_PATIENCE = 30.0  # seconds for a test that is busy
_CHUNK = 1 << 16


def received(path: str) -> Pairs:
    """Ask a test for the variables to hide, by the path of its socket. Fails closed: else nothing is recorded."""
    test, answer = socket(AF_UNIX, SOCK_STREAM), b""
    try:
        test.settimeout(_PATIENCE)
        test.connect(path)
        while data := test.recv(_CHUNK):
            answer += data
    except OSError as error:
        raise TapeError(_refusal(error.strerror or str(error))) from None
    finally:
        test.close()
    if not answer.endswith(b"\n"):
        raise TapeError(_refusal("it has ended"))
    return tuple((name, value) for name, value in json.loads(answer))


def _refusal(why: str) -> str:
    return (
        f"nothing is recorded: the test cannot be asked which secrets to hide ({why})\n"
        "start this within the test, or before the with block of use_cassette ends"
    )


def from_process(which: str) -> Pairs:
    """Return the secret variables of a process, `pid:N`, or of our ancestors, `parents`; ValueError for neither."""
    if which != "parents" and not re.fullmatch(r"pid:\d+", which):
        raise ValueError(f"{which!r} is neither parents nor pid:N, as in pid:4711")
    if not os.path.isdir("/proc/self"):
        raise TapeError("the environment of another process is read from /proc, which is not here; try --env-file FILE")
    if which != "parents":
        return _of(which.removeprefix("pid:"))
    found: list[tuple[str, str]] = []
    process = parent = _parent("self")
    while process not in ("0", "1"):
        try:
            found += _of(process)
            process = _parent(process)
        except (TapeError, OSError):
            if process == parent:
                raise
            break  # the ancestors above are another user's
    return tuple(dict.fromkeys(found))


def _of(process: str) -> Pairs:
    try:
        with open(f"/proc/{process}/environ", "rb") as file:
            entries = file.read().split(b"\0")
    except OSError as error:
        raise TapeError(f"cannot read the environment of process {process}: {error.strerror}") from None
    pairs = (os.fsdecode(entry).partition("=") for entry in entries if entry)
    return secrets({name: value for name, _, value in pairs})


def _parent(process: str) -> str:
    """See proc_pid_stat(5): the command in parentheses may contain anything, so read behind the last one."""
    with open(f"/proc/{process}/stat") as file:
        return file.read().rpartition(")")[2].split()[1]

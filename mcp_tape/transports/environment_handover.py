"""Variables that a recorder does not inherit: ask a test for them, or read those of other processes on Linux."""

from __future__ import annotations

import json
import os
import re

from ..errors import TapeError
from ..light import NamedTuple, suppress
from ..redaction.environment import Pairs, secrets
from ..system import calls

TYPE_CHECKING = False  # as in the package's __init__
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_PATIENCE = 30.0  # seconds for a test that is busy
_CHUNK = 1 << 16


class RecorderEnvironment(NamedTuple):
    """Values that a test hands to a recorder: command lines are public, so they can't be arguments."""

    secrets: Pairs = ()  # to redact
    env: Pairs = ()  # for the server
    headers: Pairs = ()  # for a server at a URL
    missing: tuple[str, ...] = ()  # variables for the server that the test lacks


def ask_test(address: str) -> RecorderEnvironment:
    """Ask a test, by its local address. Fails closed: without an answer nothing is recorded."""
    answer = b""
    try:
        test = calls.connect_locally(address, _PATIENCE)
        try:
            while data := test.recv(_CHUNK):
                answer += data
        finally:
            test.close()
    except OSError as error:
        raise TapeError(_refusal(error.strerror or str(error))) from None
    if not answer.endswith(b"\n"):
        raise TapeError(_refusal("it has ended"))
    *several, missing = json.loads(answer)
    secrets, env, headers = (tuple((name, value) for name, value in pairs) for pairs in several)
    return RecorderEnvironment(secrets, env, headers, tuple(missing))


def _refusal(why: str) -> str:
    return (
        f"nothing is recorded: the test cannot be asked which secrets to hide ({why})\n"
        "start this within the test, or before the with block of use_cassette ends"
    )


def from_process(which: str) -> Pairs:
    """Return the secret variables of a process (`pid:N`) or of our ancestors (`parents`). Raises ValueError."""
    if which != "parents" and not re.fullmatch(r"pid:\d+", which):
        raise ValueError(f"{which!r} is neither parents nor pid:N, as in pid:4711")
    if not calls.HAS_PROC:
        raise TapeError("the environment of another process is read from /proc, which is not here; try --env-file FILE")
    if which != "parents":
        return _secrets_of(which.removeprefix("pid:"))
    return tuple(dict.fromkeys(pair for environ in _ancestor_environments() for pair in secrets(environ)))


def from_parents(names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Find variables by name: our own, or those of the nearest ancestor that has them."""
    for name in names:
        if name in os.environ:
            yield name, os.environ[name]
            continue
        with suppress(TapeError, OSError):  # no readable ancestor
            found = next((environ[name] for environ in _ancestor_environments() if name in environ), None)
            if found is not None:
                yield name, found


def _ancestor_environments() -> Iterator[dict[str, str]]:
    process = parent = _parent("self")
    while process not in ("0", "1"):
        try:
            environ = _environ(process)
            process = _parent(process)
        except (TapeError, OSError):
            if process == parent:
                raise
            return  # the remaining ancestors belong to another user
        yield environ


def _secrets_of(process: str) -> Pairs:
    return secrets(_environ(process))


def _environ(process: str) -> dict[str, str]:
    try:
        with open(f"/proc/{process}/environ", "rb") as file:
            entries = file.read().split(b"\0")
    except OSError as error:
        raise TapeError(f"cannot read the environment of process {process}: {error.strerror}") from None
    pairs = (os.fsdecode(entry).partition("=") for entry in entries if entry)
    return {name: value for name, _, value in pairs}


def _parent(process: str) -> str:
    """See proc_pid_stat(5): the command in parentheses may contain anything, so read after the last `)`."""
    with open(f"/proc/{process}/stat") as file:
        return file.read().rpartition(")")[2].split()[1]

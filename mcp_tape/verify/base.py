"""What verifying is asked for, and what it comes to: plain values."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from ..compare.minted.values import Key
from ..errors import TapeError

Writes = Literal["refuse", "allow", "skip"]
FailureKind = Literal["crashed", "unanswered", "hung", "unrecorded"]


class NotReadyError(TapeError):
    """Something is missing that the recorded client needs; nothing was started."""

    exit_code = 2


class Server(NamedTuple):
    """Who is verified: a command to start, or a URL."""

    command: tuple[str, ...] = ()
    url: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    cacert: str | None = None


class Options(NamedTuple):
    """How to verify. `timeout` is for each answer, `starting` for the first, which may take a server longer.

    `recording`: options for the recorder, as on the command line.
    """

    session: str = "latest"
    writes: Writes = "refuse"
    timeout: float = 30.0
    recording: tuple[str, ...] = ()
    starting: float = 30.0


class Heard(NamedTuple):
    """What the live server said in the sessions of a cassette that were played: those that extend others use it."""

    live: dict[Key, Any]  # by recorded answer, the live one, where something is taken from it
    lost: set[Key]  # recorded answers whose requests were not made


class Request(NamedTuple):
    """A request of the recorded client."""

    method: str
    name: str | None = None

    def __str__(self) -> str:
        return f"{self.method} {self.name or ''}".rstrip()


class Failure(NamedTuple):
    """What the server failed to do, beyond what its answers tell."""

    kind: FailureKind
    request: Request | None
    message: str
    stderr: tuple[str, ...] = ()


class Skipped(NamedTuple):
    """A request that was not made. `is_held_back`: the server was not asked on our account, not on its own."""

    request: Request
    why: str
    is_held_back: bool


class Verified(NamedTuple):
    """One session played at a live server: where its own recording is, and what went wrong."""

    path: str
    session: int
    new_path: str
    new_sessions: tuple[int, ...]
    requests: int  # on the tape
    calls: int  # those of them that call tools
    called: int  # those of these that were made
    skipped: tuple[Skipped, ...] = ()
    failures: tuple[Failure, ...] = ()
    exposed: str | None = None  # a secret that the new recording does not hide, by its name
    other_era: str = ""  # why nothing was understood

    @property
    def said_nothing(self) -> str:
        """Why it verified nothing: there was nothing to ask, or something to call, and nothing was."""
        if self.other_era:
            return self.other_era
        if self.requests == 0:
            return "there was nothing to ask"
        return "no tool was called, so this says nothing about them" if self.calls and not self.called else ""

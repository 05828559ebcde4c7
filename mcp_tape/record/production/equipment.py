"""The extras of a recording in production: sampling, bodies left out, hooks, spans."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterable

from ...redaction.bodies import HASH_KEY_VARIABLE, Bodies, Hashes, Sizes
from ...redaction.redactor import Redactor
from ...wire.channels import STDIO
from ...wire.frames import Frame, LedgerEntry
from .. import rotation
from ..recorder import StatusPipe
from ..tape import OpenSession
from .hooks import Hooks
from .production_options import Production
from .sampling import Sampling


class Equipment:
    """Built from the options; extras that are not asked for do nothing."""

    def __init__(self, asked: Production, transport: str, report: StatusPipe) -> None:
        self._asked = asked
        self._report = report
        self._how = _body_replacement(asked.bodies)
        over_http = transport != STDIO  # stdio has one session, which the relay samples
        self.sampling = Sampling(asked.sample) if asked.sample and over_http else None
        self._spans = asked.spans(report.warn) if asked.spans else None
        self._hooks: Hooks | None = None
        if asked.on_rotate:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # if it is ignored, exit codes are lost
            taken, is_whole = rotation.mark_handed_on, rotation.is_whole
            self._hooks = Hooks(asked.on_rotate, asked.hook_timeout, report.warn, taken, is_whole)
        if isinstance(self._how, Hashes) and not os.environ.get(HASH_KEY_VARIABLE) and not asked.quiet:
            report.warn(
                "--bodies hash without a key: anyone can check a guess against a hash; "
                f"set {HASH_KEY_VARIABLE} to a secret"
            )

    @property
    def opens_late(self) -> bool:
        """True if the cassette is created with the first session in the sample."""
        return self.sampling is not None

    @property
    def manner(self) -> str:
        """The options in effect, for the recorder's name."""
        sample = f" --sample {self._asked.sample}" if self._asked.sample else ""
        return sample + (f" --bodies {self._how.name}" if self._how else "")

    def session_redactor(self, redactor: Redactor | None) -> Redactor | Bodies | None:
        """The redactor of secrets and bodies for a session, given its redactor of secrets."""
        return Bodies(redactor, self._how) if self._how else redactor

    def see(self, session: OpenSession, frame: Frame, entries: list[LedgerEntry]) -> None:
        """Process a frame as it is recorded."""
        if self._spans is not None:
            self._spans.see(session, frame, entries)

    def leave(self, sessions: Iterable[OpenSession], goes_on: bool) -> None:
        """End sessions, or their parts on one cassette."""
        if self._spans is not None:
            for session in sessions:
                self._spans.leave(session, goes_on)

    def hand_over(self, path: str) -> None:
        """Hand over a finished cassette."""
        if self._hooks is not None:
            self._hooks.add(path)

    def finish(self, make_room: Callable[[], None]) -> None:
        """Wait, with a limit, for hooks and spans, and report their results.

        `make_room` is called now and then, and at the end: a cassette may not be whole until others have gone.
        """

        def go_on() -> None:
            self._report.send_alive()
            make_room()

        for last in (self._spans, self._hooks):
            if last is not None:
                last.finish(go_on)
        make_room()
        asked, warn = self._asked, self._report.warn
        if self.sampling is not None and not asked.quiet:
            warn(f"sampled {asked.sample}: {self.sampling}")
        if self._spans is not None and (self._spans.dropped or not asked.quiet):
            warn(f"{self._spans.sent} spans sent, {self._spans.dropped} dropped")
        if self._hooks is not None and not asked.quiet:
            warn(f"--on-rotate: {self._hooks.done} done, {self._hooks.failed_count} failed")


def _body_replacement(bodies: str) -> Hashes | Sizes | None:
    """The replacement for bodies."""
    if bodies == "hash":
        return Hashes(os.environ.get(HASH_KEY_VARIABLE, ""))
    return Sizes() if bodies == "none" else None

"""The recording process in production: samples, hashes, hooks and spans around a recording as any other."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING, Any

from ...errors import CassetteError
from ...redaction.bodies import KEY, Bodies, Hashes, Sizes
from ...redaction.redactor import Redactor
from ...wire.channels import STDIO
from ...wire.frames import Entry, Frame, UsualLines
from .. import rotation
from ..backlog import Backlog
from ..options import Options
from ..parts import RecordingInParts
from ..tape import Tape
from ..writer import Recording, Session
from .hooks import Hooks
from .sessions import Sampled, SampledSessions

if TYPE_CHECKING:
    from ...cassette.writer import Writer
    from ..sessions import Sessions


def recording(backlog: Backlog, status: int, path: str, options: Options, started: float) -> Recording:
    kind = InProduction if options.row is None else InProductionInParts
    return kind(backlog, status, path, options, started)


class InProduction(Recording):
    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        asked = self._options.production
        assert asked is not None
        self._asked = asked
        self._how = _how(asked.bodies)
        sample = f" --sample {asked.sample}" if asked.sample else ""
        bodies = f" --bodies {self._how.name}" if self._how else ""
        self._options = self._options._replace(manner=sample + bodies)
        self._sampled = Sampled()
        self._spans: Any = self._made_spans(asked.otlp) if asked.otlp else None
        self._hooks = self._made_hooks() if asked.on_rotate else None
        self._is_opened = False

    def _made_spans(self, url: str) -> Any:
        from .spans import Spans

        return Spans(url, self._warn)

    def _made_hooks(self) -> Hooks:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # where it is ignored, exit codes are lost
        return Hooks(self._asked.on_rotate, self._asked.hook_timeout, self._warn, rotation.handed_on)

    def run(self) -> None:
        """Record all that comes; then wait for what follows from it, within bounds."""
        if isinstance(self._how, Hashes) and not os.environ.get(KEY) and not self._asked.quiet:
            self._warn(f"--bodies hash without a key: who guesses a value can check the guess; set {KEY} to a secret")
        super().run()
        for last in (self._spans, self._hooks):
            if last is not None:
                last.finish(lambda: self._say("alive"))
        self._report()

    def _report(self) -> None:
        asked, spans, hooks = self._asked, self._spans, self._hooks
        if asked.sample and self._options.transport != STDIO and not asked.quiet:
            self._warn(f"sampled {asked.sample}: {self._sampled}")
        if spans is not None and (spans.dropped or not asked.quiet):
            self._warn(f"{spans.sent} spans sent, {spans.dropped} dropped")
        if hooks is not None and not asked.quiet:
            self._warn(f"--on-rotate: {hooks.done} done, {hooks.failed} failed")

    def _warn(self, text: str) -> None:
        self._say(f"warning {text}")

    # -- samples

    def _open(self) -> None:
        """Open the cassette: of a sample, when its first session begins."""
        if self._asked.sample is None or self._options.transport == STDIO:
            self._open_now()

    def _open_now(self) -> None:
        self._is_opened = True
        super()._open()

    def _sessions_over_http(self) -> Sessions:
        if self._asked.sample is None:
            return super()._sessions_over_http()
        return SampledSessions(self._begin, self._asked.sample, self._sampled)

    def _begin(self, at: int, transport: str, legacy: bool) -> Tape:
        if not self._is_opened:
            self._open_now()
        return super()._begin(at, transport, legacy)

    def _hiding(self) -> Redactor | Bodies | None:
        return Bodies(self._redactor, self._how) if self._how else self._redactor

    # -- spans

    def _collect(self, session: Session, frame: Frame, entries: list[Entry]) -> None:
        super()._collect(session, frame, entries)
        if self._spans is not None:
            self._spans.see(session, frame, entries)

    def _collect_usual(self, session: Session, lines: UsualLines) -> None:
        super()._collect_usual(session, lines)
        if self._spans is not None:
            self._spans.see_usual(session, lines)

    def _leave_calls(self, goes_on: bool) -> None:
        for session in self._sessions if self._spans is not None else ():
            self._spans.leave(session, goes_on)

    # -- hooks

    def _finish(self) -> None:
        self._leave_calls(goes_on=False)
        super()._finish()
        self._hand_over(self._path)

    def _hand_over(self, path: str) -> None:
        """A cassette is finished."""
        if self._hooks is not None and self._is_opened and os.path.exists(path):
            self._hooks.add(path)


class InProductionInParts(InProduction, RecordingInParts):
    def _report(self) -> None:
        self._row.prune(self._path)  # what was handed on at last
        super()._report()

    def _open_now(self) -> None:
        if self._row.is_handed_on:
            given = self._path
            try:
                self._path = self._row.newest()
            except CassetteError as error:
                self._fail(str(error))
                return
            if self._path != given:  # somebody else has begun one meanwhile
                self._say(f"cassette {self._path}")
        super()._open_now()

    def _leave_for(self, following: Writer, path: str) -> None:
        before = self._path
        self._leave_calls(goes_on=True)
        super()._leave_for(following, path)
        if self._path != before:
            self._hand_over(before)


def _how(bodies: str) -> Hashes | Sizes | None:
    if bodies == "hash":
        return Hashes(os.environ.get(KEY, ""))
    return Sizes() if bodies == "none" else None

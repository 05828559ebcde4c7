"""The forms that `convert` writes besides cassettes: one function each, of what to write."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from fnmatch import fnmatchcase
from typing import NamedTuple

from ..cassette.change.derive import hidden_keys
from ..cassette.query import filters
from ..cassette.query.filters import Filter
from ..cassette.reader import Cassette, Session
from ..cassette.schema import expect_local
from ..cassette.text import write
from ..console import say
from ..errors import count
from ..options import FORMATS
from ..wire.channels import STDIO
from ..wire.frames import Frame


class Extract(NamedTuple):
    """The sessions of a cassette to write; `output` is where they go."""

    cassette: Cassette
    sessions: list[Session]
    kept: Filter
    content: bool = False
    output: str | None = None
    side: str | None = None
    times: bool = False


def _frames(chosen: Extract, session: Session) -> Iterator[Frame]:
    for frame in filters.frames(chosen.cassette, session.id, chosen.kept):
        if chosen.side in (None, frame.sender):
            yield frame


def jsonl(chosen: Extract) -> Iterator[bytes]:
    """JSON lines; of one side only, without the lines of sessions."""
    for session in chosen.sessions:
        if chosen.side is None:
            yield write.header(session)
        yield from write.lines(_frames(chosen, session), hidden_keys(chosen.cassette, session.id))


def raw(chosen: Extract) -> Iterator[bytes]:
    from ..formats import raw

    for session in chosen.sessions:
        yield from raw.dump(_frames(chosen, session))
        if session.transport != STDIO:
            say(f"session {session.id} was recorded over HTTP: its bodies and events, with a newline behind each")


def txt(chosen: Extract) -> Iterator[str]:
    from ..formats import dump

    return dump.dump(chosen.cassette, chosen.sessions, chosen.times)


def md(chosen: Extract) -> Iterator[str]:
    from ..formats import markdown

    for session in chosen.sessions:
        yield from markdown.dump(chosen.cassette, session, _frames(chosen, session))


def otlp(chosen: Extract) -> Iterator[str]:
    from ..telemetry import spans

    return spans.dump(*chosen[:4])


def har(chosen: Extract) -> Iterator[str]:
    from ..formats import har

    return har.dump(*chosen[:3])


def perfetto(chosen: Extract) -> Iterator[str]:
    from ..formats import perfetto

    return perfetto.dump(*chosen[:3])


def pytest(chosen: Extract) -> Iterator[str]:
    yield _generate_test(chosen, "pytest")


def vitest(chosen: Extract) -> Iterator[str]:
    yield _generate_test(chosen, "vitest")


def _generate_test(chosen: Extract, runner: str) -> str:
    from ..cassette.query.recorded_requests import replies
    from ..formats import generated
    from ..formats.timed_calls import TimedCall, calls

    def key(call: TimedCall) -> tuple[int | None, str | None]:
        return call.exchange.seq, call.exchange.id

    expect_local(chosen.cassette.path)  # a test plays it from its place beside
    session = chosen.sessions[-1]
    place = os.path.relpath(chosen.cassette.path, os.path.dirname(chosen.output or "") or ".").replace(os.sep, "/")
    server = " ".join(filter(None, (session.server_name, session.server_version))) or "a server"
    # A call that does not pass the filter still comes before others like it.
    wanted = {key(call) for call in calls(chosen.cassette, session.id, chosen.kept)}
    tape = generated.CaseSource(
        server, place, session.id, replies(chosen.cassette, session.id), lambda call: key(call) in wanted
    )
    made = getattr(generated, runner)(calls(chosen.cassette, session.id), tape)
    for why in made.left_out:
        say(f"no test was made of {why}")
    if not made.tests:
        say("no tool call fits, so there is no test")
    return str(made.text)


PAGE = "html"  # which is made of several cassettes at once
_FORMS: dict[str, Callable[[Extract], Iterable[str] | Iterable[bytes]]] = {
    "jsonl": jsonl, "txt": txt, "md": md, "raw": raw, "har": har, "otlp": otlp, "perfetto": perfetto,
    "pytest": pytest, "vitest": vitest,
}  # fmt: skip
FORMS = tuple(dict.fromkeys((*FORMATS, *_FORMS, PAGE)))
OF_FRAMES = ("jsonl", "raw")  # which --side can halve
OF_ONE = ("raw", "pytest", "vitest")  # of the newest session, unless others are named
OF_MANY = (PAGE,)

# File names that name a format; other files go by their suffix, such as tape.har.
_NAMES = {
    "otlp": ("*.otlp.json",), "perfetto": ("*.perfetto.json",), "pytest": ("test_*.py", "*_test.py"),
    "vitest": ("*.test.ts", "*.test.js", "*.test.mjs"),
}  # fmt: skip


def form_of(path: str) -> str | None:
    """The form that a file's name asks for."""
    name = os.path.basename(path)
    named = (form for form, patterns in _NAMES.items() if any(fnmatchcase(name, pattern) for pattern in patterns))
    ending = os.path.splitext(name)[1].removeprefix(".")
    return next(named, ending if ending in FORMS else None)


def pieces(form: str, chosen: Extract) -> Iterator[bytes]:
    """Yield a cassette in a format, in pieces."""
    for piece in _FORMS[form](chosen):
        yield piece if isinstance(piece, bytes) else piece.encode("utf-8", "replace")


def page(several: list[Extract], kept: Filter) -> Iterator[bytes]:
    """Yield the page of one cassette, or of several, merged by time."""
    from ..viewer.page import export_tapes
    from ..viewer.tapes import PageTape

    return export_tapes(
        [
            PageTape(one.cassette, [session.id for session in one.sessions], os.path.basename(one.cassette.path))
            for one in several
        ],
        kept,
    )


def send(chosen: Extract, url: str) -> None:
    """Send spans to a collector, and report how many."""
    from ..telemetry import spans
    from ..telemetry.collector import endpoint, send

    sent, refused = send(url, spans.documents(*chosen[:4]))
    also = f", {refused} refused" if refused else ""
    say(f"{count(sent, 'span')} sent to {endpoint(url)}{also}")

"""Formats of `export` that are about calls, or about what a server offers: one function each, of what to write."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from fnmatch import fnmatchcase
from typing import NamedTuple

from ..cassette.query.filters import Filter
from ..cassette.reader import Cassette, Session
from ..cassette.schema import expect_local
from ..console import say
from ..errors import count


class Asked(NamedTuple):
    """What to export, and where it goes."""

    cassette: Cassette
    sessions: list[Session]
    kept: Filter
    content: bool = False
    output: str | None = None


def otlp(asked: Asked) -> Iterator[str]:
    from ..telemetry import spans

    return spans.dump(*asked[:4])


def har(asked: Asked) -> Iterator[str]:
    from ..formats import har

    return har.dump(*asked[:3])


def perfetto(asked: Asked) -> Iterator[str]:
    from ..formats import perfetto

    return perfetto.dump(*asked[:3])


def pytest(asked: Asked) -> Iterator[str]:
    yield _generated(asked, "pytest")


def vitest(asked: Asked) -> Iterator[str]:
    yield _generated(asked, "vitest")


def _generated(asked: Asked, runner: str) -> str:
    from ..cassette.query.calls import replies
    from ..formats import generated
    from ..formats.calls import Call, calls

    def key(call: Call) -> tuple[int | None, str | None]:
        return call.exchange.seq, call.exchange.id

    expect_local(asked.cassette.path)  # a test plays it from its place beside
    session = asked.sessions[-1]
    place = os.path.relpath(asked.cassette.path, os.path.dirname(asked.output or "") or ".").replace(os.sep, "/")
    server = " ".join(filter(None, (session.server_name, session.server_version))) or "a server"
    # A call that does not pass the filter still comes before others like it.
    wanted = {key(call) for call in calls(asked.cassette, session.id, asked.kept)}
    tape = generated.Tape(
        server, place, session.id, replies(asked.cassette, session.id), lambda call: key(call) in wanted
    )
    made = getattr(generated, runner)(calls(asked.cassette, session.id), tape)
    for why in made.left_out:
        say(f"no test was made of {why}")
    if not made.tests:
        say("no tool call fits, so there is no test")
    return str(made.text)


def lock(asked: Asked) -> Iterator[str]:
    from ..compare import lock
    from ..compare.versions import of_sessions
    from ..formats.calls import calls

    numbers = [session.id for session in asked.sessions][::-1]  # the newest first, as it counts
    version = of_sessions(asked.cassette, numbers)
    if asked.kept.terms:
        found = (calls(asked.cassette, number, asked.kept) for number in numbers)
        version = lock.only(version, {call.exchange.method for some in found for call in some})
    yield lock.dump(version)


FORMS: dict[str, Callable[[Asked], Iterable[str]]] = {
    "otlp": otlp, "har": har, "perfetto": perfetto, "pytest": pytest, "vitest": vitest, "lock": lock,
}  # fmt: skip
FOR_PEOPLE = ("md", "html")

# Names of files that say what is in them; any other by its ending, such as tape.har.
_NAMES = {
    "otlp": ("*.otlp.json",), "perfetto": ("*.perfetto.json",), "pytest": ("test_*.py", "*_test.py"),
    "vitest": ("*.test.ts", "*.test.js", "*.test.mjs"),
}  # fmt: skip


def form_of(path: str) -> str:
    """The form that a file's name asks for; its ending, known or not, where that is all there is."""
    name = os.path.basename(path)
    named = (form for form, patterns in _NAMES.items() if any(fnmatchcase(name, pattern) for pattern in patterns))
    return next(named, os.path.splitext(name)[1].removeprefix("."))


def send(asked: Asked, url: str) -> None:
    """Send spans to a collector, and say how many."""
    from ..telemetry import spans
    from ..telemetry.collector import endpoint, send

    sent, refused = send(url, spans.documents(*asked[:4]))
    also = f", {refused} refused" if refused else ""
    say(f"{count(sent, 'span')} sent to {endpoint(url)}{also}")

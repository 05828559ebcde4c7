"""verify_one: the recorded client of one cassette at a live server."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from ...cassette.reader import Cassette
from ...cassette.schema import is_remote
from ...cassette.text.opening import say
from ...compare.judging import Comparison, Settings
from ...compare.rules import Category
from ...compare.versions import compare, of_sessions
from ...diff.project import FailOn, Project
from ...diff.sources import parse
from ...errors import TapeError, count, pasted
from ...redaction.restore import variable
from ...values import check_session
from ...verify.findings import Verified, completed, found
from ...verify.plan import Options, Plan, Server, Writes, check, planned
from ...verify.play import Progress, verify
from ...verify.update import forget, keep, update
from .comparing import Judging, made, words
from .results import Result, counted, resulting, status_of
from .results import found as findings_of

Tell = Callable[[str, int, int], None]  # of a cassette, requests that were answered, of how many


class Task(NamedTuple):
    """All that is the same for each cassette. `keeps`: a new recording with changes, beside the old one, for a review;
    `announces`: on stderr, whose secrets are sent, before they are."""

    server: Server
    options: Options = Options()
    judging: Judging = Judging()
    updates: bool = False
    keeps: bool = False
    quiet: bool = False
    announces: bool = False


def verify_one(
    path: str | os.PathLike[str],
    *,
    command: Sequence[str] = (),
    url: str | None = None,
    headers: Mapping[str, str] | None = None,
    cacert: str | None = None,
    session: int | str = "latest",
    writes: Writes = "refuse",
    timeout: float = 30.0,
    recording: Sequence[str] = (),
    category: Category | None = None,
    fail_on: FailOn | None = None,
    only: Sequence[str] = (),
    ignore_paths: Sequence[str] = (),
    slower_than: float | None = None,
    project: str | os.PathLike[str] | None = None,
) -> Result:
    """Play the recorded client of one cassette at a live server, a command or a URL, and compare: see docs/api.md.

    ValueError: the arguments do not go together. All else is in the result.
    """
    if bool(command) == bool(url):
        raise ValueError("give either the server's command or its url")
    check_session(str(session))
    judging = made(category, fail_on, ignore_paths, only, slower_than, project)
    server = Server(words(command), url or "", tuple((headers or {}).items()), cacert)
    options = Options(str(session), writes, timeout, tuple(recording))
    return verified((os.fspath(path),), Task(server, options, judging))


def by_file(references: Sequence[str]) -> list[tuple[str, ...]]:
    """Group references by cassette, however it is named: each has one new recording."""
    files: dict[str, list[str]] = {}
    for reference in references:
        place = parse(reference)
        same = place.path if is_remote(place.path) else os.path.realpath(place.path)
        files.setdefault(same, []).append(reference)
    return list(map(tuple, files.values()))


def plans(references: Sequence[str], options: Options) -> list[Plan]:
    """The sessions to play. CassetteError: the file cannot be read."""
    return [plan for reference in references for plan in planned(*_meant(reference, options))]


def _meant(reference: str, options: Options) -> tuple[str, Options]:
    """A cassette, perhaps with the session or the server that is meant: `tape.db#3`, `tape.db#git`."""
    place = parse(reference)
    if place.path == reference:
        return reference, options
    return place.path, options._replace(session=place.session, label=place.label)


def secrets_to_send(found: Sequence[Plan]) -> str:
    """Name the secrets that go to the server: the cassette may be a stranger's. Empty where there is none."""
    names = sorted({variable(source) for plan in found for source in plan.needs})
    return f"sending the values of {', '.join(names)} to the server" if names else ""


def verified(references: tuple[str, ...], task: Task, tell: Tell = lambda path, done, of: None) -> Result:
    """Verify one cassette: what references to it name, together."""
    path = parse(references[0]).path
    name = references[0] if len(references) == 1 else path
    return resulting("verify", name, lambda: [path], lambda: _verified(name, references, task, tell))


def _verified(name: str, references: tuple[str, ...], task: Task, tell: Tell) -> Result:
    project = task.judging.project()
    found = plans(references, task.options)
    check(found, task.options, os.environ)
    if task.announces and (sending := secrets_to_send(found)):
        say(sending)
    settings = project.settings(task.judging.slower_than)
    with tempfile.TemporaryDirectory(prefix="mcp-tape-verify-") as directory:
        done = [_played(plan, task, directory, settings, tell) for plan in found]
        code, note = _put(found[0].path, done, task)
    sessions = [verified for verified, _ in done]
    comparisons = tuple(comparison for _, comparison in done)
    notes = [note for verified in sessions for note in _notes(verified, task.quiet)] + ([note] if note else [])
    left_out = sum(len(verified.skipped) for verified in sessions)
    played = sum(verified.requests for verified in sessions) - left_out
    return Result(
        "verify",
        name,
        status_of(max(code, *(_code(*one, project) for one in done))),
        counted(comparisons) | {"sessions": len(done), "requests": played, "left_out": left_out},
        findings_of(comparisons),
        notes=tuple(notes),
        comparisons=comparisons,
    )


def _played(plan: Plan, task: Task, directory: str, settings: Settings, tell: Tell) -> tuple[Verified, Comparison]:
    progress: Progress = lambda done, of: tell(plan.path, done, of)  # noqa: E731
    verified = verify(plan, task.server, task.options, directory, progress)
    return verified, _compared(verified, settings)._replace(alignment=None)  # which is large, and only for a page


def _compared(verified: Verified, settings: Settings) -> Comparison:
    with Cassette(verified.path) as old, Cassette(verified.new_path) as new:
        before = of_sessions(old, [verified.session], settings.ignore_paths)
        if not verified.new_sessions:
            return completed(Comparison(before.title, "live", settings.category, ()), verified)
        after = of_sessions(new, verified.new_sessions, settings.ignore_paths)
        if after.title == verified.new_path:
            after = after._replace(title="live")
        return completed(compare(before, after, settings, more=found(verified)), verified)


def _code(verified: Verified, comparison: Comparison, project: Project) -> int:
    """Exit code of one session: 1 if something was found, or nothing was verified."""
    if project.fail_on == "never":
        return int(bool(verified.said_nothing) or not any(comparison.compared.values()))
    # The same client saw it of the old server.
    return int(project.fails(comparison) or any(entry.grave and entry.is_new for entry in comparison.unknown))


def _put(path: str, done: Sequence[tuple[Verified, Comparison]], task: Task) -> tuple[int, str]:
    """Put the new recording in place, keep it for review, or drop it. Return an exit code, and what to say."""
    if not task.updates and (not task.keeps or is_remote(path)):
        return 0, ""
    if not task.updates and not any(comparison.changes for _, comparison in done):
        forget(path)
        return 0, ""
    try:
        (update if task.updates else keep)(path, [verified for verified, _ in done])
    except TapeError as error:
        return int(task.updates), str(error) if task.updates or not task.quiet else ""
    if task.quiet:
        return 0, ""
    return 0, f"updated: {path}" if task.updates else f"to decide on these changes: mcp-tape review {pasted(path)}"


def _notes(verified: Verified, quiet: bool) -> Iterator[str]:
    """What is not in the comparison: failures, what was left out, how much was played."""
    name = f"{verified.path}#{verified.session}"
    for failure in verified.failures:
        text = f"{failure.request}: {failure.message}" if failure.kind == "unanswered" else failure.message
        yield "\n  ".join([f"{name}: {text}", *failure.stderr])
    for skipped in verified.skipped:
        yield f"{name}: left out: {skipped.request}, as {skipped.why}"
    if verified.said_nothing:
        yield f"{name}: {verified.said_nothing}"
    if not quiet and all(failure.kind == "unanswered" or failure.is_late for failure in verified.failures):
        played = verified.requests - len(verified.skipped)
        yield f"{name}: {count(played, 'request')} played, {len(verified.skipped)} left out"

"""verify_one: plays the recorded client of one cassette at a live server."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from ...cassette.reader import Cassette
from ...cassette.schema import is_remote
from ...cassette.text.non_sqlite import warn_once
from ...compare.judging import Comparison, JudgingSettings
from ...compare.rule_table import Category
from ...compare.versions import PARTS, compare, version_of_sessions
from ...diff.project import FailOn, Project
from ...diff.sources import parse, read_lock
from ...diff.surveys import LiveTarget
from ...errors import TapeError, count, quote_path
from ...redaction.restore import variable
from ...values import check_session
from ...verify.plan import PlayPlan, VerifyOptions, VerifyTarget, Writes, check, plan_sessions
from ...verify.play import OnProgress, verify
from ...verify.play_findings import VerifiedSession, complete, failure_differences
from ...verify.update import forget, keep, update
from .diffing import CassettePair, JudgingOptions, compare_pair, parse_judging_options, words
from .diffing import DiffTask as Pairs
from .results import Result, count_levels, failed_result, run_for_result, status_of
from .results import findings_of as findings_of

Tell = Callable[[str, int, int], None]  # called with a cassette, the number of answered requests, and of all


class VerifyTask(NamedTuple):
    """The settings for all cassettes. `keeps`: keep a changed new recording beside the old one, for a review.

    `announces`: print the names of secrets to stderr before sending them.
    """

    server: VerifyTarget
    options: VerifyOptions = VerifyOptions()
    judging: JudgingOptions = JudgingOptions()
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

    Raises ValueError for arguments that do not go together. All other failures are in the result.
    """
    if bool(command) == bool(url):
        raise ValueError("give either the server's command or its url")
    check_session(str(session))
    judging = parse_judging_options(category, fail_on, ignore_paths, only, slower_than, project)
    server = VerifyTarget(words(command), url or "", tuple((headers or {}).items()), cacert)
    options = VerifyOptions(str(session), writes, timeout, tuple(recording))
    return verify_cassette((os.fspath(path),), VerifyTask(server, options, judging))


def by_file(references: Sequence[str]) -> list[tuple[str, ...]]:
    """Group references by cassette, whatever name they use: each cassette gets one new recording."""
    files: dict[str, list[str]] = {}
    for reference in references:
        place = parse(reference)
        same = place.path if is_remote(place.path) else os.path.realpath(place.path)
        files.setdefault(same, []).append(reference)
    return list(map(tuple, files.values()))


def plans(references: Sequence[str], options: VerifyOptions) -> list[PlayPlan]:
    """The sessions to play. Raises CassetteError if a file can't be read."""
    return [plan for reference in references for plan in plan_sessions(*_split_reference(reference, options))]


def _split_reference(reference: str, options: VerifyOptions) -> tuple[str, VerifyOptions]:
    """Split off the session or the server, if the reference names one: `tape.db#3`, `tape.db#git`."""
    place = parse(reference)
    if place.path == reference:
        return reference, options
    return place.path, options._replace(session=place.session, label=place.label)


def secrets_to_send(found: Sequence[PlayPlan]) -> str:
    """Name the secrets to send to the server, as the cassette may not be trusted; empty if there are none."""
    names = sorted({variable(source) for plan in found for source in plan.needs})
    return f"sending the values of {', '.join(names)} to the server" if names else ""


def verify_cassette(references: tuple[str, ...], task: VerifyTask, tell: Tell = lambda path, done, of: None) -> Result:
    """Verify one cassette: all sessions that the references name."""
    path = parse(references[0]).path
    name = references[0] if len(references) == 1 else path
    if read_lock(references[0]) is not None:
        return _verify_lock(references[0], task)
    return run_for_result("verify", name, lambda: [path], lambda: _verify(name, references, task, tell))


def _verify_lock(reference: str, task: VerifyTask) -> Result:
    """Compare a lock with the live server's lists: a lock has no calls to play."""
    if task.updates:
        hint = f"mcp-tape lock --check {quote_path(reference)} --update"
        return failed_result(
            "verify", reference, "refused", f"{reference} is a lock, not a recording; to lock it again: {hint}"
        )
    server = task.server
    live = LiveTarget(server.command, server.url, server.headers, server.cacert, task.options.timeout)
    return compare_pair(CassettePair(reference, live), Pairs(task.judging, PARTS[:1], command="verify"))


def _verify(name: str, references: tuple[str, ...], task: VerifyTask, tell: Tell) -> Result:
    project = task.judging.project()
    found = plans(references, task.options)
    check(found, task.options, os.environ)
    if task.announces and (sending := secrets_to_send(found)):
        warn_once(sending)
    settings = project.settings(task.judging.slower_than)
    with tempfile.TemporaryDirectory(prefix="mcp-tape-verify-") as directory:
        done = [_play_and_compare(plan, task, directory, settings, tell) for plan in found]
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
        count_levels(comparisons) | {"sessions": len(done), "requests": played, "left_out": left_out},
        findings_of(comparisons),
        notes=tuple(notes),
        comparisons=comparisons,
    )


def _play_and_compare(
    plan: PlayPlan, task: VerifyTask, directory: str, settings: JudgingSettings, tell: Tell
) -> tuple[VerifiedSession, Comparison]:
    progress: OnProgress = lambda done, of: tell(plan.path, done, of)  # noqa: E731
    verified = verify(plan, task.server, task.options, directory, progress)
    return verified, _compare_sessions(verified, settings)._replace(
        alignment=None
    )  # which is large, and only for a page


def _compare_sessions(verified: VerifiedSession, settings: JudgingSettings) -> Comparison:
    with Cassette(verified.path) as old, Cassette(verified.new_path) as new:
        before = version_of_sessions(old, [verified.session], settings.ignore_paths)
        if not verified.new_sessions:
            return complete(Comparison(before.title, "live", settings.category, ()), verified)
        after = version_of_sessions(new, verified.new_sessions, settings.ignore_paths)
        if after.title == verified.new_path:
            after = after._replace(title="live")
        return complete(compare(before, after, settings, more=failure_differences(verified)), verified)


def _code(verified: VerifiedSession, comparison: Comparison, project: Project) -> int:
    """Exit code of one session: 1 if something was found, or nothing was verified."""
    if project.fail_on == "never":
        return int(bool(verified.empty_reason) or not any(comparison.compared.values()))
    # The same unknown part in the old recording does not count.
    return int(project.fails(comparison) or any(entry.grave and entry.is_new for entry in comparison.unknown))


def _put(path: str, done: Sequence[tuple[VerifiedSession, Comparison]], task: VerifyTask) -> tuple[int, str]:
    """Put the new recording in place, keep it for review, or drop it. Return an exit code and a message."""
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
    return 0, f"updated: {path}" if task.updates else f"to decide on these changes: mcp-tape review {quote_path(path)}"


def _notes(verified: VerifiedSession, quiet: bool) -> Iterator[str]:
    """Notes beside the comparison: failures, requests left out, how much was played."""
    name = f"{verified.path}#{verified.session}"
    for failure in verified.failures:
        text = f"{failure.request}: {failure.message}" if failure.kind == "unanswered" else failure.message
        yield "\n  ".join([f"{name}: {text}", *failure.stderr])
    for skipped in verified.skipped:
        yield f"{name}: left out: {skipped.request}, as {skipped.why}"
    if verified.empty_reason:
        yield f"{name}: {verified.empty_reason}"
    if not quiet and all(failure.kind == "unanswered" or failure.is_late for failure in verified.failures):
        played = verified.requests - len(verified.skipped)
        yield f"{name}: {count(played, 'request')} played, {len(verified.skipped)} left out"

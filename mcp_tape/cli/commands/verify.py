"""mcp-tape verify"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from ...compare.judging import Comparison
from ...errors import TapeError, count, pasted
from ...options import RECORDING, WEB, words_for
from ...start.outcome import say
from ...values import check_session
from ..click_options import files as of_files
from ..click_options import given_as
from ..compare import AfterDashes, diff_options, fails, is_text, project_from, show, unused_in_all
from .diff import _TIMEOUT

if TYPE_CHECKING:
    from ...compare.project import Project
    from ...verify.findings import Verified
    from ...verify.plan import Options, Plan, Server

# Read here only to refuse what cannot be read: the recorder is given the words.
_RECORDING = tuple(row._replace(check=row.parse or row.check, parse=None) for row in RECORDING)


@click.command(
    "verify",
    cls=AfterDashes,
    epilog="\b\nExamples:\n"
    "  mcp-tape verify time.db -- uvx mcp-server-time\n"
    "  mcp-tape verify tapes/*.db --skip-writes -- python server.py\n"
    "  mcp-tape verify remote.db --url https://example.com/mcp --header 'X-Key: …'\n"
    "  mcp-tape verify time.db --update -- uvx mcp-server-time",
)
@click.argument("files", metavar="CASSETTE...", nargs=-1, required=True, shell_complete=of_files)
@click.option("--session", default="latest", show_default=True, metavar="N",
              help="latest, all or a number; latest: the newest that is no probe, and what extends it.")  # fmt: skip
@click.option("--allow-writes", is_flag=True, help="Also call tools that are not annotated as read-only.")
@click.option("--skip-writes", is_flag=True, help="Leave such tools out, and say which.")
@click.option("--update", is_flag=True, help="Show the changes, then replace the recording with the new one.")
@click.option("--no-keep", is_flag=True, help="Leave no CASSETTE.new for mcp-tape review; so it is if CI is set.")
@_TIMEOUT
@given_as(*WEB)
@diff_options
@given_as(*_RECORDING)
@click.option("-q", "--quiet", is_flag=True, help="Show only changes, unless something goes wrong.")
@click.pass_context
def command(ctx: click.Context, /, files: tuple[str, ...], quiet: bool, **given: Any) -> None:
    """Play the recorded client against a live server, and report what changed.

    The server's own requests get the recorded answers. Values that it generates, such as cursors and ids, are sent
    back as a client would; secrets that the recording hides are taken from the environment. What happens is recorded,
    and compared as mcp-tape diff does.
    """
    from ...transports.signals import tidied_up
    from ...verify.plan import check, planned

    server, options = _server(given), _options(given)
    project = project_from(given)
    found = [plan for file in files for plan in planned(*_named(file, options))]
    check(found, options, os.environ)
    _report_secrets(found, quiet)
    codes, comparisons = [], list[Comparison]()
    with tidied_up(), tempfile.TemporaryDirectory(prefix="mcp-tape-verify-") as directory:
        for together in _by_file(found):
            alone = len(found) == 1
            done = [_verified(plan, server, options, directory, project, given, quiet, alone) for plan in together]
            codes += [_code(verified, comparison, project) for verified, comparison in done]
            codes.append(_after(together[0].path, done, given, quiet))
            comparisons += [comparison for _, comparison in done]
    if not is_text(given):
        show(comparisons, project, given)
    elif len(comparisons) > 1 and (lines := unused_in_all(comparisons)):
        say(f"unused in {os.path.relpath(project.ignore_path)}, by all of these: {', '.join(lines)}")
    ctx.exit(max(codes))


def _by_file(found: Sequence[Plan]) -> list[list[Plan]]:
    """Group plans by cassette, however it was named: each has one new recording."""
    files: dict[str, list[Plan]] = {}
    for plan in found:
        files.setdefault(os.path.realpath(plan.path), []).append(plan)
    return list(files.values())


def _verified(
    plan: Plan,
    server: Server,
    options: Options,
    directory: str,
    project: Project,
    given: dict[str, Any],
    quiet: bool,
    alone: bool,
) -> tuple[Verified, Comparison]:
    """Play a session and compare; for people, print the result at once. `alone`: there are no others."""
    verified = _play(plan, server, options, directory)
    comparison = _compared(verified, project, given)
    if is_text(given):
        show(comparison if alone else comparison._replace(unused=()), project, given)
    _report(verified, quiet)
    return verified, comparison


def _after(file: str, done: Sequence[tuple[Verified, Comparison]], given: dict[str, Any], quiet: bool) -> int:
    """Put the new recording in place, keep it for review, or drop it. Return an exit code."""
    from ...verify.update import forget, keep, update

    updates, sessions = given["update"], [verified for verified, _ in done]
    if not updates and (given["no_keep"] or os.environ.get("CI")):
        return 0
    if not updates and not any(comparison.changes for _, comparison in done):
        forget(file)
        return 0
    put = update if updates else keep
    try:
        put(file, sessions)
    except TapeError as error:
        if updates or not quiet:
            say(str(error))
        return int(updates)
    if not quiet:
        say(f"updated: {file}" if updates else f"to decide on these changes: mcp-tape review {pasted(file)}")
    return 0


def _report_secrets(found: Sequence[Plan], quiet: bool) -> None:
    """Name the secrets that go to the server, before they do: the cassette may be a stranger's."""
    from ...redaction.restore import variable

    names = sorted({variable(source) for plan in found for source in plan.needs})
    if names and not quiet:
        say(f"sending the values of {', '.join(names)} to the server")


def _play(plan: Plan, server: Server, options: Options, directory: str) -> Verified:
    from ...verify.play import verify

    def progress(done: int, of: int) -> None:
        if sys.stderr.isatty():
            click.echo(f"\rverifying {os.path.basename(plan.path)}: {done}/{of} calls", nl=False, err=True)

    try:
        return verify(plan, server, options, directory, progress)
    finally:
        if sys.stderr.isatty():
            click.echo("\r\033[K", nl=False, err=True)


def _code(verified: Verified, comparison: Comparison, project: Project) -> int:
    """Exit code of one session: 1 if something was found, or nothing was verified."""
    if project.fail_on == "never":
        return int(bool(verified.said_nothing) or not any(comparison.compared.values()))
    # The same client saw it of the old server.
    return int(fails(comparison, project) or any(entry.grave and entry.is_new for entry in comparison.unknown))


def _compared(verified: Verified, project: Project, given: dict[str, Any]) -> Comparison:
    from ...cassette.reader import Cassette
    from ...compare.versions import compare, of_sessions
    from ...verify.findings import completed, found

    settings = project.settings(given.get("slower_than"))
    with Cassette(verified.path) as old, Cassette(verified.new_path) as new:
        before = of_sessions(old, [verified.session], settings.ignore_paths)
        if not verified.new_sessions:
            return completed(Comparison(before.title, "live", settings.category, ()), verified)
        after = of_sessions(new, verified.new_sessions, settings.ignore_paths)
        if after.title == verified.new_path:
            after = after._replace(title="live")
        return completed(compare(before, after, settings, more=found(verified)), verified)


def _report(verified: Verified, quiet: bool) -> None:
    """Report what is not in the comparison: failures, what was left out, how much was played."""
    name = f"{verified.path}#{verified.session}"
    for failure in verified.failures:
        text = f"{failure.request}: {failure.message}" if failure.kind == "unanswered" else failure.message
        say("\n  ".join([f"{name}: {text}", *failure.stderr]))
    for skipped in verified.skipped:
        say(f"{name}: left out: {skipped.request}, as {skipped.why}")
    if verified.said_nothing:
        say(f"{name}: {verified.said_nothing}")
    if not quiet and all(failure.kind == "unanswered" or failure.is_late for failure in verified.failures):
        played = verified.requests - len(verified.skipped)
        say(f"{name}: {count(played, 'request')} played, {len(verified.skipped)} left out")


def _named(file: str, options: Options) -> tuple[str, Options]:
    """A cassette, perhaps with the session or the server that is meant: `tape.db#3`, `tape.db#git`."""
    from ...compare.sources import parse

    place = parse(file)
    if place.revision is not None:
        raise click.UsageError(f"{file}: only a cassette on disk can be verified")
    if place.path == file:
        return file, options
    return place.path, options._replace(session=place.session, label=place.label)


def _server(given: dict[str, Any]) -> Server:
    from ...verify.plan import Server

    command, url = given["command"] or (), given["url"] or ""
    if bool(command) == bool(url):
        raise click.UsageError("who is to be verified? Add -- and the server's command, or --url URL")
    if command and (given["headers"] or given["cacert"]):
        raise click.UsageError("--header and --cacert go with --url; a command talks on stdin and stdout")
    return Server(tuple(command), url, given["headers"], given["cacert"])


def _options(given: dict[str, Any]) -> Options:
    from ...verify.plan import Options

    if given["allow_writes"] and given["skip_writes"]:
        raise click.UsageError("either --allow-writes or --skip-writes, not both")
    try:
        check_session(given["session"])
    except ValueError as error:
        raise click.UsageError(f"--session: {error}") from None
    writes: Any = "allow" if given["allow_writes"] else "skip" if given["skip_writes"] else "refuse"
    return Options(given["session"], writes, given["timeout"], tuple(words_for(_RECORDING, given)))

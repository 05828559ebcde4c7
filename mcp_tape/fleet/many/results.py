"""Results: the outcome for one cassette, with an exit code; and their rows, which can be merged."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from html import escape
from time import monotonic
from typing import Any, Literal, NamedTuple

from ... import __version__
from ...cassette.query.integrity import Finding
from ...cassette.reader import Cassette
from ...cassette.text import losses
from ...compare.judging import Comparison, UnknownPart
from ...compare.report import wording
from ...compare.report.junit import Case, Suite, cases, document, plain_case, summary
from ...compare.report.wording import View, visible
from ...errors import CassetteError, ServerError, TapeError
from ...redaction.diagnostics import hide_secrets
from ..cassette_paths import printable_place
from ..shards import Shard, hash_of

ROW = 1  # the version of the format
Status = Literal["passed", "failed", "refused", "unreadable", "unreachable", "crashed"]
# The exit code of each. A run exits with the highest.
CODES: dict[Status, int] = {
    "passed": 0,
    "failed": 1,
    "crashed": 1,
    "refused": 2,
    "unreadable": 3,
    "unreachable": 4,
}
_BY_CODE: dict[int, Status] = {code: status for status, code in reversed(CODES.items())}
_WHATS = {"refused": "options", "unreadable": "file", "unreachable": "server"}
WRONG = (*_WHATS.values(), "error")  # findings that explain why a command failed
_LONGEST = 500


Watch = Callable[[Cassette], AbstractContextManager[Callable[[int], None]]]  # progress on a cassette, in frames


@contextmanager
def watch_nothing(cassette: Cassette) -> Iterator[Callable[[int], None]]:
    """No progress."""
    yield lambda done: None


class Result(NamedTuple):
    """The outcome for one cassette. `notes` are for people; verify and diff have `comparisons`."""

    command: str
    cassette: str
    status: Status = "passed"
    counts: Mapping[str, int] = {}
    findings: tuple[Finding, ...] = ()
    hash: str | None = None  # of its content; None if it can't be read
    seconds: float = 0.0
    notes: tuple[str, ...] = ()
    comparisons: tuple[Comparison, ...] = ()
    details: Mapping[str, Any] = {}

    @property
    def code(self) -> int:
        """The exit code that the command has for this cassette alone."""
        return CODES[self.status]

    def as_dict(self) -> dict[str, Any]:
        """The row for JSON; see docs/api.md."""
        return {
            "row": ROW,
            "command": self.command,
            "cassette": self.cassette,
            "hash": self.hash,
            "status": self.status,
            "code": self.code,
            "counts": dict(self.counts),
            "findings": [finding._asdict() for finding in self.findings],
            "seconds": self.seconds,
            "mcp_tape": __version__,
            **self.details,
            **({"comparisons": [one.as_dict() for one in self.comparisons]} if self.comparisons else {}),
        }


def row(result: Result, shard: Shard | None, of: int) -> dict[str, Any]:
    """The row of a result in a run. `of`: the total number of cassettes in all shards."""
    facts = result.as_dict()
    first = {name: facts.pop(name) for name in ("row", "command", "cassette", "hash")}
    return {**first, "shard": None if shard is None else str(shard), "of": of, **facts}


def run_for_result(
    command: str, cassette: str, files: Callable[[], Sequence[str]], work: Callable[[], Result]
) -> Result:
    """Work on a cassette and return the result, with its duration and content hash. An error is a result, too.

    `files`: the files to hash. Losses of another tool's recording become notes.
    """
    began, cassette = monotonic(), printable_place(cassette)
    digest = _hash(files)
    with losses.collect() as lost:
        try:
            result = work()
        except TapeError as error:
            result = failed_result(command, cassette, status_of(error.exit_code), _safe_message(error))
        except OSError as error:
            result = failed_result(command, cassette, "crashed", f"{cassette}: {error.strerror or error}")
    notes = *(f"{path}: {why}" for path, whys in lost.items() for why in whys), *result.notes
    return result._replace(cassette=cassette, hash=digest, seconds=round(monotonic() - began, 6), notes=notes)


def _safe_message(error: TapeError) -> str:
    """An error's message without secrets, as it may quote a server's stderr."""
    return hide_secrets(str(error)) if isinstance(error, ServerError) else str(error)


def _hash(files: Callable[[], Sequence[str]]) -> str | None:
    try:
        return hash_of(files())
    except CassetteError:
        return None


def failed_result(command: str, cassette: str, status: Status, message: str) -> Result:
    """The result for a cassette on which a command has failed."""
    return Result(
        command, cassette, status, findings=(Finding(_WHATS.get(status, "error"), message),), notes=(message,)
    )


def status_of(code: int) -> Status:
    return _BY_CODE.get(code, "failed")


def findings_of(comparisons: Iterable[Comparison]) -> tuple[Finding, ...]:
    """The changes and the unknown parts, as findings."""
    return tuple(finding for comparison in comparisons for finding in _findings_of(comparison))


def _findings_of(comparison: Comparison) -> Iterable[Finding]:
    number = comparison.cassette.rpartition("#")[2]
    session = int(number) if number.isdigit() else None
    for entry in comparison.unknown:
        level = "error" if entry.grave else "info"
        yield Finding("unknown", f"{entry.what}: {entry.why}", session, level=level)
    for change in comparison.changes:
        message = " ".join(filter(None, (wording.subject(change), wording.clip(change.note, _LONGEST))))
        yield Finding(change.rule, message, session, path=change.path, level=change.level)


def count_levels(comparisons: Iterable[Comparison]) -> dict[str, int]:
    """The number of changes of each level in several comparisons."""
    counts = {"error": 0, "warn": 0, "info": 0}
    for comparison in comparisons:
        for change in comparison.changes:
            counts[change.level] += 1
    return counts


def comparisons_of(result: Result) -> tuple[Comparison, ...]:
    """The comparisons to report; for a failed cassette, one that reports the failure."""
    if result.comparisons:
        return result.comparisons
    unknown = tuple(UnknownPart("the cassette", finding.message, True) for finding in result.findings)
    return (Comparison(result.cassette, "unknown", "call", (), unknown, cassette=result.cassette),)


# -- results as JUnit XML: a test suite for each cassette, with the properties that `merging` needs

PROPERTIES = ("row", "command", "cassette", "hash", "shard", "of", "status", "code")  # of a row
PREFIX = "mcp-tape."


def report(results: Sequence[tuple[Result, dict[str, Any]]], view: View) -> Iterator[str]:
    """Yield the document of results, each given with its row."""
    return document([_suite(result, row, view) for result, row in results])


def _suite(result: Result, row: dict[str, Any], view: View) -> Suite:
    known = [(PREFIX + name, str(row[name])) for name in PROPERTIES if row[name] is not None]
    name = f"mcp-tape {result.command}: {result.cassette}"
    if result.command in ("verify", "diff", "breaking", "lock"):
        comparisons = comparisons_of(result)
        found = [case for one in comparisons for case in cases(one, view)]
        said = [line for one in comparisons for line in summary(one)]
    else:
        found = list(map(_case, result.findings)) or [Case("mcp-tape", "no findings", "", ())]
        said = [", ".join(f"{number} {thing}" for thing, number in result.counts.items())]
    return Suite(name, found, said, known, result.seconds)


def _case(finding: Finding) -> Case:
    place = (("session", finding.session), ("frame", finding.seq), ("", finding.path))
    name = " ".join(f"{noun} {value}".strip() for noun, value in place if value is not None) or "the cassette"
    if finding.level == "info":
        text = escape(visible(finding.message))
        return Case(finding.what, name, "", (f"      <system-out>{text}</system-out>",))
    outcome = "error" if finding.what in WRONG else "failure"
    return plain_case(finding.what, name, outcome, finding.message, finding.what)

"""check_one: the damage, secrets and breaches of contract in one cassette."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from ...cassette.query.integrity import Finding, check
from ...cassette.reader import Cassette
from ...contracts.terms import Terms, parse_terms
from ...redaction.diagnostics import Rules, redactor
from ...redaction.redactor import Redactor
from ...values import check_session
from .results import Result, Watch, run_for_result, status_of, watch_nothing


class Contract(NamedTuple):
    """The requirements for a run, as plain values. `session`: the sessions that are the run."""

    expect: tuple[str, ...] = ()
    forbid: tuple[str, ...] = ()
    limits: tuple[tuple[str, int], ...] = ()
    duration: float | None = None  # seconds
    definitions: int | None = None  # bytes
    audited: bool = False
    session: str = "all"

    def terms(self) -> Terms:
        """Parse the terms. Raises ValueError for an invalid filter."""
        return parse_terms(self.expect, self.forbid, self.limits, self.duration, self.definitions)


class CheckTask(NamedTuple):
    """The settings for all cassettes. `rules`: redaction rules besides the secrets of the environment."""

    contract: Contract = Contract()
    rules: Rules = Rules()


def check_one(
    path: str | os.PathLike[str],
    *,
    expect: str | Sequence[str] = (),
    forbid: str | Sequence[str] = (),
    max: Mapping[str, int] | None = None,  # noqa: A002 - as the option of the command is called
    max_duration: float | None = None,
    max_definition_bytes: int | None = None,
    audit: bool = False,
    session: int | str = "all",
    redact_keys: Sequence[str] = (),
    redact_paths: Sequence[str] = (),
    redact_values: Sequence[str] = (),
) -> Result:
    """Check one cassette for damage, secrets and breaches of a contract: see docs/api.md.

    Raises ValueError for a malformed argument. All other failures are in the result.
    """
    check_session(str(session))
    limits = tuple((max or {}).items())
    wanted, unwanted = ((given,) if isinstance(given, str) else tuple(given) for given in (expect, forbid))
    terms = wanted, unwanted, limits, max_duration, max_definition_bytes
    contract = Contract(*terms, audited=audit, session=str(session))
    contract.terms()
    return check_cassette(
        os.fspath(path), CheckTask(contract, Rules(tuple(redact_keys), tuple(redact_paths), tuple(redact_values)))
    )


def redactor_here(rules: Rules) -> Redactor:
    """A redactor with these rules and the secrets of this environment. It remembers all: speed does not matter."""
    return redactor(rules._replace(environ=os.environ), most_seen=sys.maxsize)


def check_cassette(path: str, task: CheckTask, watch: Watch = watch_nothing) -> Result:
    """Check one cassette."""
    return run_for_result("check", path, lambda: [path], lambda: _check(path, task, watch))


def _check(path: str, task: CheckTask, watch: Watch) -> Result:
    with Cassette(path) as cassette, watch(cassette) as progress:
        findings = tuple(_findings(cassette, task.contract, redactor_here(task.rules), progress))
    counts = Counter(finding.what for finding in findings if finding.counts)
    return Result("check", path, status_of(int(bool(counts))), {"findings": counts.total(), **counts}, findings)


def _findings(
    cassette: Cassette, contract: Contract, redactor: Redactor, progress: Callable[[int], None]
) -> Iterator[Finding]:
    """Yield all findings; of a damaged file, only the damage."""
    damaged, terms = False, contract.terms()
    for finding in check(cassette, redactor, progress):
        damaged = damaged or finding.what == "file"
        yield finding
    if damaged or (terms == Terms() and not contract.audited):
        return
    from ...contracts import audit, breaches  # only if asked for

    sessions = breaches.sessions_of(cassette, contract.session)
    for broken in breaches.check(cassette, sessions, terms):
        yield Finding("contract", f"{broken.term}: {broken.why}", broken.session, broken.seq)
    for one in audit.audit(cassette, sessions) if contract.audited else ():
        yield Finding("audit", f"{one.why} [{one.rule}]", one.session, one.seq, one.path)

"""mcp-tape review"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import click

from ...compare.changes import Change
from ...compare.report import text
from ...compare.report.groups import group_changes
from ...compare.report.wording import View
from ...compare.rule_table import CATEGORIES, Category
from ...console.terminal import clip, echo, echo_json, shows_colours
from ...diff.pending import (
    ENDING,
    Decision,
    Decisions,
    PendingReview,
    ReviewResult,
    compare_pending,
    find_pending,
    foresee,
    remaining_changes,
    settle,
    spread,
)
from ...diff.project import load, working_directory
from ...errors import count
from ..click_options import expand_cassettes, files, json_option

F = TypeVar("F", bound=Callable[..., Any])
_KEYS: dict[str, Decision] = {"a": "accept", "r": "reject", "i": "ignore"}
_ASK = "(a)ccept (r)eject (s)kip (i)gnore this path from now on (v)iew all of it (t)he rest at once (b)ack (q)uit "
_ASK_ALL = _ASK.replace("this path", "these paths").replace("all of it", "all of them")
_ASK_REST = "These {}: (a)ccept (r)eject (s)kip (b)ack (q)uit "
_ASK_LAST = "(c)arry it out (b)ack (q)uit and change nothing "
_BLIND = "From now on every change of this text is silent, whatever it says; to see the next one: (b)ack, and accept it"
_ASK_WHOLE = "Some of it is unknown. (a)ccept the new recording all the same (s)kip (q)uit "
_HOW = "Decide: mcp-tape review --accept FINGERPRINT, --reject FINGERPRINT, --ignore-path FINGERPRINT, or for all "
_HOW += "that is left --accept-all or --reject-all"


def _fingerprints(name: str, what: str) -> Callable[[F], F]:
    return click.option(name, metavar="FINGERPRINT", multiple=True, help=what)


@click.command(
    "review",
    epilog="\b\nExamples:\n"
    "  mcp-tape review\n"
    "  mcp-tape review time.db --list\n"
    "  mcp-tape review --accept a3f8c21b9d04 --reject 77c10e5512ab",
)
@click.argument("paths", metavar="[CASSETTE]...", nargs=-1, shell_complete=files, callback=expand_cassettes)
@_fingerprints("--accept", "Accept this change: it is intended.")
@_fingerprints("--reject", "Reject this change: it is a fault of the server.")
@_fingerprints("--ignore-path", "Never again report changes at the path of this one; adds a line to .mcp-tape-ignore.")
@click.option("--accept-all", is_flag=True, help="Accept all other changes.")
@click.option("--reject-all", is_flag=True, help="Reject all other changes.")
@click.option("--list", "only_list", is_flag=True, help="Only list the pending changes.")
@json_option
@click.option("--category", type=click.Choice(CATEGORIES), help="As for mcp-tape verify.")
@click.pass_context
def command(
    ctx: click.Context,
    /,
    paths: list[str],
    accept: tuple[str, ...],
    reject: tuple[str, ...],
    ignore_path: tuple[str, ...],
    accept_all: bool,
    reject_all: bool,
    only_list: bool,
    as_json: bool,
    category: Category | None,
) -> None:
    """Accept or reject the changes that verify found, with equal changes together.

    verify keeps the new recording beside the cassette, as CASSETTE.new. Without CASSETTE, review shows all of them in
    and below this directory. If you accept or ignore all changes, the new recording replaces the verified sessions,
    and accepted errors are written to .mcp-tape-ignore, for mcp-tape breaking. If you reject one, the cassette stays,
    and all accepted changes are written to that file. Skipped changes stay pending. Without a terminal, use the
    options. The exit code is 1 if a change is pending or rejected, or if the cassette has changed since verify.
    """
    if accept_all and reject_all:
        raise click.UsageError("either --accept-all or --reject-all, not both")
    rest: Decision | None = "accept" if accept_all else "reject" if reject_all else None
    chosen = _read_decisions({"accept": accept, "reject": reject, "ignore": ignore_path})
    project = load(working_directory(), category=category)
    pending = [compare_pending(cassette, project.settings()) for cassette in find_pending(paths)]
    width = (shutil.get_terminal_size().columns or 100) if sys.stdout.isatty() else 100
    view = View(shows_colours(), width, ignore_file=os.path.relpath(project.ignore_path))
    decided = bool(chosen or rest)
    if not pending and not as_json:
        echo("no changes are pending")
    if decided:
        _check_known(pending, chosen)
    terminal = sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty()
    if terminal and not only_list and not as_json and not decided:
        settled = _ask_for_decisions(pending, project.ignore_path, view)
    elif only_list or as_json or not decided:
        _list(pending, as_json, view)
        ctx.exit(int(bool(pending)))
    else:
        decisions = _decide_by_flags(pending, chosen, rest)
        settled = [settle(one, decisions, project.ignore_path, whole=accept_all) for one in pending]
        for one in settled:
            echo(_describe_outcome(one, view))
    ctx.exit(int(any(one.outcome != "replaced" for one in settled)))


def _read_decisions(fingerprints: dict[Decision, tuple[str, ...]]) -> Decisions:
    """Return the decisions of the command line, by fingerprint."""
    chosen: dict[str, Decision] = {}
    for decision, several in fingerprints.items():
        for fingerprint in several:
            if chosen.setdefault(fingerprint, decision) != decision:
                raise click.UsageError(f"{fingerprint} is decided twice, and differently")
    return chosen


def _check_known(pending: list[PendingReview], chosen: Decisions) -> None:
    known = {change.fingerprint: change for one in pending for change in one.comparison.changes}
    for fingerprint in chosen:
        if fingerprint not in known:
            names = [clip(f"{print_}  {change.rule} {change.subject}", 100) for print_, change in known.items()]
            listed = "\n  ".join(["these are:", *names]) if names else "there are no pending changes"
            raise click.UsageError(f"{fingerprint!r} is not pending; {listed}")


def _decide_by_flags(pending: list[PendingReview], chosen: Decisions, rest: Decision | None) -> Decisions:
    changes = [change for one in pending for change in one.comparison.changes]
    decisions = spread(changes, chosen)
    return {change.fingerprint: rest for change in changes if rest} | decisions


def _list(pending: list[PendingReview], as_json: bool, view: View) -> None:
    for one in pending:
        if as_json:
            echo_json({"cassette": one.cassette} | one.comparison.as_dict())
        else:
            _print([clip(one.cassette, view.width), *text.listing(one.comparison, view)])
    if pending and not as_json:
        echo(_HOW)


def _ask_for_decisions(pending: list[PendingReview], ignore_path: str, view: View) -> list[ReviewResult]:
    """Ask about each change, and settle a cassette as soon as all of its changes are decided."""
    decisions: Decisions = {}
    settled = []
    left = False
    for one in pending:
        if not left:
            _print([clip(one.cassette, view.width), *text.top(one.comparison, view)])
            decisions, left = _ask_each(one, decisions, view)
        asked = not left and one.grave and _all_accepted(one, decisions)
        key = _key(_ASK_WHOLE, "asq") if asked else ""
        left = left or key == "q"
        settled.append(settle(one, decisions, ignore_path, whole=key == "a"))
        echo(_describe_outcome(settled[-1], view))
    return settled


def _ask_each(one: PendingReview, decisions: Decisions, view: View) -> tuple[Decisions, bool]:
    """Ask about each group of equal changes. Return all decisions, and whether the user has quit."""
    changes, known, at, key = one.comparison.changes, decisions, 0, ""
    groups = group_changes(changes)
    past: list[tuple[int, Decisions]] = []  # earlier questions, with the decisions before each
    while at < len(groups) or past:
        if at >= len(groups):
            _print(["", *_describe_plan(foresee(one, spread(changes, decisions)), view)])
            if (key := _key(_ASK_LAST, "cbq")) != "b":
                break
            at, decisions = past.pop()
        decisions = spread(changes, decisions)
        group = _open_changes(groups[at], changes, decisions)
        if not group:
            at += 1
            continue
        key = _ask_group(group, f"{at + 1} of {len(groups)}", view)
        rest = [change for several in groups[at:] for change in _open_changes(several, changes, decisions)]
        if key == "t":
            group, after, key = rest, len(groups), _key(_ASK_REST.format(count(len(rest), "change")), "arsbq")
            if key == "b":
                continue
        else:
            after = at + 1
        if key == "q":
            return decisions, True
        if key == "b":
            at, decisions = past.pop() if past else (at, decisions)
            continue
        past.append((at, decisions))
        if key in _KEYS:
            decisions = {**decisions, **{change.fingerprint: _KEYS[key] for change in group}}
        if key == "i" and group[0].subject.kind != "call":
            _print([_BLIND])
        at = after
    return (known, True) if past and key == "q" else (spread(changes, decisions), False)


def _open_changes(group: Sequence[Change], changes: tuple[Change, ...], decisions: Decisions) -> list[Change]:
    """Return the undecided changes of a group."""
    left = remaining_changes(changes, decisions)
    return [change for change in group if change.fingerprint not in decisions and change in left]


def _ask_group(group: Sequence[Change], number: str, view: View) -> str:
    """Show equal changes, and wait for a key that decides on them."""
    _print(["", number, *text.group_block(tuple(group), view)])
    while (key := _key(_ASK_ALL if group[1:] else _ASK, "arsivtbq")) == "v":
        blocks = [line for one in group for line in text.block(one, view._replace(colour=False, full=True))]
        click.echo_via_pager("\n".join(blocks) + "\n")
    return key


def _describe_plan(one: ReviewResult, view: View) -> list[str]:
    """Describe the effects of the decisions."""
    cassette, new = clip(one.cassette, view.width), clip(one.cassette + ENDING, view.width)
    if one.outcome == "replaced":
        said = [f"The new recording will replace the verified sessions of {cassette}."]
    elif one.outcome == "rejected":
        said = [f"{cassette} will not be changed."]
    else:
        said = [f"{cassette} and {new} will not be changed: some of it is unknown or undecided."]
    if one.outcome == "rejected" and not one.undecided:
        said.append(f"{new} will be removed.")
    if lines := one.noted + one.ignored:
        said.append(f"{count(lines, 'line')} will be added to {view.ignore_file}.")
    return [f"{_format_counts(one)}.", *said]


def _all_accepted(one: PendingReview, decisions: Decisions) -> bool:
    changes = remaining_changes(one.comparison.changes, decisions)
    return all(decisions.get(change.fingerprint) in ("accept", "ignore") for change in changes)


def _key(question: str, keys: str) -> str:
    """Wait for one of these keys, and ignore others."""
    click.echo(question, nl=False)
    while len(key := click.getchar().lower()) != 1 or key not in keys:  # pasted text is ignored
        pass
    click.echo(key)
    return key


def _format_counts(one: ReviewResult) -> str:
    numbers = {"accepted": one.accepted, "rejected": one.rejected, "ignored": one.ignored, "undecided": one.undecided}
    return ", ".join(f"{number} {what}" for what, number in numbers.items() if number) or "nothing left to decide"


def _describe_outcome(one: ReviewResult, view: View) -> str:
    """Describe the outcome of a cassette's review, in one line."""
    cassette = clip(one.cassette, view.width)
    counted = _format_counts(one)
    noted = f"; {count(one.noted, 'accepted change')} noted in {view.ignore_file}" if one.noted else ""
    if one.outcome == "replaced":
        return f"{cassette}: the new recording takes its place ({counted}){noted}"
    if one.outcome == "rejected":
        return f"{cassette}: not changed ({counted}){noted}"
    unknown = one.grave and not one.undecided
    why = "some of it is unknown; to accept that too: --accept-all" if unknown else "not complete"
    return f"{cassette}: still pending ({counted}): {why}"


def _print(lines: Iterable[str]) -> None:
    click.echo("\n".join(lines))

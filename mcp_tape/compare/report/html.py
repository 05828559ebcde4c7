"""The report as one self-contained page: no scripts, no requests; for light and dark schemes, and for print."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from html import escape
from itertools import groupby, zip_longest
from typing import NamedTuple

from ..changes import ABSENT, Change, Subject
from ..judging import Comparison
from ..rule_table import LEVELS, RULES, Level
from . import wording
from .before_after import PLENTY, DiffRow, definition_rows, rows
from .groups import ChangeGroup, are_gone, group_changes, group_title, line_to_accept
from .wording import View, clip

_LONGEST = PLENTY.width  # long, since nobody can judge a cut value
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
_WORD = re.compile(r"\w+|\s+|[^\w\s]")
_LONGEST_LINE = 5_000  # characters that are compared word by word
_ALIKE = 0.3  # of the words of two lines, for their differences to be worth marking
_MOST_LINKS = 6  # of a line of the overview
_PLURALS: dict[Level, str] = {"error": "Errors", "warn": "Warnings", "info": "Notes"}


def report(comparisons: Sequence[Comparison], view: View) -> Iterator[str]:
    """A page with an article for each."""
    title = escape("; ".join(f"{wording.headline(one)} — {wording.versions(one)}" for one in comparisons))
    yield "<!doctype html>"
    yield '<html lang="en">'
    yield '<head><meta charset="utf-8">'
    yield f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield '<meta name="color-scheme" content="light dark">'
    yield f"<title>{title}</title>"
    yield f"<style>{_STYLE}</style></head>"
    yield "<body><main>"
    yield from articles(comparisons, view)
    yield "</main>"
    yield "<footer><p>Made by mcp-tape.</p></footer>"
    yield "</body></html>"


def articles(comparisons: Sequence[Comparison], view: View) -> Iterator[str]:
    """The content of the page, without the page around it."""
    for number, comparison in enumerate(comparisons):
        yield from _article(comparison, view, f"-{number}" if number else "")


def _article(comparison: Comparison, view: View, mark: str) -> Iterator[str]:
    """One comparison. `mark` makes its anchors unique on the page."""
    # Within a level, what is gone first: nothing that used it can work.
    groups = sorted(
        group_changes(comparison.changes), key=lambda group: (LEVELS.index(group[0].level), not _is_gone(group))
    )
    anchors = {id(group): f"change-{number}{mark}" for number, group in enumerate(groups, 1)}
    yield "<article>"
    yield from _header(comparison, groups, anchors)
    definitions = _changed_definitions(comparison)
    whole = {subject: f"definition-{number}{mark}" for number, subject in enumerate(definitions, 1)}
    for level, by_level in groupby(_by_rule(groups).items(), key=lambda item: item[0][0]):
        yield f'<section aria-labelledby="{level}{mark}">'
        yield f'<h2 id="{level}{mark}" class="{level}">{_PLURALS[level]} {comparison.count(level)}</h2>'
        for (_, rule), mine in by_level:
            number = f" <span>{several}</span>" if (several := sum(map(len, mine))) > 1 else ""
            yield f'<div class="rule"><h3>{escape(RULES[rule].says)}{number} <code>{rule}</code></h3>'
            for group in mine:
                yield from _group(group, anchors[id(group)], whole)
            yield "</div>"
        yield "</section>"
    yield from _definitions(comparison, definitions, whole, mark)
    if not comparison.changes:
        yield f"<p>No findings; {escape(wording.describe_compared(comparison))}.</p>"
    yield from _footer(comparison, view)
    yield "</article>"


def _header(comparison: Comparison, groups: Sequence[ChangeGroup], anchors: dict[int, str]) -> Iterator[str]:
    yield "<header>"
    yield f"<h1>{escape(wording.headline(comparison))}</h1>"
    yield f"<p>{_isolate(wording.versions(comparison))} ({escape(wording.scope(comparison))})</p>"
    for entry in comparison.unknown:
        what, why = clip(entry.what, _LONGEST), clip(entry.why, _LONGEST)
        yield f'<p class="unknown" role="note"><strong>Unknown: {_isolate(what)}.</strong> {_isolate(why)}</p>'
    if groups:
        yield '<table class="overview"><caption>All changes, the worst first</caption>'
        yield '<thead><tr><th scope="col">Level</th><th scope="col">What</th><th scope="col">Where</th>'
        yield '<th scope="col">Count</th></tr></thead><tbody>'
        for (level, rule), mine in _by_rule(groups).items():
            yield f'<tr><td class="{level}">{level}</td><td>{escape(RULES[rule].says)}</td>'
            links = [
                f'<a href="#{anchors[id(group)]}">{_isolate(group_title(group))}</a>' for group in mine[:_MOST_LINKS]
            ]
            more = f" and {len(mine) - _MOST_LINKS} more" if len(mine) > _MOST_LINKS else ""
            yield f"<td>{', '.join(links)}{more}</td><td>{sum(map(len, mine))}</td></tr>"
        yield "</tbody></table>"
    yield "</header>"


def _by_rule(groups: Sequence[ChangeGroup]) -> dict[tuple[Level, str], list[ChangeGroup]]:
    found: dict[tuple[Level, str], list[ChangeGroup]] = {}
    for group in groups:
        found.setdefault((group[0].level, group[0].rule), []).append(group)
    return found


def _group(group: ChangeGroup, anchor: str, definitions: dict[Subject, str]) -> Iterator[str]:
    """Equal changes as one: what changed, where, before and after."""
    change = group[0]
    # Notes are folded on screen, but printed.
    state = "" if change.level == "info" else " open"
    yield f'<details id="{anchor}" class="change {change.level}" data-changes="{line_to_accept(group)}"{state}>'
    alone = "" if group[1:] else f" <code>{change.fingerprint}</code>"
    yield f"<summary><strong>{_isolate(group_title(group))}</strong>{wording.times(change)}{alone}</summary>"
    place = f"<code>{escape(wording.place(change, _LONGEST))}</code>" if change.path != "$" else ""
    whole = definitions.get(change.subject, "") if not group[1:] else ""
    link = f'<a href="#{whole}">the whole definition</a>' if whole else ""
    if place or link:
        yield f"<p>{' · '.join(filter(None, (place, link)))}</p>"
    if change.note:
        yield f"<p>{_isolate(clip(change.note, _LONGEST))}</p>"
    if are_gone(group):
        for one in group:
            named = f"{_isolate(wording.subject(one))} <code>{one.fingerprint}</code>"
            yield f'<details class="subject"><summary>{named}</summary>'
            yield from _sides(one.before, one.after, _lines(one))
            yield "</details>"
    else:
        yield from _sides(change.before, change.after, _lines(change))
        yield from _subjects(group) if group[1:] else ()
    yield "</details>"


def _is_gone(group: ChangeGroup) -> bool:
    return group[0].is_removal


def _lines(change: Change) -> list[DiffRow]:
    """Before and after; of a definition that is new or gone, a line for each member."""
    before, after = ({} if side is ABSENT else side for side in (change.before, change.after))
    is_whole = change.path == "$" and ABSENT in (change.before, change.after)
    if is_whole and isinstance(before, dict) and isinstance(after, dict):
        return definition_rows(before, after, _LONGEST)
    return rows(change, PLENTY)


def _subjects(group: ChangeGroup) -> Iterator[str]:
    """The subjects of a group with their fingerprints."""
    yield '<ul class="subjects">'
    for one in group:
        place = wording.place(one, _LONGEST) if one.path != group[0].path else ""
        yield f"<li>{_isolate(f'{wording.subject(one)} {place}'.rstrip())} <code>{one.fingerprint}</code></li>"
    yield "</ul>"


def _sides(before: object, after: object, found: Sequence[DiffRow]) -> Iterator[str]:
    """The lines of both sides in pairs, below each other if there is no room; only those of a side that exists."""
    if not found:
        return
    sides = [name for name, side in (("Before", before), ("After", after)) if side is not ABSENT]
    heads = "".join(f'<th scope="col">{name}</th>' for name in sides)
    yield f'<table class="lines"><thead><tr>{heads}</tr></thead><tbody>'
    for line in _pair_lines(found):
        if line.note:
            yield f'<tr class="gap"><td colspan="{len(sides)}">{escape(line.note)}</td></tr>'
        elif len(sides) == 1:
            yield f"<tr><td>{line.before or line.after}</td></tr>"
        else:
            kind = ' class="equal"' if line.is_equal else ""
            yield f"<tr{kind}><td>{line.before}</td><td>{line.after}</td></tr>"
    yield "</tbody></table>"


class _PairedLine(NamedTuple):
    """A line of both sides as markup; or a note about lines that are left out."""

    before: str
    after: str
    is_equal: bool = False
    note: str = ""


def _pair_lines(found: Sequence[DiffRow]) -> Iterator[_PairedLine]:
    """Pair old lines with the new ones that follow them, and mark the words that differ."""
    at = 0
    while at < len(found):
        old = _run(found, at, "-")
        new = _run(found, at + len(old), "+")
        at += len(old) + len(new)
        for a, b in zip_longest(old, new):
            before, after = _words(a, b)
            yield _PairedLine(before and f"<del>{before}</del>", after and f"<ins>{after}</ins>")
        if not old and not new:
            row = found[at]
            line = escape(str(row))
            yield _PairedLine("", "", note=line) if row.sign == "…" else _PairedLine(line, line, is_equal=True)
            at += 1


def _run(found: Sequence[DiffRow], start: int, sign: str) -> list[DiffRow]:
    end = next((at for at in range(start, len(found)) if found[at].sign != sign), len(found))
    return list(found[start:end])


def _words(old: DiffRow | None, new: DiffRow | None) -> tuple[str, str]:
    """Two lines as markup, with the words marked that only one of them has."""
    if old is None or new is None:
        return "" if old is None else escape(str(old)), "" if new is None else escape(str(new))
    before, after = (_WORD.findall(side.text[:_LONGEST_LINE]) for side in (old, new))
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    if max(len(old.text), len(new.text)) > _LONGEST_LINE or matcher.ratio() < _ALIKE:
        return escape(str(old)), escape(str(new))
    texts = ["- ", "+ "]
    for tag, a, b, c, d in matcher.get_opcodes():
        for number, part in enumerate(("".join(before[a:b]), "".join(after[c:d]))):
            texts[number] += escape(part) if tag == "equal" or not part else f"<mark>{escape(part)}</mark>"
    return texts[0], texts[1]


def _changed_definitions(comparison: Comparison) -> dict[Subject, list[DiffRow]]:
    """The lines of the definitions that differ, by what they define."""
    subjects = {one.subject for one in comparison.changes}
    found = {
        subject: definition_rows(*sides, _LONGEST)
        for subject, sides in comparison.definitions.items()
        if subject in subjects
    }
    return {subject: lines for subject, lines in found.items() if lines}


def _definitions(
    comparison: Comparison, definitions: dict[Subject, list[DiffRow]], anchors: dict[Subject, str], mark: str
) -> Iterator[str]:
    """Each definition that has changed, before and after; open where that may break something."""
    if not definitions:
        return
    yield f'<section aria-labelledby="definitions{mark}">'
    yield f'<h2 id="definitions{mark}">Definitions, before and after {len(definitions)}</h2>'
    for subject, lines in definitions.items():
        mine = [one for one in comparison.changes if one.subject == subject]
        state = "" if mine[0].level == "info" else " open"
        yield f'<details id="{anchors[subject]}" class="definition {mine[0].level}"{state}>'
        yield f"<summary><strong>{_isolate(wording.subject(mine[0]))}</strong> {escape(_count_levels(mine))}</summary>"
        yield from _sides(None, None, lines)
        yield "</details>"
    yield "</section>"


def _count_levels(changes: Sequence[Change]) -> str:
    counts = {level: sum(one.level == level for one in changes) for level in LEVELS}
    words: dict[Level, str] = {"error": "error", "warn": "warning", "info": "note"}
    return ", ".join(wording.count(number, words[level]) for level, number in counts.items() if number)


def _footer(comparison: Comparison, view: View) -> Iterator[str]:
    yield "<footer>"
    if comparison.compared and comparison.changes:
        yield f"<p>{escape(wording.describe_compared(comparison).capitalize())}.</p>"
    file = f"<code>{escape(wording.visible(view.ignore_file))}</code>"
    if comparison.ignored:
        yield f"<p>{file}: {wording.count(len(comparison.ignored), 'change')} ignored.</p>"
    for line in comparison.unused:
        unused = f"<code>{escape(clip(line, _LONGEST))}</code>"
        yield f"<p>A line in {file} is unused here: {unused}. Remove it if no other cassette needs it.</p>"
    if comparison.changes and all(map(wording.may_be_accepted, comparison.changes)):
        yield f"<p>To accept a change, add its 12 digits to {file}; several in one line accept a group.</p>"
    yield "</footer>"


def _isolate(text: str) -> str:
    """A name or sentence whose text direction must not affect its surroundings."""
    return f"<bdi>{escape(text)}</bdi>"


# Contrast is 4.5 : 1 or better in both schemes. Colour is never the only sign.
_STYLE = """
:root { color-scheme: light dark; --back: #fff; --text: #1b1f24; --soft: #f3f4f6; --line: #8a929c;
  --error: #b00020; --warn: #7a4b00; --info: #0b5cad; --gone: #ffe3e3; --come: #dcf5e1; }
@media (prefers-color-scheme: dark) { :root { --back: #14171a; --text: #e6e8ea; --soft: #21262b; --line: #7d8791;
  --error: #ff9aa2; --warn: #f0c36b; --info: #8ec5ff; --gone: #4a1d22; --come: #173d24; } }
body { background: var(--back); color: var(--text); font: 1rem/1.5 system-ui, sans-serif;
  max-width: 75rem; margin: 0 auto; padding: 1rem; overflow-wrap: anywhere; }
a { color: inherit; }
table { border-collapse: collapse; } caption { text-align: left; }
th, td { border: 1px solid var(--line); padding: .25rem .75rem; text-align: left; }
.overview :is(th, td):is(:first-child, :last-child) { white-space: nowrap; }
.lines { width: 100%; table-layout: fixed; border-collapse: separate; border-spacing: 0; background: var(--soft);
  font: .875rem/1.5 ui-monospace, monospace; white-space: pre-wrap; }
.lines :is(th, td) { border: 0; padding: 0 .5rem; vertical-align: top; }
.lines th { font: .875rem system-ui, sans-serif; }
.lines td:has(del) { background: var(--gone); } .lines td:has(ins) { background: var(--come); }
.lines .gap td { text-align: center; }
@media (max-width: 40rem) { .lines, .lines :is(tbody, tr, td) { display: block; }
  .lines thead, .lines .equal td:last-child { display: none; } }
code, pre { font-family: ui-monospace, monospace; font-size: .875rem; }
pre { background: var(--soft); padding: .5rem; margin: 0; white-space: pre-wrap; }
del { background: var(--gone); text-decoration: none; } ins { background: var(--come); text-decoration: none; }
mark { color: inherit; background: none; text-decoration: underline 2px; font-weight: 700; }
.subject { margin: .25rem 0; } .subjects { margin: .5rem 0 0; padding-left: 1.25rem; }
summary > code { margin-left: .5rem; } .rule > h3 { margin: 1rem 0 .25rem; font-size: 1rem; font-weight: 400; }
.error { color: var(--error); } .warn { color: var(--warn); } .info { color: var(--info); }
.unknown { border: 2px solid var(--error); padding: .5rem; }
.change, .definition { color: var(--text); border-left: .25rem solid var(--line); padding: .25rem .75rem;
  margin: .5rem 0; }
.change { break-inside: avoid; }
.change.error { border-color: var(--error); } .change.warn { border-color: var(--warn); }
summary { cursor: pointer; }
@media print { body { max-width: none; padding: 0; }
  :is(.change, .subject)::details-content { content-visibility: visible; block-size: auto; } }
"""

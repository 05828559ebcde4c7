"""The report as one self-contained page: no scripts, no requests; for light and dark schemes, and for print."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from html import escape
from itertools import groupby, zip_longest
from typing import Literal

from ..changes import ABSENT
from ..judging import Comparison
from ..rule_table import LEVELS, RULES, Level
from . import wording
from .before_after import PLENTY, DiffRow, rows
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
    for level, mine in groupby(groups, key=lambda group: group[0].level):
        yield f'<section aria-labelledby="{level}{mark}">'
        yield f'<h2 id="{level}{mark}" class="{level}">{_PLURALS[level]} {comparison.count(level)}</h2>'
        for group in mine:
            yield from _group(group, anchors[id(group)])
        yield "</section>"
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


def _group(group: ChangeGroup, anchor: str) -> Iterator[str]:
    """Equal changes as one: what changed, where, before and after."""
    change = group[0]
    # Notes are folded on screen, but printed.
    state = "" if change.level == "info" else " open"
    yield f'<details id="{anchor}" class="change {change.level}" data-changes="{line_to_accept(group)}"{state}>'
    yield f"<summary><strong>{_isolate(group_title(group))}</strong> <span>{escape(RULES[change.rule].says)}</span>"
    alone = "" if group[1:] else f" <code>{change.fingerprint}</code>"
    yield f"<code>{change.rule}</code>{wording.times(change)}{alone}</summary>"
    if place := wording.place(change, _LONGEST):
        yield f"<p><code>{escape(place)}</code></p>"
    if change.note:
        yield f"<p>{_isolate(clip(change.note, _LONGEST))}</p>"
    if are_gone(group):
        for one in group:
            named = f"{_isolate(wording.subject(one))} <code>{one.fingerprint}</code>"
            yield f'<details class="subject"><summary>{named}</summary>'
            yield from _sides(one.before, one.after, rows(one, PLENTY))
            yield "</details>"
    else:
        yield from _sides(change.before, change.after, rows(change, PLENTY))
        yield from _subjects(group) if group[1:] else ()
    yield "</details>"


def _is_gone(group: ChangeGroup) -> bool:
    return group[0].is_removal


def _subjects(group: ChangeGroup) -> Iterator[str]:
    """The subjects of a group with their fingerprints."""
    yield '<ul class="subjects">'
    for one in group:
        place = wording.place(one, _LONGEST) if one.path != group[0].path else ""
        yield f"<li>{_isolate(f'{wording.subject(one)} {place}'.rstrip())} <code>{one.fingerprint}</code></li>"
    yield "</ul>"


def _sides(before: object, after: object, found: Sequence[DiffRow]) -> Iterator[str]:
    """Side by side, or stacked if there is no room; only the values that exist, with the words that differ marked."""
    marked = list(_mark_words(found))
    yield '<div class="pair">'
    yield from _side("Before", "-", marked) if before is not ABSENT else ()
    yield from _side("After", "+", marked) if after is not ABSENT else ()
    yield "</div>"


def _side(title: str, sign: Literal["-", "+"], marked: Sequence[tuple[DiffRow, str]]) -> Iterator[str]:
    tag = "del" if sign == "-" else "ins"
    yield f"<div><h3>{title}</h3>"
    shown = [(row, text) for row, text in marked if row.sign in (sign, " ", "…")]
    lines = (f"<{tag}>{text}</{tag}>" if row.sign == sign else text for row, text in shown)
    yield f"<pre>{chr(10).join(lines)}</pre></div>"


def _mark_words(found: Sequence[DiffRow]) -> Iterator[tuple[DiffRow, str]]:
    """Rows as markup. Old lines are compared word by word with the new ones that follow them."""
    at = 0
    while at < len(found):
        old = _run(found, at, "-")
        new = _run(found, at + len(old), "+")
        pairs = [_words(a, b) for a, b in zip_longest(old, new)]
        yield from zip(old, (a for a, _ in pairs), strict=False)
        yield from zip(new, (b for _, b in pairs), strict=False)
        at += len(old) + len(new)
        if not old and not new:
            yield found[at], escape(str(found[at]))
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
.pair h3 { margin: 0; font-size: .875rem; }
code, pre { font-family: ui-monospace, monospace; font-size: .875rem; }
pre { background: var(--soft); padding: .5rem; margin: 0; white-space: pre-wrap; }
del { background: var(--gone); text-decoration: none; } ins { background: var(--come); text-decoration: none; }
mark { color: inherit; background: none; text-decoration: underline 2px; font-weight: 700; }
.subject { margin: .25rem 0; } .subjects { margin: .5rem 0 0; padding-left: 1.25rem; }
summary > code { margin-left: .5rem; }
.error { color: var(--error); } .warn { color: var(--warn); } .info { color: var(--info); }
.unknown { border: 2px solid var(--error); padding: .5rem; }
.change { color: var(--text); border-left: .25rem solid var(--line); padding: .25rem .75rem; margin: .5rem 0;
  break-inside: avoid; }
.change.error { border-color: var(--error); } .change.warn { border-color: var(--warn); }
summary { cursor: pointer; }
.pair { display: grid; gap: .5rem; grid-template-columns: repeat(auto-fit, minmax(min(100%, 24rem), 1fr)); }
@media print { body { max-width: none; padding: 0; }
  details::details-content { content-visibility: visible; block-size: auto; } }
"""

"""The report as one self-contained page: no scripts, no requests; for light and dark schemes, and for print."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from itertools import groupby
from typing import Literal

from ..changes import ABSENT, Change
from ..judging import Comparison
from ..rule_table import LEVELS, RULES, Level
from . import wording
from .before_after import PLENTY, DiffRow, rows
from .wording import View, clip

_LONGEST = PLENTY.width  # long, since nobody can judge a cut value
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
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
    yield "<article>"
    yield from _header(comparison, mark)
    for level, group in groupby(comparison.changes, key=lambda change: change.level):
        yield from _level(level, list(group), mark)
    if not comparison.changes:
        yield f"<p>No findings; {escape(wording.describe_compared(comparison))}.</p>"
    yield from _footer(comparison, view)
    yield "</article>"


def _header(comparison: Comparison, mark: str) -> Iterator[str]:
    yield "<header>"
    yield f"<h1>{escape(wording.headline(comparison))}</h1>"
    yield f"<p>{_isolate(wording.versions(comparison))} ({escape(wording.scope(comparison))})</p>"
    for entry in comparison.unknown:
        what, why = clip(entry.what, _LONGEST), clip(entry.why, _LONGEST)
        yield f'<p class="unknown" role="note"><strong>Unknown: {_isolate(what)}.</strong> {_isolate(why)}</p>'
    if comparison.changes:
        yield from _table(comparison, mark)
    yield "</header>"


def _table(comparison: Comparison, mark: str) -> Iterator[str]:
    yield "<table><caption>Changes by level</caption>"
    yield '<thead><tr><th scope="col">Level</th><th scope="col">Changes</th></tr></thead><tbody>'
    for level in LEVELS:
        name = f'<a href="#{level}{mark}">{level}</a>' if comparison.count(level) else level
        yield f'<tr><th scope="row" class="{level}">{name}</th><td>{comparison.count(level)}</td></tr>'
    yield "</tbody></table>"


def _level(level: Level, changes: list[Change], mark: str) -> Iterator[str]:
    anchor = f"{level}{mark}"
    yield f'<section aria-labelledby="{anchor}"><h2 id="{anchor}" class="{level}">{_PLURALS[level]}</h2>'
    for _, group in groupby(changes, key=lambda change: change.subject):
        mine = list(group)
        yield f"<h3>{_isolate(wording.subject(mine[0]))}</h3>"
        for change in mine:
            yield from _change(change)
    yield "</section>"


def _change(change: Change) -> Iterator[str]:
    # Notes are folded on screen, but printed.
    state = "" if change.level == "info" else " open"
    yield f'<details class="change {change.level}"{state}>'
    yield f"<summary><code>{change.rule}</code>{wording.times(change)} <span>{escape(RULES[change.rule].says)}</span>"
    yield f"<code>{change.fingerprint}</code></summary>"
    if place := wording.place(change, _LONGEST):
        yield f"<p><code>{escape(place)}</code></p>"
    if change.note:
        yield f"<p>{_isolate(clip(change.note, _LONGEST))}</p>"
    yield from _pair(change)
    yield "</details>"


def _pair(change: Change) -> Iterator[str]:
    """Side by side, or stacked if there is no room; only the values that exist."""
    found = rows(change, PLENTY)
    yield '<div class="pair">'
    yield from _side("Before", "-", found) if change.before is not ABSENT else ()
    yield from _side("After", "+", found) if change.after is not ABSENT else ()
    yield "</div>"


def _side(title: str, sign: Literal["-", "+"], found: list[DiffRow]) -> Iterator[str]:
    tag = "del" if sign == "-" else "ins"
    shown = [row for row in found if row.sign in (sign, " ", "…")]
    yield f"<div><h4>{title}</h4>"
    lines = (f"<{tag}>{escape(str(row))}</{tag}>" if row.sign == sign else escape(str(row)) for row in shown)
    yield f"<pre>{chr(10).join(lines)}</pre></div>"


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
        yield f"<p>To accept a change, add its 12 digits to {file}.</p>"
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
h4 { margin: 0; font-size: .875rem; }
code, pre { font-family: ui-monospace, monospace; font-size: .875rem; }
pre { background: var(--soft); padding: .5rem; margin: 0; white-space: pre-wrap; }
del { background: var(--gone); text-decoration: none; } ins { background: var(--come); text-decoration: none; }
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

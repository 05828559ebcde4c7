"""mcp-tape search"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import closing
from itertools import islice

import click

from ...cassette.query import word_search as searching
from ...cassette.query.inventory import select_sessions
from ...cassette.reader import Cassette
from ...cassette.schema import is_remote
from ...console import say
from ...console.progress import Progress, frames_of
from ...console.terminal import can_write, columns, display_width, echo, echo_json, fit, shows_colours, writable_text
from ...errors import quote_path
from ...formats.row_lines import line_of
from ..click_options import WholeNumber, cassette_argument, json_option
from ..message_lines import text_of

_NO_LIMIT = 1_000
_LEAST_EXCERPT = 60  # columns; with fewer, it gets its own line


@click.command(
    "search",
    epilog="\b\nExamples:\n"
    "  mcp-tape search tape.db weather bern\n"
    "  mcp-tape search tape.db '\"connection refused\" time*' --session 2\n"
    "  mcp-tape search tape.db timeout --limit 10 --json",
)
@cassette_argument
@click.argument("words", metavar="WORDS...", nargs=-1, required=True)
@click.option("--session", type=int, metavar="N", help="Search this session only. Default: all.")
@click.option("--limit", type=WholeNumber(min=1), metavar="N", help="Stop after N messages.")
@json_option
def command(file: str, words: tuple[str, ...], session: int | None, limit: int | None, as_json: bool) -> None:
    """Find messages by words: in params, results, errors, noise and stderr.

    A message must have all words, in any order and in any case. Quote words that follow each other: '"two words"'.
    'tool*' is any word that starts with tool. get_weather is two words: weather finds it.

    A line has the session's number, the line of show, and the text around the hit; on a narrow terminal, that
    text has its own line.
    """
    terms = searching.parse(" ".join(words))
    if os.path.isfile(words[-1]) and not (os.path.lexists(file) or is_remote(file)):
        words_first = " ".join(map(quote_path, (words[-1], file, *words[:-1])))
        raise click.UsageError(
            f"there is no cassette at {file}; the cassette comes first: mcp-tape search {words_first}"
        )
    with Cassette(file) as cassette:
        sessions = select_sessions(cassette, session)
        with Progress(f"searching {file}", frames_of(cassette, sessions)) as progress:
            found = 0
            with closing(searching.search(cassette, terms, sessions, progress)) as hits:
                for hit in islice(hits, limit and min(limit, sys.maxsize)):
                    found += 1
                    progress.hide()
                    _print(cassette, hit, terms, as_json)
    if not found:
        say(f"nothing in {file} has: {' '.join(words)}")


def _print(cassette: Cassette, hit: searching.Hit, terms: list[searching.SearchTerm], as_json: bool) -> None:
    line = line_of(cassette, searching.row_of(cassette, hit, terms))
    if as_json:
        echo_json(line.as_json() | {"excerpt": hit.excerpt, "hits": [list(span) for span in hit.spans]})
        return
    left = f"{hit.session:>3} {text_of(line._replace(detail=''), _NO_LIMIT)}"
    room = columns() - display_width(left) - 2
    if room < _LEAST_EXCERPT:
        echo(writable_text(fit(left, columns())))
        left, room = "  ", columns() - 4
    echo(f"{writable_text(left)}  {_mark_hits(_shorten_lead(hit, room), room)}")


def _shorten_lead(hit: searching.Hit, room: int) -> searching.Hit:
    """Shorten the text before a hit that would be cut off."""
    start, end = hit.spans[0] if hit.spans else (0, 0)
    less = start - room // 4
    if display_width(hit.excerpt[:end]) + 3 <= room or less <= 1:
        return hit
    spans = [(start - less + 1, end - less + 1) for start, end in hit.spans]
    return hit._replace(excerpt="…" + hit.excerpt[less:], spans=spans)


def _mark_hits(hit: searching.Hit, room: int) -> str:
    """Cut the excerpt to the room; hits are bold, or within « » without colours."""
    if shows_colours():
        return writable_text(_wrap_hits(fit(hit.excerpt, room), hit.spans, lambda word: click.style(word, bold=True)))
    before, after = "«»" if can_write("«»") else "[]"
    return writable_text(fit(_wrap_hits(hit.excerpt, hit.spans, lambda word: f"{before}{word}{after}"), room))


def _wrap_hits(text: str, spans: list[tuple[int, int]], mark: Callable[[str], str]) -> str:
    out, done = "", 0
    for start, end in spans:
        if text[start:end]:
            out += text[done:start] + mark(text[start:end])
            done = end
    return out + text[done:]

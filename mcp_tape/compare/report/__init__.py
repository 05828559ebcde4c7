"""Reports: a comparison as text for people, pull requests, browsers and CI.

Equal comparisons give equal text. A cassette may be untrusted: every format prints its text, and none acts on it. Every
format ends with a line break. Long values are cut only in text (in the middle), and in Markdown to fit a comment.

    text          for a terminal
    comment       Markdown, for a comment on a pull request
    html          one page, for a browser
    junit         XML, for CI
    sarif         for code scanning
    github        workflow commands, for GitHub Actions
    groups        equal changes of several subjects, reported once
    before_after  the two values of a change, in few lines
    wording       the words that all formats share
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ...cassette.text.safe_lines import json_line
from ..judging import Comparison
from ..rule_table import Level
from . import comment, github, html, junit, sarif, text
from .wording import View, file_of

_Lines = Iterable[str]
_FORMS: dict[str, Callable[[Comparison, View], _Lines]] = {
    "text": text.report,
    "json": lambda comparison, view: [json_line(comparison.as_dict()).decode().removesuffix("\n")],
    "markdown": comment.report,
    "github": github.report,
}
# Formats of which a file can hold only one.
_WHOLE: dict[str, Callable[[Sequence[Comparison], View], _Lines]] = {
    "html": html.report,
    "junit": junit.report,
    "sarif": sarif.report,
}
_BETWEEN = {"text": "\n", "markdown": "\n"}
FORMATS = (*_FORMS, *_WHOLE)


def render(
    comparison: Comparison | Sequence[Comparison],
    format: str,  # noqa: A002 - as the option of the command is called
    colour: bool = False,
    width: int = 100,
    *,
    fail_on: Level | None = "error",
    file: str | None = None,
    ignore_file: str = ".mcp-tape-ignore",
    full: bool = False,
    level: Level = "info",
    verdict: Callable[[Comparison], str] = lambda comparison: "",
) -> str:
    """Render a comparison, or several, in one of FORMATS.

    `colour` and `width` are for text, `fail_on` for JUnit (None: never). `file`: the cassette that annotations point
    at. `ignore_file`: named in text as the file for accepting changes. `full`: text cuts nothing. `level`: text omits
    lesser changes. `verdict`: the last line of text.
    """
    comparisons = [comparison] if isinstance(comparison, Comparison) else comparison
    view = View(colour, width, fail_on, file, ignore_file, full, level)
    if format in _WHOLE:
        return _join_lines(_WHOLE[format](comparisons, view))
    return _BETWEEN.get(format, "").join(
        _join_lines(_FORMS[format](one, _view_of(one, view, verdict))) for one in comparisons
    )


def _join_lines(lines: _Lines) -> str:
    return "".join(f"{line}\n" for line in lines)


def _view_of(comparison: Comparison, view: View, verdict: Callable[[Comparison], str]) -> View:
    return view._replace(verdict=verdict(comparison), file=file_of(comparison, view))

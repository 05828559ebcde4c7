"""The command line that all benchmarks share, and how a run ends."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from report import Report

_HERE = Path(__file__).parent


def parser(what: str) -> argparse.ArgumentParser:
    """The options that every benchmark has."""
    options = argparse.ArgumentParser(description=what)
    options.add_argument("--quick", action="store_true", help="in a few minutes at the most, rougher")
    options.add_argument("--smoke", action="store_true", help=argparse.SUPPRESS)  # only shows that it works
    options.add_argument("--json", metavar="FILE", help="write every sample there too")
    options.add_argument(
        "--markdown", action="store_true", help="print Markdown: the table of docs/benchmarks.md, then all tables"
    )
    options.add_argument("--write", action="store_true", help="put those tables into both files, in place of the old")
    options.add_argument("--check", action="store_true", help="exit with 1 when a bar is missed or was not measured")
    return options


def say(line: str) -> None:
    """How far a run has come."""
    print(line, file=sys.stderr, flush=True)


def conclude(options: argparse.Namespace, report: Report, page: str = "benchmarks.md") -> int:
    """Print the report, and write the samples where they are wanted; the exit code. `page` has the short table."""
    print(report.text(options.markdown))
    if options.write:
        script = Path(sys.argv[0]).name
        _replace(_HERE.parent / "docs" / page, script, report.short_form())
        _replace(_HERE / "README.md", script, report.long(markdown=True))
    if options.json:
        bars = [str(bar) for bar in report.bars]
        facts = {"title": report.title, "bars": bars, "results": report.results.as_json()}
        Path(options.json).write_text(json.dumps(facts, indent=1) + "\n")
    return int(options.check and any(bar.met is not True for bar in report.bars))


def _replace(page: Path, script: str, text: str) -> None:
    """Put what a benchmark printed between its two marks on a page."""
    before, mark, rest = page.read_text("utf-8").partition(f"<!-- printed by {script} -->\n")
    end = "<!-- end -->\n"
    page.write_text(before + mark + "\n" + text + "\n\n" + end + rest.partition(end)[2], "utf-8")

"""The command line that all benchmarks share, and how a run ends."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from measure import Bar, Results


def parser(what: str) -> argparse.ArgumentParser:
    """The options that every benchmark has."""
    options = argparse.ArgumentParser(description=what)
    options.add_argument("--quick", action="store_true", help="in a few minutes at the most, rougher")
    options.add_argument("--smoke", action="store_true", help=argparse.SUPPRESS)  # only shows that it works
    options.add_argument("--json", metavar="FILE", help="write every sample there too")
    options.add_argument("--markdown", action="store_true", help="print Markdown tables, as in docs/benchmarks.md")
    options.add_argument("--check", action="store_true", help="exit with 1 when a bar is missed or was not measured")
    return options


def conclude(options: argparse.Namespace, title: str, bars: Sequence[Bar], results: Results) -> int:
    """Write the samples where they are wanted; the exit code."""
    if options.json:
        facts = {"title": title, "bars": [str(bar) for bar in bars], "results": results.as_json()}
        Path(options.json).write_text(json.dumps(facts, indent=1) + "\n")
    return int(options.check and any(bar.met is not True for bar in bars))

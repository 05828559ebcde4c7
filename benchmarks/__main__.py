"""The cost of mcp-tape, compared with others: `python benchmarks NAME...`, with the `bench` extra installed."""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import tempfile
from contextlib import nullcontext
from pathlib import Path

from measure import Bench, compiled, pinned

# The module of each, and whether it runs pinned to one core.
BENCHMARKS = {
    "life": ("replay", True),
    "replay": ("replay", True),
    "http": ("over_http", True),
    "record": ("record", True),
    "kills": ("kills", False),
    "proxy": ("over_http", True),
    "suites": ("suites", False),
    "diff": ("commands", False),
    "reading": ("commands", False),
    "viewing": ("viewing", False),
    "workers": ("workers", False),
    "fleet": ("fleet", False),
}


def main() -> int:
    options = _arguments()
    size = "smoke" if options.smoke else "quick" if options.quick else "full"
    done = []
    for name in options.names or [name for name, (_, is_pinned) in BENCHMARKS.items() if is_pinned]:
        module, is_pinned = BENCHMARKS[name]
        with (
            tempfile.TemporaryDirectory(prefix="mcp-tape-bench-", ignore_cleanup_errors=True) as place,
            compiled(options.smoke),
            pinned() if is_pinned else nullcontext(),
        ):
            bench = Bench(name, size, Path(place), options.only)
            getattr(importlib.import_module(module), name)(bench)
        print(f"## {name}\n\n{bench.report()}", flush=True)
        if options.write:
            bench.write()
        done.append(bench)
    if options.json:
        Path(options.json).write_text(json.dumps([bench.as_json() for bench in done], indent=1) + "\n")
    return int(options.check and any(bench.missed or bench.failures for bench in done))


def _arguments() -> argparse.Namespace:
    options = argparse.ArgumentParser(prog="python benchmarks", description=__doc__)
    options.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(BENCHMARKS)}; or all that are pinned")
    options.add_argument("--quick", action="store_true", help="fewer rounds, fewer messages")
    options.add_argument("--smoke", action="store_true", help=argparse.SUPPRESS)  # only shows that it runs
    options.add_argument("--only", default="", metavar="WORD", help="kills, http: only the cases with this in the name")
    options.add_argument("--json", metavar="FILE", help="write every sample of every round there")
    options.add_argument("--write", action="store_true", help="put the table into the page that has one")
    options.add_argument("--check", action="store_true", help="exit with 1 when a floor is missed or was not measured")
    given = options.parse_args()
    if unknown := [name for name in given.names if name not in BENCHMARKS]:
        options.error(f"no benchmark {', '.join(unknown)}; there are {', '.join(BENCHMARKS)}")
    return given


if __name__ == "__main__":
    sys.exit(main())

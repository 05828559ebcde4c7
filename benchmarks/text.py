"""What it costs to open a cassette that is text: `python benchmarks/text.py`.

One session of 100 calls, as a database and as text, opened by processes of their own in turns. What counts is processor
time, imports included, and of each the best: a busy machine only adds to it.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from measure import as_installed
from reading_cassettes import make

BAR = 10.0  # milliseconds above a database
_MESSAGES = 202  # 100 calls, and the greeting
_OPEN = """
import sys, time
began = time.process_time()
from mcp_tape.cassette.reader import Cassette
with Cassette(sys.argv[1]) as cassette:
    assert cassette.counts(1)["frames"] >= 200
print((time.process_time() - began) * 1000)
"""


def main() -> int:
    options = argparse.ArgumentParser(description="What it costs to open a cassette that is text.")
    options.add_argument("--rounds", type=int, default=30, metavar="N", help="how often each is opened")
    options.add_argument("--check", action="store_true", help="exit with 1 when the bar is missed")
    given = options.parse_args()
    with as_installed(smoke=False), tempfile.TemporaryDirectory() as directory:
        database = make(Path(directory), _MESSAGES)
        text = database.with_suffix(".jsonl")
        subprocess.run([sys.executable, "-m", "mcp_tape", "convert", database, text], check=True, capture_output=True)
        took: dict[Path, list[float]] = {database: [], text: []}
        for _ in range(given.rounds):
            for path, times in took.items():
                times.append(_opened(path))
    of_database, of_text = (min(times) for times in took.values())
    above = of_text - of_database
    print(f"database {of_database:.1f} ms, text {of_text:.1f} ms: {above:.1f} ms above, {BAR:.0f} allowed")
    return int(given.check and above >= BAR)


def _opened(path: Path) -> float:
    done = subprocess.run([sys.executable, "-c", _OPEN, path], check=True, capture_output=True, text=True)
    return float(done.stdout)


if __name__ == "__main__":
    sys.exit(main())

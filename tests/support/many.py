"""Helpers for tests of many cassettes: a directory of them, including bad ones, and output without timings."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

from tests.support.decks import make_cassette
from tests.support.golden import CASSETTES, path_of

SECRET = '{"jsonrpc":"2.0","id":1,"method":"x","params":{"password":"not-a-real-one-4711"}}'
SAID = '{"jsonrpc":"2.0","id":1,"result":{"number":%d}}'


def many(place: Path, number: int = 20) -> list[Path]:
    """This many different cassettes in two directories; one is damaged, one has a secret, one is text."""
    (place / "deep").mkdir(parents=True)
    found = []
    for at in range(number):
        path = place / ("deep" if at % 3 == 0 else "") / f"{at:02}.db"
        asked = SECRET if at == 4 else '{"jsonrpc":"2.0","id":1,"method":"ping"}'
        make_cassette(path, [("client", asked), ("server", SAID % at)])
        found.append(path)
    shutil.copyfile(CASSETTES / "text" / "time.jsonl", place / "text.jsonl")
    damaged(found[7])
    return sorted([*found, place / "text.jsonl"])


def damaged(path: Path) -> Path:
    """A truncated cassette."""
    path.write_bytes(path_of("time").read_bytes()[:3000])
    return path


def rows(text: str | bytes) -> list[Any]:
    return [json.loads(line) for line in text.splitlines()]


def findings(text: str | bytes) -> list[Any]:
    """The findings of all rows, each with its file."""
    return [{"file": row["cassette"]} | found for row in rows(text) for found in row["findings"]]


def comparison(text: str | bytes) -> Any:
    """The comparison of the only row."""
    (row,) = rows(text)
    (found,) = row["comparisons"]
    return found


def timeless(text: str | bytes) -> str:
    """The output that is the same in every run."""
    plain = text.decode() if isinstance(text, bytes) else text
    return re.sub(r'(?<="seconds":)[-+.e0-9]+|(?<= time=")[-+.e0-9]+(?=")', "T", plain)

"""What the tests of many cassettes share: a directory of them, some of them bad, and what is the same in every run."""

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
    """So many cassettes that differ, in two directories; one of them damaged, one with a secret, one text."""
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
    """A cassette of which most is gone."""
    path.write_bytes(path_of("time").read_bytes()[:3000])
    return path


def rows(text: str | bytes) -> list[Any]:
    return [json.loads(line) for line in text.splitlines()]


def timeless(text: str | bytes) -> str:
    """What is the same in every run."""
    plain = text.decode() if isinstance(text, bytes) else text
    return re.sub(r'(?<="seconds":)[-+.e0-9]+|(?<= time=")[-+.e0-9]+(?=")', "T", plain)

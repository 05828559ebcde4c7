"""Secrets and innocents by kind, generated from a seed: hundreds of both, and none on disk that could be taken for
real.

In corpus/kinds.txt `<an36>` means 36 random letters and digits; see ALPHABETS. `§` marks the place of a secret.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_LOWER, _UPPER, _DIGITS = "abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "0123456789"
ALPHABETS = {
    "an": _LOWER + _UPPER + _DIGITS,
    "lo": _LOWER + _DIGITS,
    "aws": _UPPER + "234567",
    "up": _UPPER + _DIGITS,
    "az": _LOWER,
    "d": _DIGITS,
    "x": _DIGITS + "abcdef",
    "u": _LOWER + _UPPER + _DIGITS + "-_",
    "b": _LOWER + _UPPER + _DIGITS + "+/",
    "w": _LOWER + _UPPER + _DIGITS + "!*+",
    "dot": _LOWER + _UPPER + _DIGITS + "._",
}
_RUN = re.compile(r"<(an|lo|aws|up|az|d|x|u|b|w|dot)(\d+)>")


def _sections() -> dict[str, list[str]]:
    text = (Path(__file__).parents[1] / "corpus" / "kinds.txt").read_text("utf-8")
    found = re.findall(r"^# (.+)\n((?:(?!# ).+\n)+)", text, re.M)
    return {name: [line.replace("\\n", "\n") for line in lines.splitlines()] for name, lines in found}


KINDS = _sections()
TOKEN_PLACES = ("Use § from now on.", "2026-01-01 12:00:00 INFO got (§)", '{"note": "§"}')
NAME_PLACES = ('{"%s": "§"}', "%s=§", "  %s: §", '[{"name": "%s", "value": "§"}]')
VALUES = ("<an24>", "<x32>", "<w12>9", "<u40>")
INNOCENT_VALUES = ("blue", "release-2026", "item-42", "a/b/c.txt", "us-east-1")


class Case(NamedTuple):
    about: str
    text: str  # a message, or a line of stderr; for a command line one word per line
    secret: str = ""
    is_command: bool = False


def secrets(rng: random.Random) -> list[Case]:
    """Secrets of the kinds that are documented to be found, each in a place where it is found."""
    return [*_tokens(rng), *_named(rng), *_texts(rng), *_commands(rng)]


def innocents(rng: random.Random) -> list[Case]:
    """Texts that look like secrets, or are in their places, and are none."""
    values = [(key, value) for key in KINDS["innocent keys"] for value in rng.sample(INNOCENT_VALUES, 3)]
    keys = [Case(f"{key}: {value}", _structured({key: value})) for key, value in values]
    made = [_made(text, rng) for text in KINDS["innocent texts"]]
    texts = [case for text in made for case in (Case(text, _told(text)), Case(f"{text} on stderr", text))]
    commands = [Case(words, "\n".join(_split(words)), is_command=True) for words in KINDS["innocent commands"]]
    return [*keys, *texts, *commands]


def _tokens(rng: random.Random) -> Iterator[Case]:
    for pattern in KINDS["tokens"]:
        for place in TOKEN_PLACES:
            made = _made(pattern, rng)
            secret = made.rpartition("services/")[2].rpartition("workflows/")[2]
            yield Case(f"{pattern} in {place}", _placed(place.replace("§", made)), secret)


def _named(rng: random.Random) -> Iterator[Case]:
    for name in KINDS["names"]:
        for place in NAME_PLACES:
            secret = _made(rng.choice(VALUES), rng)
            yield Case(f"{name} in {place}", _placed(place.replace("%s", name).replace("§", secret)), secret)


def _texts(rng: random.Random) -> Iterator[Case]:
    for pattern in KINDS["texts"]:
        text, secret = "", ""
        for piece in re.split(r"(<\w+?\d+>)", pattern):
            made = _made(piece, rng)
            text += made
            secret = secret or (made if made != piece else "")
        yield Case(pattern, _told(text), secret)
        yield Case(f"{pattern} on stderr", text, secret)


def _commands(rng: random.Random) -> Iterator[Case]:
    for pattern in KINDS["commands"]:
        secret = _made("<an18>A9z", rng)
        yield Case(pattern, "\n".join(_split(pattern.replace("§", secret))), secret, is_command=True)


def _split(words: str) -> list[str]:
    return [word.strip('"') for word in re.findall(r'"[^"]*"|\S+', words)]


def _placed(text: str) -> str:
    """JSON as structured content, the rest as text."""
    return _structured(json.loads(text)) if text[0] in "{[" else _told(text)


def _structured(value: object) -> str:
    return json.dumps({"jsonrpc": "2.0", "id": 2, "result": {"content": [], "structuredContent": {"data": value}}})


def _told(text: str) -> str:
    return json.dumps({"jsonrpc": "2.0", "id": 2, "result": {"content": [{"type": "text", "text": text}]}})


def _made(pattern: str, rng: random.Random) -> str:
    return _RUN.sub(lambda found: "".join(rng.choices(ALPHABETS[found[1]], k=int(found[2]))), pattern)

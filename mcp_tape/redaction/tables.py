"""Secrets in tables of text, as databases and Markdown have them: `| password | V |`, or a column of that name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import NamedTuple

from ..wire import secret_names

_CELL = re.compile(r"[^|]+")
_RULE = re.compile(r"[\s|:+-]+")  # between a head and its rows, with dashes
_SPACE = re.compile(r"\s")
_AROUND = " \t\r\n`*\"'"


class Cell(NamedTuple):
    start: int
    text: str


def secret_cells(text: str, is_secret: Callable[[str], bool]) -> Iterator[tuple[int, int, str]]:
    """Where values of secret names stand, and the names: under the name of a column, or behind the cell with a name."""
    head: list[Cell] = []
    before: list[Cell] = []
    at = 0
    for line in text.splitlines(keepends=True):
        cells = list(_cells(line, at)) if "|" in line else []
        if "--" in line and _RULE.fullmatch(line):
            head, cells = (before or head), []
        elif not cells:
            head = []
        is_row = line.strip()[:1] == line.strip()[-1:] == "|"  # and no types, as in `str | None`
        for name, value in zip(head, cells, strict=False) if head else pairwise(cells) if is_row else ():
            if is_secret(name.text) and secret_names.looks_assigned(value.text) and not _SPACE.search(value.text):
                yield value.start, value.start + len(value.text), name.text
        before, at = cells, at + len(line)


def _cells(line: str, at: int) -> Iterator[Cell]:
    for found in _CELL.finditer(line):
        text = found.group()
        bare = text.strip(_AROUND)
        if bare:
            yield Cell(at + found.start() + text.index(bare), bare)

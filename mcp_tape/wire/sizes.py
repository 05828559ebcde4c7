"""Sizes in bytes as people write them: `800k`, `64M`, `1.5G`. A thousand is 1000, as in `size:1k..2M` of filters."""

from __future__ import annotations

import re

MAX_DECODED = 64 * 10**6  # bytes that a compressed body may have when it is not: a bomb of 64 kB has as many
UNITS = {"": 1, "b": 1, "k": 10**3, "kb": 10**3, "m": 10**6, "mb": 10**6, "g": 10**9, "gb": 10**9}
_SIZE = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,9})?) ?([A-Za-z]*)")


def parse_size(text: str) -> int:
    """Number of bytes; ValueError if the text is no size, or none that has a byte."""
    found = _SIZE.fullmatch(text)
    unit = UNITS.get(found[2].lower()) if found else None
    size = round(float(found[1]) * unit) if found and unit else 0
    if size < 1:
        raise ValueError(f"{text!r} is no size; write e.g. 800k, 64M or 1G")
    return size


def size_text(size: int) -> str:
    """A size with one digit behind the point, for people."""
    for unit, one in (("G", 10**9), ("M", 10**6), ("k", 10**3)):
        if size >= one:
            return f"{size / one:.1f}{unit}"
    return str(size)

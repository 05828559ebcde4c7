"""Columns of numbers as bytes: the lowest byte of every number, then the next byte of every number, and so on.

Similar bytes are adjacent, so they compress well. `packed.mjs` reads them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

Column = Sequence[int | None]


def packed(facts: Mapping[str, Any], columns: Mapping[str, Column]) -> bytes:
    """Pack facts and columns: a line of JSON with the facts and each column's width, then the columns."""
    coded = {name: [_coded(value) for value in values] for name, values in columns.items()}
    widths = {name: (max(values, default=0).bit_length() + 7) // 8 for name, values in coded.items()}
    planes = (bytes(value >> 8 * at & 255 for value in coded[name]) for name in coded for at in range(widths[name]))
    rows = len(next(iter(coded.values()), ()))
    return orjson.dumps({**facts, "rows": rows, "widths": widths}) + b"\n" + b"".join(planes)


def unpacked(data: bytes) -> tuple[dict[str, Any], dict[str, list[int | None]]]:
    """Return the facts and columns."""
    line, _, rest = data.partition(b"\n")
    facts = orjson.loads(line)
    rows, at, columns = facts.pop("rows"), 0, {}
    for name, width in facts.pop("widths").items():
        planes = [rest[at + rows * plane : at + rows * (plane + 1)] for plane in range(width)]
        at += rows * width
        numbers = zip(*planes, strict=True) if planes else [()] * rows
        columns[name] = [_value(int.from_bytes(bytes(number), "little")) for number in numbers]
    return facts, columns


def _coded(value: int | None) -> int:
    """Encode None as 0, then the numbers by their distance from 0: 0, -1, 1, -2."""
    if value is None:
        return 0
    return 2 * value + 1 if value >= 0 else -2 * value


def _value(coded: int) -> int | None:
    if coded == 0:
        return None
    return coded // 2 if coded % 2 else -(coded // 2)

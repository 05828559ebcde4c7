"""The words of a command line, read by the table of options as click reads them; nothing where click is to be asked."""

from __future__ import annotations

import os

from ..errors import TapeError
from ..options import OptionValues

TYPE_CHECKING = False  # as in the package's __init__
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from ..options import Option

    Read = tuple[OptionValues, list[str]]


def read(rows: Sequence[Option], words: Sequence[str], *, interspersed: bool) -> Read | None:
    """Return the values of options, and the other words; None for what is not plain, or not right.

    Not `interspersed`: what follows the first word that is no option is no option either.
    """
    split = _split(rows, words, interspersed)
    if split is None:
        return None
    texts, others = split
    try:
        return OptionValues(**{row.name: _value(row, texts[row.name]) for row in rows if row.name in texts}), others
    except (ValueError, TapeError):
        return None  # click says why, of several reasons the one that is given first


def _split(
    rows: Iterable[Option], words: Sequence[str], interspersed: bool
) -> tuple[dict[str, list[str]], list[str]] | None:
    """The texts that options are given, by name, and the other words."""
    by_flag = {flag: row for row in rows for flag in (row.flag, row.short)}
    texts: dict[str, list[str]] = {}
    others: list[str] = []
    rest = iter(words)
    for word in rest:
        if word == "--":
            break
        if not word.startswith("-") or word == "-":
            others.append(word)
            if interspersed:
                continue
            break
        flag, equals, text = word.partition("=") if word.startswith("--") else (word, "", "")
        row = by_flag.get(flag)
        if row is None or (equals and row.kind == "flag"):
            return None
        if not equals and row.kind != "flag":
            following = next(rest, None)
            if following is None:
                return None
            text = following
        texts.setdefault(row.name, []).append(text)
    return texts, [*others, *rest]


def _value(row: Option, texts: list[str]) -> Any:
    if row.kind == "flag":
        return True
    if row.multiple:
        return row.taken(tuple(_converted(row.kind, text) for text in texts))
    return row.taken(_converted(row.kind, texts[-1]))  # the last one counts


def _converted(kind: str | tuple[str, ...], text: str) -> Any:
    """A text as its kind has it; ValueError where click may refuse it."""
    if kind == "integer":
        return int(text)
    if kind in ("number", "seconds"):
        value = float(text)
        if not (value > 0 or (value == 0 and kind == "number")):
            raise ValueError(text)
        return value
    if kind == "file" and not (os.path.isfile(text) and os.access(text, os.R_OK)):
        raise ValueError(text)
    if isinstance(kind, tuple) and text not in kind:
        raise ValueError(text)
    return text

"""Rows in the page's format: nothing is lost, and numbers and words survive."""

from __future__ import annotations

import json
import zlib
from functools import partial
from itertools import accumulate
from pathlib import Path

import pytest

from mcp_tape.cassette.query.rows import session_rows, whole_text
from mcp_tape.cassette.reader import Cassette
from mcp_tape.viewer.columns import unpacked
from mcp_tape.viewer.pack import BYTES, Packer
from tests.support.reading import GOLDEN, Frames, call, make


@pytest.mark.parametrize("golden", GOLDEN, ids=lambda path: path.stem)
def test_a_recording_comes_back(golden: Path) -> None:
    packer = Packer(whole=False)
    with Cassette(golden) as cassette:
        rows = list(session_rows(cassette, 1))
        blocks = [*packer.pack(cassette, rows), *packer.rest()]
        texts = [whole_text(cassette, row) for row in rows]
    index, columns = unpacked(packer.index())
    words = index["words"]
    assert list(accumulate(columns["seq"])) == [row.seq for row in rows]
    assert list(accumulate(columns["at"])) == [row.at for row in rows]
    for name in ("method", "status"):
        assert [None if n is None else words[n] for n in columns[name]] == [getattr(row, name) for row in rows]
    assert columns["took"] == [row.microseconds for row in rows]
    assert sum(index["blocks"]) == len(rows)
    packed = texts_of(blocks, columns)
    for row, text in enumerate(texts):
        assert packed[row] == text or (columns["flags"][row] or 0) & BYTES


def texts_of(blocks: list[bytes], columns: dict[str, list[int | None]]) -> dict[int, str]:
    """The texts by row, split by their lengths in UTF-16, as JavaScript does; equal texts are stored together."""
    texts, first = {}, 0
    for block in blocks:
        heads, _, data = zlib.decompress(block).partition(b"\n")
        units, at, found = data.decode().encode("utf-16-le"), 0, json.loads(heads)
        rows = range(first, first + len(found["lines"]))
        first = rows.stop
        for place, row in enumerate(sorted(rows, key=partial(alike, columns))):
            end = at + 2 * found["sizes"].get(str(place), columns["size"][row])
            texts[row] = units[at:end].decode("utf-16-le")
            at = end
        assert at == len(units)
    return texts


def alike(columns: dict[str, list[int | None]], row: int) -> list[int]:
    found = (columns[name][row] for name in ("client", "kind", "method", "name"))
    return [-1 if value is None else value for value in found]


def test_ids_are_what_was_sent(tmp_path: Path) -> None:
    ids = [7, 8, "x", 3, "5", 1.5, 2**60, -4, 9]
    talk = Frames()
    for one in ids:
        talk.client(call(one, "a"))
    packer = Packer()
    with Cassette(make(tmp_path / "tape.db", talk)) as cassette:
        list(packer.pack(cassette, session_rows(cassette, 1)))
    index, columns = unpacked(packer.index())
    assert columns["id"] == [7, 1, None, -5, None, None, None, None, 6]
    assert index["ids"] == {"2": '"x"', "4": '"5"', "5": "1.5", "6": str(2**60), "7": "-4"}


def test_what_comes_later_continues(tmp_path: Path) -> None:
    packer = Packer()
    with Cassette(make(tmp_path / "tape.db", Frames().client(call(1, "a")).client(call(2, "b")))) as cassette:
        first, second = session_rows(cassette, 1)
        assert [*packer.pack(cassette, [first])] == [] and len([*packer.rest()]) == 1
        before, columns = unpacked(packer.index())
        assert [*packer.pack(cassette, [second])] == [] and len([*packer.rest()]) == 1
        after, later = unpacked(packer.index())
    assert (columns["seq"], later["seq"]) == ([1], [1])
    assert after["words"] == ["b"] and later["name"] == [len(before["words"])]
    assert [*packer.rest()] == [] and unpacked(packer.index())[0]["blocks"] == []

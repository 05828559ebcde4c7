"""Rows as the page reads them: nothing is lost, and numbers and words come back."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from itertools import accumulate, islice
from pathlib import Path

import pytest

from mcp_tape.cassette.query.rows import session_rows, whole_text
from mcp_tape.cassette.reader import Cassette
from mcp_tape.viewer.pack import BYTES, Packer
from tests.support.reading import GOLDEN, Frames, call, make


@pytest.mark.parametrize("golden", GOLDEN, ids=lambda path: path.stem)
def test_a_recording_comes_back(golden: Path) -> None:
    packer = Packer(whole=False)
    with Cassette(golden) as cassette:
        rows = list(session_rows(cassette, 1))
        blocks = [*packer.pack(cassette, rows), *packer.rest()]
        texts = [whole_text(cassette, row) for row in rows]
    index = packer.index()
    columns, words = index["rows"], index["words"]
    assert list(accumulate(columns["seq"])) == [row.seq for row in rows]
    assert list(accumulate(columns["at"])) == [row.at for row in rows]
    assert [None if n is None else words[n] for n in columns["method"]] == [row.method for row in rows]
    assert [None if n is None else words[n] for n in columns["status"]] == [row.status for row in rows]
    assert columns["took"] == [row.microseconds for row in rows]
    assert sum(index["blocks"]) == len(rows)
    for text, packed, flags in zip(texts, unpacked(blocks, columns["size"]), columns["flags"], strict=True):
        assert packed == text or flags & BYTES


def unpacked(blocks: list[bytes], sizes: list[int]) -> Iterator[str]:
    """The texts, cut by their lengths in UTF-16, as JavaScript does."""
    known = iter(sizes)
    for block in blocks:
        heads, _, data = zlib.decompress(block).partition(b"\n")
        units, at, found = data.decode().encode("utf-16-le"), 0, json.loads(heads)
        for number, size in enumerate(islice(known, len(found["lines"]))):
            end = at + 2 * found["sizes"].get(str(number), size)
            yield units[at:end].decode("utf-16-le")
            at = end
        assert at == len(units)


def test_ids_are_what_was_sent(tmp_path: Path) -> None:
    ids = [7, 8, "x", 3, "5", 1.5, 2**60, -4, 9]
    talk = Frames()
    for one in ids:
        talk.client(call(one, "a"))
    packer = Packer()
    with Cassette(make(tmp_path / "tape.db", talk)) as cassette:
        list(packer.pack(cassette, session_rows(cassette, 1)))
    assert packer.index()["rows"]["id"] == [7, 1, '"x"', -5, '"5"', "1.5", str(2**60), "-4", 6]


def test_what_comes_later_continues(tmp_path: Path) -> None:
    packer = Packer()
    with Cassette(make(tmp_path / "tape.db", Frames().client(call(1, "a")).client(call(2, "b")))) as cassette:
        first, second = session_rows(cassette, 1)
        assert [*packer.pack(cassette, [first])] == [] and len([*packer.rest()]) == 1
        before = packer.index()
        assert [*packer.pack(cassette, [second])] == [] and len([*packer.rest()]) == 1
        after = packer.index()
    assert (before["rows"]["seq"], after["rows"]["seq"]) == ([1], [1])
    assert after["words"] == ["b"] and after["rows"]["name"] == [len(before["words"])]
    assert [*packer.rest()] == [] and packer.index()["blocks"] == []

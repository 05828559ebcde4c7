"""Stretches of a session around what was looked up, read at once: its plain requests, by their texts and their keys.

Not loaded before the first answer is out.
"""

from __future__ import annotations

import gc
from itertools import pairwise

from ...wire import rewrite
from .. import schema
from .messages import Messages, Plain, Position, Recorded

TYPE_CHECKING = False  # as in the package's __init__
if TYPE_CHECKING:
    from collections.abc import Sequence

_BLOCK = 512  # frames read at once, if not several blocks are
_MANY, _SMALL = 8, 1 << 20  # blocks read at once, at the most, where so many bytes were read before
_KEPT = 24 << 20  # bytes of what was read, more or less
_BESIDES = 600  # bytes that a request takes besides its texts
LATELY = 9  # requests that show how regularly they are asked for
_WIDEST = 16  # frames between two of them
_FREE, _EARNED = 48 << 20, 4 << 10  # bytes read at all, and more for each request that was played


class Reader:
    """Reads into three tables, which it may clear; see `replay.finder.Blocks`."""

    def __init__(
        self,
        messages: Messages,
        session: int,
        keys: dict[bytes, bytes],
        texts: dict[bytes, tuple[bytes, bytes]],
        turns: dict[bytes | Position, Plain],
    ) -> None:
        self._messages, self._session = messages, session
        self._keys, self._texts, self._turns = keys, texts, turns
        self._here: dict[int, tuple[int, int]] = {}  # by the number of a block, one of its requests and how far apart
        self._last, self._many = range(0), 1  # blocks that were read last, and how many may be next
        self._regular = True  # nobody has asked for what was left out
        self._read, self._kept = 0, 0  # bytes, in all and since all was dropped
        self._changed: int | None = None  # from where on something that changed may be asked for again

    def read_around(self, found: Recorded, played: int, lately: Sequence[int]) -> None:
        """Read around a request that was looked up, unless reading has not been worth it, for all that was played.

        `lately`: the numbers of those that were played last, the newest first, as many as are needed.
        """
        block = found.seq // _BLOCK
        here = self._here.get(block)
        is_read = here is not None and (found.seq - here[0]) % here[1] == 0  # and it is not plain
        if found.session != self._session or is_read or self._read > _FREE + _EARNED * played:
            return
        self._regular = self._regular and here is None
        step = _step(found.seq, lately) if self._regular else 1
        collects = gc.isenabled()
        gc.disable()  # thousands of tuples are made, and no cycle
        try:
            self._read_blocks(self._around(block), found.seq, step)
        finally:
            if collects:
                gc.enable()

    def _around(self, block: int) -> range:
        """Return which blocks to read; more at once, and more each time, for those who go on where they were."""
        after, many = block == self._last.stop, self._many
        if not after and block != self._last.start - 1:
            return range(block, block + 1)
        new = range(block, block + many) if after else range(max(0, block - many + 1), block + 1)
        return range(block, block + 1) if any(other in self._here for other in new) else new

    def _read_blocks(self, blocks: range, one: int, step: int) -> None:
        if self._kept > _KEPT:
            self._kept = 0
            for kept in (self._here, self._keys, self._texts, self._turns):
                kept.clear()
        self._here.update(dict.fromkeys(blocks, (one, step)))
        if self._changed is None:
            self._changed = self._messages.first_change(self._session) or schema.MOST
        start, frames = blocks.start * _BLOCK, len(blocks) * _BLOCK
        session, keys, turns, size = self._session, self._keys, self._turns, 0
        rows = self._messages.block(session, start, frames, self._changed, one, step)
        for seq, key, rpc_id, text, answer, head, before in rows:
            turns[key if before is None else (session, before, 0)] = (session, seq, 0), key, rpc_id, answer, head
            named = rewrite.without_names(text)
            if named is not None and named[1] == rpc_id and rewrite.may_have_other_id(named[0]):
                keys[named[0]] = key
            else:
                self._texts[text] = key, rpc_id
            size += len(text) + len(answer)
        size += len(rows) * _BESIDES
        self._read += size
        self._kept += size
        self._last, self._many = blocks, min(2 * len(blocks), _MANY) if size <= _SMALL else 1


def _step(found: int, lately: Sequence[int]) -> int:
    """How many frames lie between any two that were asked for lately, one after the other; 1 if that differs."""
    seqs = list(dict.fromkeys((found, *lately)))  # it may have been played meanwhile
    steps = {abs(one - other) for one, other in pairwise(seqs)}
    return min(steps) if len(seqs) >= LATELY and len(steps) == 1 and min(steps) <= _WIDEST else 1

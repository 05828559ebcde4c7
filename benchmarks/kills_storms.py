"""What a client of kills.py sends without end, and without waiting for an answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from programs import CHATTER, NOISE

_IN_A_BATCH, _PARTS, _KEYS = 200, 150, 20
_CALM = 5_000  # calls before others come


@dataclass(frozen=True, slots=True)
class Storm:
    """Calls that are each answered with so many lines."""

    call: Callable[[int], bytes]
    lines: int = 1
    is_heavy: bool = False  # a line of it is worth many of the others


def plain(number: int) -> bytes:
    """A call without a secret."""
    return _call(number, b'"text":"hello %d"' % number)


def secret(number: int) -> bytes:
    """A call with a key that is new each time, whose answer has a token in running text."""
    token = b"ghp_" + b"%036d" % number
    return _call(number, b'"text":"use %b for it","api_key":"kJ8mN2pQ4x%d"' % (token, number))


def secrets(number: int) -> bytes:
    """A call with many keys that are new each time."""
    keys = b",".join([b'{"name":"key %d","api_key":"kJ8mN2pQ4x%dz%d"}' % (n, number, n) for n in range(_KEYS)])
    return _call(number, b'"text":"hello","keys":[%b]' % keys, b"mirror")


def noise(number: int) -> bytes:
    """A call before whose answer the server prints short lines that are no messages."""
    return _call(number, b'"text":"hello %d"' % number, b"noise")


def chatter(number: int) -> bytes:
    """A call before whose answer the server has more to say: both sides flood."""
    return _call(number, b'"text":"hello %d"' % number, b"chatter")


def large(number: int) -> bytes:
    """A call with a text of 20 kB, which is said again."""
    return _call(number, b'"text":"%b %d"' % (b"lorem ipsum dolor " * 1_100, number))


def structured(number: int) -> bytes:
    """A call with many small objects, which come back: in each byte much to parse, and to look through for secrets."""
    item = b'{"id":"item-%d-%d","ok":true,"tags":["a","b"],"count":%d}'
    return _call(number, b'"items":[%b]' % b",".join([item % (number, n, n) for n in range(_PARTS)]), b"mirror")


def batch(number: int) -> bytes:
    """Many requests in one line."""
    first = number * _IN_A_BATCH
    pings = [b'{"jsonrpc":"2.0","id":%d,"method":"ping"}' % (first + n) for n in range(_IN_A_BATCH)]
    return b"[%b]" % b",".join(pings)


def changing(number: int) -> bytes:
    """Plain calls for a while, then such as take longer to store: what was learned of the pace is wrong then."""
    return plain(number) if number < _CALM else structured(number)


def _call(number: int, arguments: bytes, tool: bytes = b"echo") -> bytes:
    head = b'{"jsonrpc":"2.0","id":%d,"method":"tools/call",' % number
    return head + b'"params":{"name":"%b","arguments":{%b}}}' % (tool, arguments)


STORMS = {
    "plain": Storm(plain),
    "secrets": Storm(secret),
    "20 secrets each": Storm(secrets, is_heavy=True),
    "both sides": Storm(chatter, CHATTER),
    "noise": Storm(noise, NOISE),
    "20 kB each": Storm(large, is_heavy=True),
    "structured": Storm(structured, is_heavy=True),
    "batches": Storm(batch, is_heavy=True),
    "plain, then structured": Storm(changing),
}

"""The recorder's end of a handover: asks a test for the secrets of its environment."""

from __future__ import annotations

import json
from _socket import AF_UNIX, SOCK_STREAM, socket  # what `socket` would load takes longer than all the rest

from ..errors import TapeError
from ..redaction.environment import Pairs

_PATIENCE = 30.0  # seconds for a test that is busy
_CHUNK = 1 << 16


def received(path: str) -> Pairs:
    """Names and values that are to be hidden. It fails closed: without them nothing is recorded."""
    test, told = socket(AF_UNIX, SOCK_STREAM), b""
    try:
        test.settimeout(_PATIENCE)
        test.connect(path)
        while data := test.recv(_CHUNK):
            told += data
    except OSError as error:
        raise TapeError(_refusal(error.strerror or str(error))) from None
    finally:
        test.close()
    if not told.endswith(b"\n"):
        raise TapeError(_refusal("it has ended"))
    return tuple((name, value) for name, value in json.loads(told))


def _refusal(why: str) -> str:
    return (
        f"nothing is recorded: the test cannot be asked which secrets to hide ({why})\n"
        "start this within the test, or before the with block of use_cassette ends"
    )

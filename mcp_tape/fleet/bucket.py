"""Many cassettes to or from a bucket: several at a time, each with its own outcome.

A cassette's name in a bucket is made from its content: `date=2026-11-18/server=github/<sha256 of its bytes>.db`. So it
has the same name from every machine, and is created only if absent: repeating a run resumes it, and any number of runs
can go on at once. A downloaded cassette is checked against its name.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import NamedTuple, TypeVar

from ..errors import CassetteError, ServerError, TapeError
from . import stores

AT_ONCE = 16  # parallel requests
_PAUSES = (0.5, 1.0, None)  # seconds between our tries, beyond the store's own retries
_HOPELESS = 8  # failures in a row after which the rest is not tried
T = TypeVar("T")


class TransferOutcome(NamedTuple):
    """The outcome for one cassette. `status`: pushed, pulled, there (already), refused or failed."""

    file: str
    url: str | None
    status: str = "failed"
    bytes: int | None = None
    why: str | None = None
    code: int = 0  # exit code


class RefusedError(TapeError):
    """A cassette that must not be pushed."""


def run(
    things: Iterable[T],
    do: Callable[[T], Awaitable[TransferOutcome]],
    blank: Callable[[T], TransferOutcome],
    report: Callable[[TransferOutcome], None],
) -> int:
    """Run an action for each item and report its outcome; return the exit code.

    `blank` makes the outcome of an item before anything is done.
    """
    failed = code = 0
    waiting = iter(things)

    async def work() -> None:
        nonlocal failed, code
        for thing in waiting:
            outcome = blank(thing)._replace(why="not tried: the store has failed for several before it", code=4)
            if failed < _HOPELESS:
                outcome = await _outcome(thing, do, blank(thing))
                failed = failed + 1 if outcome.code == ServerError.exit_code else 0
            code = max(code, outcome.code)
            report(outcome)

    async def work_together() -> None:
        await asyncio.gather(*(work() for _ in range(AT_ONCE)))

    asyncio.run(work_together())
    return code


async def _outcome(thing: T, do: Callable[[T], Awaitable[TransferOutcome]], blank: TransferOutcome) -> TransferOutcome:
    try:
        return await do(thing)
    except RefusedError as error:
        return blank._replace(status="refused", why=str(error), code=error.exit_code)
    except stores.StoreError as error:
        return blank._replace(why=str(error), code=ServerError.exit_code)
    except CassetteError as error:
        return blank._replace(why=str(error), code=error.exit_code)


async def try_request(name: str, act: Callable[[], Awaitable[T]]) -> T:
    """Make a request to a store; retry for a while if it cannot be reached. Errors are in our words."""
    for pause in _PAUSES:
        try:
            return await stores.await_bounded(name, act())
        except Exception as error:
            found = error if isinstance(error, TapeError) else stores.translate_error(error, name)
            if pause is None or not isinstance(found, stores.UnreachableError):
                raise found from None
        await asyncio.sleep(pause)
    raise AssertionError  # the last try returns or raises

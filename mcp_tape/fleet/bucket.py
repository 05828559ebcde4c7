"""Many cassettes to a bucket, or from it: some at a time, each with an outcome of its own.

A cassette's name in a bucket is made of what it is: `date=2026-11-18/server=github/<sha256 of its bytes>.db`. So all
who put it there put the same under the same name, and it is created only where it is absent: to repeat a run is to
resume it, and any number of them may go on at once. What comes back is compared with its name.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import NamedTuple, TypeVar

from ..errors import CassetteError, ServerError, TapeError
from . import remote

AT_ONCE = 16  # requests
_PAUSES = (0.5, 1.0, None)  # seconds between tries of what the store's own tries have not brought about
_HOPELESS = 8  # cassettes in a row for which the store has failed: the rest is not tried
T = TypeVar("T")


class Outcome(NamedTuple):
    """What became of one cassette. `status`: pushed, pulled, there (already), refused or failed."""

    file: str
    url: str | None
    status: str = "failed"
    bytes: int | None = None
    why: str | None = None
    code: int = 0  # to exit with


class RefusedError(TapeError):
    """A cassette that is not to be pushed."""


def run(
    things: Iterable[T],
    do: Callable[[T], Awaitable[Outcome]],
    blank: Callable[[T], Outcome],
    report: Callable[[Outcome], None],
) -> int:
    """Do something for each of many, and report what came of it; return the exit code.

    `blank` is the outcome of one for which nothing has been done.
    """
    failed = code = 0
    waiting = iter(things)

    async def work() -> None:
        nonlocal failed, code
        for thing in waiting:
            outcome = blank(thing)._replace(why="not tried, as the store has failed for those before", code=4)
            if failed < _HOPELESS:
                outcome = await _outcome(thing, do, blank(thing))
                failed = failed + 1 if outcome.code == ServerError.exit_code else 0
            code = max(code, outcome.code)
            report(outcome)

    async def work_together() -> None:
        await asyncio.gather(*(work() for _ in range(AT_ONCE)))

    asyncio.run(work_together())
    return code


async def _outcome(thing: T, do: Callable[[T], Awaitable[Outcome]], blank: Outcome) -> Outcome:
    try:
        return await do(thing)
    except RefusedError as error:
        return blank._replace(status="refused", why=str(error), code=error.exit_code)
    except remote.StoreError as error:
        return blank._replace(why=str(error), code=ServerError.exit_code)
    except CassetteError as error:
        return blank._replace(why=str(error), code=error.exit_code)


async def tried(name: str, act: Callable[[], Awaitable[T]]) -> T:
    """Ask a store for something; again, for a while, if it cannot be reached. Errors are in our words."""
    for pause in _PAUSES:
        try:
            return await act()
        except Exception as error:
            found = error if isinstance(error, TapeError) else remote.worded(error, name)
            if pause is None or not isinstance(found, remote.UnreachableError):
                raise found from None
        await asyncio.sleep(pause)
    raise AssertionError  # the last try returns or raises

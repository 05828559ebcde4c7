"""Sessions taken off a cassette, so that nothing of them is left in the file."""

from __future__ import annotations

from collections.abc import Iterable

from .cassette import Cassette
from .errors import TapeError, pasted
from .remaking import only_ours, remade


class ExtendedError(TapeError):
    """Other sessions add to one that is to go."""

    exit_code = 2


def remove(path: str, sessions: Iterable[int], *, with_extending: bool = False) -> list[int]:
    """Remove sessions, and those that extend them if that is allowed; the numbers of all that are gone."""
    with Cassette(path) as cassette:
        named = {cassette.session(number).id for number in sessions}
        extends = {session.id: session.extends for session in cassette.sessions()}
    gone = _with_extending(named, extends)
    if gone != named and not with_extending:
        more = gone - named
        raise ExtendedError(
            f"nothing was removed: session {_list(more)} extends what is to go, and plays only with it.\n"
            f"To remove all of them: mcp-tape rm {pasted(path)} {' '.join(f'--session {n}' for n in sorted(gone))}"
        )
    with remade(path, only_ours) as db:
        for number in sorted(gone):
            db.execute("DELETE FROM messages WHERE session = ?", (number,))
            db.execute("DELETE FROM frames WHERE session = ?", (number,))
            db.execute("DELETE FROM sessions WHERE id = ?", (number,))
    return sorted(gone)


def _with_extending(named: set[int], extends: dict[int, int | None]) -> set[int]:
    gone, before = set(named), 0
    while len(gone) != before:  # what extends one that extends another goes as well
        before = len(gone)
        gone |= {number for number, other in extends.items() if other in gone}
    return gone


def _list(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(numbers)))

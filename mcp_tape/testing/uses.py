"""What happened on a tape since somebody asked last, and how to say it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .summary import Call

if TYPE_CHECKING:
    from ..wire.frames import Exchange
    from .use import Miss, UsedCassette


class Use:
    """One test's use of a tape, or that of all tests that have one from the factory."""

    def __init__(self, tape: UsedCassette, unplayed: str, *, is_shared: bool, is_made: bool = False) -> None:
        """`is_made`: by the factory."""
        self.tape = tape
        self.unplayed = unplayed
        self.is_shared = is_shared
        self.is_made = is_made
        self._told = 0  # misses
        self._errors: set[str] = set()
        self._rewound = tape.rewound

    def new_misses(self) -> list[Miss]:
        """Those that were not told of before. A tape that was rewound has forgotten those."""
        if self.tape.is_recording and self.tape.mode != "new_episodes":
            return []  # all is live
        if self.tape.rewound != self._rewound:
            self._told, self._rewound = 0, self.tape.rewound
        misses = self.tape.misses
        new, self._told = misses[self._told :], len(misses)
        return new

    def new_errors(self) -> list[str]:
        new = [error for error in self.tape.errors if error not in self._errors]
        self._errors.update(new)
        return new

    def left(self) -> list[Call]:
        """What was recorded and not asked for, where somebody wants to know."""
        calls = self.tape.unplayed if self.unplayed != "ignore" else []
        return [(call.session or 0, call.seq or 0, shown(call)) for call in calls]


def shown(call: Exchange) -> str:
    return " ".join(" ".join(filter(None, (call.method, call.name))).split())


def count(things: Sequence[object], word: str) -> str:
    return f"{len(things)} {word}{'' if len(things) == 1 else 's'}"

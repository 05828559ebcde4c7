"""The tape of several servers: one cassette, with a tape for each server, and the calls and misses of all."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NoReturn

from ..errors import TapeError
from ..wire.frames import Exchange
from .entries import KEYS, ConfiguredServer
from .used import Function, Inexact, Miss, UsedCassette, UseSettings, When

if TYPE_CHECKING:
    from .recorders import RecordingTape


class TapeGroup(UsedCassette):
    """Tapes of several servers, used as one. Recording ones share a file, which is kept as a whole or not at all."""

    def __init__(
        self,
        settings: UseSettings,
        doors: Mapping[str, UsedCassette],
        entries: Mapping[str, ConfiguredServer],
        file: RecordingTape | None,
        *,
        is_owner: bool = True,
    ) -> None:
        """`file`: the recording of the servers, if any. Only its owner ends it."""
        super().__init__(settings)
        self._doors = dict(doors)
        self._entries = entries
        self._file = file
        self._is_owner = is_owner

    @property
    def servers(self) -> dict[str, UsedCassette]:
        return dict(self._doors)

    def config(self, key: str = "mcpServers") -> dict[str, Any]:
        if key not in KEYS:
            raise TapeError(f"there is no configuration with {key!r}; choose one of {', '.join(KEYS)}")
        return {key: {name: self._client_entry(key, name) for name in self._doors}}

    def _client_entry(self, key: str, name: str) -> dict[str, Any]:
        door, entry = self._doors[name], self._entries[name]
        if entry.url:
            return entry.client_entry(key, url=door.url, live=door.is_recording)
        return entry.client_entry(key, command=door._command_for(entry.command), live=door.is_recording)

    # -- connections

    def _make_streams(self) -> NoReturn:
        self._refuse("streams()")

    def _make_command(self) -> NoReturn:
        self._refuse("command")

    def _make_url(self) -> NoReturn:
        self._refuse("url")

    def _refuse(self, what: str) -> NoReturn:
        raise TapeError(f"{self.path} has several servers: say which, as in tape[{next(iter(self._doors))!r}].{what}")

    # -- what happened

    def _timed_calls(self) -> list[tuple[When, Exchange]]:
        return list(heapq.merge(*(door._timed_calls() for door in self._doors.values()), key=lambda timed: timed[0]))

    @property
    def misses(self) -> list[Miss]:
        for door in self._doors.values():
            door.words = self.words
        return [miss for door in self._doors.values() for miss in door.misses]

    @property
    def unplayed(self) -> list[Exchange]:
        return [call for door in self._doors.values() for call in door.unplayed]

    @property
    def unstruck(self) -> list[str]:
        of_each = [door.unstruck for door in self._doors.values()]
        return [fault for fault in of_each[0] if all(fault in others for others in of_each)] if of_each else []

    @property
    def play_count(self) -> int:
        return sum(door.play_count for door in self._doors.values())

    @property
    def inexact(self) -> list[Inexact]:
        return [found for door in self._doors.values() for found in door.inexact]

    @property
    def notes(self) -> list[str]:
        return [f"{name}: {note}" for name, door in self._doors.items() for note in door.notes]

    @property
    def errors(self) -> list[str]:
        return [error for door in self._doors.values() for error in door.errors]

    @property
    def grew(self) -> int:
        return sum(door.grew for door in self._doors.values())

    @property
    def stale(self) -> int:
        return sum(door.stale for door in self._doors.values())

    def rewind(self) -> None:
        super().rewind()
        for door in self._doors.values():
            door.rewind()

    def on(self, method: str, *, tool: str | None = None, name: str | None = None) -> Callable[[Function], Function]:
        self._refuse("on(...)")

    # -- its end

    def another(self) -> TapeGroup:
        doors = {name: door.another() for name, door in self._doors.items()}
        return TapeGroup(self._settings, doors, self._entries, self._file, is_owner=False)

    def _end(self, keep: bool) -> None:
        failed: list[TapeError] = []
        for door in self._doors.values():
            try:
                door.finish(keep=keep)
            except TapeError as error:
                failed.append(error)
        if self._file is not None and self._is_owner:
            self._file.put = self.put
            self._file.finish(keep=keep and not failed)
            self.is_of_nothing = self._file.is_of_nothing
        if failed:
            raise type(failed[0])("\n".join(dict.fromkeys(map(str, failed))))

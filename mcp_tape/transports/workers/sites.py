"""One address that several workers serve at: the sockets of all of them, and the site of each."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from ..http.listen import Others, Site, origin_of
from ..http.message import Headers
from .crew import Place
from .listeners import Address, listeners
from .passing import Boxes

if TYPE_CHECKING:
    from ..http.listen import Application

Elsewhere = Callable[[str, Headers], int | None]


class Sites:
    """The sockets of all workers, made before them."""

    def __init__(self, address: Address, workers: int) -> None:
        self._address = address
        self._listeners = listeners(address, workers)
        self._boxes = Boxes(workers)
        self.workers = workers
        self.origin = origin_of(self._listeners[0])

    def close(self) -> None:
        for one in self._listeners:
            one.close()
        self._boxes.close()

    def of(self, place: Place, report: Callable[[Exception], None], head_timeout: float, elsewhere: Elsewhere) -> Site:
        """The site of one worker. To be made by the worker itself: what belongs to others is closed."""
        own = self._listeners[place.number]
        for other in self._listeners:
            if other is not own:
                other.close()
        others = Others(elsewhere, self._boxes.of(place.number))
        return Site(self._address, report, head_timeout=head_timeout, listener=own, others=others)


def serve(site: Site, app: Application, place: Place) -> None:
    """Serve until the line to the process that started us ends."""

    def begin(origin: str) -> None:
        loop = asyncio.get_running_loop()

        def leave() -> None:
            loop.remove_reader(place.line)
            site.stop()

        loop.add_reader(place.line, leave)
        place.ready()

    asyncio.run(site.run(app, begin))

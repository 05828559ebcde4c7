"""Recorded sessions of real clients with real servers over HTTP, shared by several test files."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support import provision
from tests.support.sdk_http import Recording, both, live_environment, printed, recorder, served


@pytest.fixture(scope="session")
def recorded_over_http(
    tmp_path_factory: pytest.TempPathFactory, sdk_client: Callable[[str, str], list[str]]
) -> Iterator[Callable[[str, str], Recording]]:
    """A client's session with a live server, by their names; recorded on first use, for all processes of this run."""
    own = tmp_path_factory.getbasetemp()
    shared = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own
    with contextlib.ExitStack() as running:

        @functools.cache
        def serving(name: str) -> str:
            return running.enter_context(served(name, tmp_path_factory.mktemp(name)))

        @functools.cache
        def recording(client: str, server: str) -> Recording:
            program = sdk_client(client, server)

            def record(place: Path) -> Path:
                upstream, environment = serving(server), live_environment(server)
                with recorder(place / "tape.db", upstream) as url:
                    runs = [lambda where=where: printed([*program, where], environment) for where in (upstream, url)]
                    direct, output = both(*runs)
                (place / "direct").write_bytes(direct)
                (place / "output").write_bytes(output)
                return place

            place = provision.once(shared / f"{client}-{server}", record)
            return Recording(place / "tape.db", (place / "output").read_bytes(), (place / "direct").read_bytes())

        yield recording

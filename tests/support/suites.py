"""Fast runs of users' suites: their plugins, and the processes that theirs are forked from."""

from __future__ import annotations

import atexit
import contextlib
import functools
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from _pytest.config import default_plugins

from tests.support import forked, warm

# All plugins of a suite and their imports at run time: a search for others takes longer than most tests.
PLUGINS = ("mcp_tape.pytest_plugin", "xdist.plugin")
NEEDED = (
    *(f"_pytest.{name}" for name in (*default_plugins, "_argcomplete")),
    *(*PLUGINS, "xdist.dsession", "xdist.looponfail", "xdist.newhooks", "xdist.remote", "xdist.scheduler"),
    *("execnet.gateway", "execnet.gateway_io", "email.parser", "faulthandler", "getpass", "pdb"),
    *("mcp_tape.testing.plugin", "mcp_tape.testing.failures", "mcp_tape.testing.idle_marks", "mcp_tape.testing.shared"),
    *(
        "mcp_tape.testing.playing",
        "mcp_tape.testing.recorders",
        "mcp_tape.testing.terminal_summary",
        "mcp_tape.testing.use",
    ),
    *("mcp_tape.testing.group", "mcp_tape.cassette.pages", "mcp_tape.cassette.query.exchanges"),
    *("mcp_tape.cassette.writer", "mcp_tape.modes", "mcp_tape.record.recorder", "mcp_tape.redaction.command_lines"),
    *("mcp_tape.redaction.environment", "mcp_tape.redaction.redactor", "mcp_tape.replay.faults"),
    *("mcp_tape.replay.misses", "mcp_tape.transports.environment_handover", "mcp_tape.transports.local"),
    *("mcp_tape.system.posix_processes", "mcp_tape.transports.stdio.bridge", "mcp_tape.transports.stdio.serve"),
)


@contextlib.contextmanager
def quick() -> Iterator[pytest.MonkeyPatch]:
    """The environment of a run that does not look for plugins."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
        yield patch


@functools.cache
def python() -> str:
    """A Python that forks mcp-tape, servers written in place and xdist workers from processes that have loaded them."""
    place = tempfile.TemporaryDirectory(prefix="warm-")
    atexit.register(place.cleanup)
    ours = f"{forked.BY_PATH}' '*"
    kinds = {f"{ours}' --listen '*": forked.loaded(), ours: forked.loaded_for_stdio()}
    kinds |= {"-c*": forked.loaded_for_stdio(), "-u*": NEEDED}
    return str(warm.choosing(Path(place.name), kinds))

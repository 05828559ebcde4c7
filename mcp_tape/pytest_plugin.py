"""The pytest plugin: one marker, three fixtures, five options.

Every pytest run loads this file, so it loads nothing; what it needs comes with the first tape.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from .pytest_tapes import Tapes
    from .using import UsedCassette

_MODES = ("none", "once", "new_episodes", "all", "rewrite")
_UNPLAYED = ("ignore", "warn", "error")
_MARK = (
    "mcp_tape(name=None, *, server=None, url=None, mode=None, unplayed=None, **options): use a cassette; its name is "
    "made from the test's unless given. Options are those of mcp_tape.use_cassette."
)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("mcp-tape", "mcp-tape: record and replay MCP servers")
    group.addoption("--mcp-record", choices=_MODES, help="What tapes do: replay (none), record (once, all, rewrite) or "
                    "both (new_episodes). Default: none.")  # fmt: skip
    group.addoption("--mcp-block-live", action="store_true", default=None, help="Refuse to talk to live servers.")
    group.addoption("--mcp-unplayed", choices=_UNPLAYED, help="What to do about recorded requests that a test did not "
                    "make. Default: ignore.")  # fmt: skip
    group.addoption("--mcp-tape-dir", metavar="DIR", help="Where cassettes are. Default: cassettes/ beside each test.")
    group.addoption("--mcp-orphans", action="store_true", help="List the cassettes that no test has used.")
    parser.addini("mcp_record", "as --mcp-record")
    parser.addini("mcp_block_live", "as --mcp-block-live", type="bool", default=None)
    parser.addini("mcp_unplayed", "as --mcp-unplayed")
    parser.addini("mcp_tape_dir", "as --mcp-tape-dir")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", _MARK)


_TAPES: pytest.StashKey[Tapes] = pytest.StashKey()


def _tapes(config: pytest.Config) -> Tapes:
    if _TAPES not in config.stash:
        from .pytest_tapes import Tapes

        config.stash[_TAPES] = Tapes(config)
    return config.stash[_TAPES]


def pytest_report_header(config: pytest.Config) -> str | None:
    """How tapes are used, and who says so, where anybody does."""
    names = ("mcp_record", "mcp_block_live", "mcp_unplayed", "mcp_tape_dir")
    if not any(config.getoption(f"--{name.replace('_', '-')}") or config.getini(name) for name in names):
        return "mcp-tape: record none (default)"
    return _tapes(config).header()


@pytest.fixture(scope="session")
def mcp_tape_config() -> dict[str, Any]:
    """Options for all tapes within its scope, to be overridden: those of the marker `mcp_tape`."""
    return {}


@pytest.fixture
def mcp_tape(request: pytest.FixtureRequest, mcp_tape_config: dict[str, Any]) -> Iterator[UsedCassette]:
    """The test's tape: what a client may connect to, and what happened."""
    yield from _tapes(request.config).of_test(request.node, mcp_tape_config)


@pytest.fixture(scope="session")
def mcp_tape_factory(request: pytest.FixtureRequest) -> Iterator[Callable[..., UsedCassette]]:
    """Makes tapes that several tests share: called with a name and the options of the marker."""
    yield from _tapes(request.config).factory()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """A miss fails the test, even if the code under test has swallowed it; but not one that has failed already."""
    result = yield
    if _TAPES in item.config.stash:
        _tapes(item.config).check(item)
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    report = yield
    if _TAPES in item.config.stash:
        _tapes(item.config).ended(item, report.failed)
    return report


def pytest_sessionfinish(session: pytest.Session) -> None:
    if _TAPES in session.config.stash:
        tapes = _tapes(session.config)
        tapes.finish()
        output = getattr(session.config, "workeroutput", None)
        if output is not None:  # a worker of xdist tells the controller
            output["mcp_tape_used"] = sorted(tapes.used)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """xdist: what a worker has used counts as used."""
    used = getattr(node, "workeroutput", {}).get("mcp_tape_used", [])
    if used:
        _tapes(node.config).used.update(used)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    if config.getoption("--mcp-orphans"):
        _tapes(config).list_orphans(terminalreporter)

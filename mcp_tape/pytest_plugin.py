"""The pytest plugin: one marker, three fixtures, seven options.

Every pytest run loads this file, so it loads little; what it needs comes with the first tape.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from .options import FORMATS, LEVELS, MODES

if TYPE_CHECKING:
    from .testing.plugin import Tapes
    from .testing.use import UsedCassette

_INI = ("mcp_record", "mcp_block_live", "mcp_unplayed", "mcp_inexact", "mcp_tape_dir", "mcp_tape_format")
_PRECEDENCE = "command line, nearest mark, farther marks, mcp_tape_config, ini, default"
_MARK = (
    "mcp_tape(name=None, *, server=None, url=None, servers=None, mode=None, unplayed=None, inexact=None, dir=None, "
    "format=None, **options): use a "
    "cassette; its name is made from the test's unless given. Options are those of mcp_tape.use_cassette."
)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("mcp-tape", "mcp-tape: record and replay MCP servers")
    group.addoption("--mcp-record", choices=MODES, help="What tapes do: replay (none), record (once, all, rewrite) or "
                    "both (new_episodes). Default: none.")  # fmt: skip
    group.addoption("--mcp-block-live", action="store_true", default=None, help="Refuse to talk to live servers.")
    group.addoption("--mcp-unplayed", choices=LEVELS, help="What to do about recorded requests that a test did not "
                    "make. Default: ignore.")  # fmt: skip
    group.addoption("--mcp-inexact", choices=LEVELS, help="What to do about answers that are not exact, where tests "
                    "allow them: ignore, normalize, match. Default: ignore.")  # fmt: skip
    group.addoption("--mcp-tape-dir", metavar="DIR", help="Where cassettes are. Default: cassettes/ beside each test.")
    group.addoption("--mcp-format", "--mcp-tape-format", choices=FORMATS, help="What cassettes are: SQLite (db), or "
                    "text to be reviewed (jsonl). Default: db.")  # fmt: skip
    group.addoption("--mcp-orphans", action="store_true", default=None, help="List the cassettes that no test uses.")
    parser.addini("mcp_record", "as --mcp-record")
    parser.addini("mcp_block_live", "as --mcp-block-live", type="bool", default=None)
    parser.addini("mcp_unplayed", "as --mcp-unplayed")
    parser.addini("mcp_inexact", "as --mcp-inexact")
    parser.addini("mcp_tape_dir", "as --mcp-tape-dir; relative to the root directory")
    parser.addini("mcp_tape_format", "as --mcp-format")
    parser.addini("mcp_orphans", "as --mcp-orphans", type="bool", default=None)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", _MARK)
    choices_of = {"mcp_record": MODES, "mcp_unplayed": LEVELS, "mcp_inexact": LEVELS, "mcp_tape_format": FORMATS}
    for name, choices in choices_of.items():
        value = config.getini(name)
        if value and value not in choices:
            raise pytest.UsageError(f"{name} is {value!r} in the ini file; it may be one of {', '.join(choices)}")


_TAPES: pytest.StashKey[Tapes] = pytest.StashKey()


def _tapes(config: pytest.Config) -> Tapes:
    if _TAPES not in config.stash:
        from .testing.plugin import Tapes

        config.stash[_TAPES] = Tapes(config)
    return config.stash[_TAPES]


def _wants_orphans(config: pytest.Config) -> bool:
    return bool(config.getoption("--mcp-orphans") or config.getini("mcp_orphans"))


def pytest_report_header(config: pytest.Config) -> str:
    """The settings for all tapes, their sources, and the precedence."""
    said = any(config.getoption(f"--{name.replace('_', '-')}") or config.getini(name) for name in _INI)
    settings = _tapes(config).settings() if said else "record none (default)"
    return f"mcp-tape: {settings}; the first counts: {_PRECEDENCE}"


@pytest.fixture(scope="session")
def mcp_tape_config() -> dict[str, Any]:
    """Options for all tapes within its scope, to be overridden: those of the marker `mcp_tape`."""
    return {}


@pytest.fixture
def mcp_tape(request: pytest.FixtureRequest, mcp_tape_config: dict[str, Any]) -> UsedCassette:
    """The test's tape: ways to connect a client, and its calls and events."""
    return _tapes(request.config).of_test(request.node, mcp_tape_config)


@pytest.fixture(scope="session")
def mcp_tape_factory(request: pytest.FixtureRequest) -> Iterator[Callable[..., UsedCassette]]:
    """Makes tapes that several tests share: called with a name and the options of the marker."""
    tapes = _tapes(request.config)
    yield tapes.make
    tapes.end_factory_tapes()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, Any, Any]:
    __tracebackhide__ = True
    if item.get_closest_marker("mcp_tape") is not None:
        _tapes(item.config)  # a marker may be all that it has
    return (yield from _fail_at_miss(item, "setup"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    __tracebackhide__ = True
    return (yield from _fail_at_miss(item, "call"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, Any, Any]:
    __tracebackhide__ = True
    return (yield from _fail_at_miss(item, "teardown"))


def _fail_at_miss(item: pytest.Item, when: str) -> Generator[None, Any, Any]:
    """Fail a test at a miss, even if the code under test has swallowed it, unless it has failed already."""
    __tracebackhide__ = True
    try:
        result = yield
    except BaseException:
        if _TAPES in item.config.stash:
            _tapes(item.config).explain_failure(item, when)
        raise
    if _TAPES in item.config.stash:
        _tapes(item.config).check_passed(item, when)
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    report = yield
    if _TAPES in item.config.stash:
        _tapes(item.config).note_report(item, call, report)
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep which tests are under marks, before some are deselected."""
    marked = [item for item in items if item.get_closest_marker("mcp_tape") is not None]
    if marked:
        _tapes(config).summary.expect(marked)


def pytest_deselected(items: list[pytest.Item]) -> None:
    """Count the cassettes of deselected tests as used."""
    if items and _wants_orphans(items[0].config):
        _tapes(items[0].config).count_as_used(items)


def pytest_sessionfinish(session: pytest.Session) -> None:
    config = session.config
    if _wants_orphans(config):
        _tapes(config).count_as_used(session.items)
    if _TAPES in config.stash:
        _tapes(config).finish(session)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Add the summary of a worker of xdist to the controller's."""
    summary = getattr(node, "workeroutput", {}).get("mcp_tape")
    if summary:
        _tapes(node.config).summary.merge(summary)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    if _TAPES in config.stash:
        _tapes(config).summary.write(terminalreporter, config.rootpath, orphans=_wants_orphans(config))

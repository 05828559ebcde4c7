"""Fixtures that need set-up."""

from __future__ import annotations

import gc
import os
import pickle
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

pytest.register_assert_rewrite("tests.support")  # their asserts then fail with both values, like those of tests

from tests.support import disks, forked, fuzzing, provision, suites, warm  # noqa: E402 (after the settings for loading them)

if TYPE_CHECKING:
    from tests.support.plugin import Suite

pytest_plugins = ["pytester", "tests.support.browser"]

# The tests start everything from one process, but it is not a run: tests of runs name one.
os.environ["MCP_TAPE_RUN"] = ""

# Without compiled files, each of some thousand processes would compile the package again, and each run all tests.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Most tests wait for SQLite's disk syncs for longer than they compute.
os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", provision.memory() or tempfile.gettempdir())  # of `tmp_path`
tempfile.tempdir = provision.temporary()

# Mounts must not outlive a killed test.
disks.keep_mounts_private()

# nohup and background jobs start us with ignored signals, which our children would inherit.
SIGNALS = (signal.SIGINT, signal.SIGHUP, signal.SIGTERM)
for _number in (*SIGNALS, signal.SIGQUIT):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, signal.default_int_handler if _number == signal.SIGINT else signal.SIG_DFL)


fuzzing.set_profiles()


def pytest_configure(config: pytest.Config) -> None:
    """Choose how many generated cases are tried, and load modules once for all processes of a run."""
    if not config.getoption("hypothesis_profile", None):
        settings.load_profile("quick" if config.getoption("markexpr") == "not slow" else "whole")
    if hasattr(config, "workerinput"):
        warm.share(config.workerinput["warm"])
    elif config.getoption("numprocesses", None) and sys.platform == "linux":
        warm.nursery(sys.executable, forked.loaded())
        warm.nursery(sys.executable, forked.loaded_for_stdio())
        warm.nursery(sys.executable, provision.SDK)
        warm.nursery(sys.executable, suites.NEEDED)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    node.workerinput["warm"] = warm.shared()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Order the tests, and adjust their marks for the quick loop.

    The first cases of a slow test stay in the quick loop if its mark gives a number. Slow files come first, so that no
    process is left with one at the end.
    """
    cases: Counter[str] = Counter()
    for item in items:
        mark = item.get_closest_marker("slow")
        test = item.nodeid.partition("[")[0]
        cases[test] += 1
        if mark and cases[test] <= mark.kwargs.get("quick", 0):
            item.own_markers.remove(mark)
    slow = Counter(item.path for item in items if item.get_closest_marker("slow"))
    items.sort(key=lambda item: -slow[item.path])


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Disable garbage collection while tests are collected: there is hardly any garbage."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish() -> None:
    """Exclude the tests, which live to the end, from garbage collection, which a run within a test starts five times.

    Their own garbage stays: it is little, and finding it takes as long as dozens of tests. Later collections are rarer
    than Python's default, because each visits the reports of all earlier tests.
    """
    gc.freeze()
    gc.set_threshold(5_000)


@pytest.hookimpl(wrapper=True)
def pytest_report_to_serializable() -> Generator[None, dict[str, Any], dict[str, Any]]:
    """Send each report as one value: execnet serializes a dictionary value by value, in Python."""
    return {"report": pickle.dumps((yield))}


@pytest.hookimpl(tryfirst=True)
def pytest_report_from_serializable(data: dict[str, Any]) -> None:
    data.update(pickle.loads(data.pop("report")))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Restore signal handlers after each test.

    Commands in this process may change them, and the children of the next test must not inherit that.
    """
    provision.installs = item.get_closest_marker("slow") is not None
    before = [(number, signal.getsignal(number)) for number in SIGNALS]
    try:
        return (yield)
    finally:
        for number, handler in before:
            if signal.getsignal(number) is not handler:
                signal.signal(number, handler)


@pytest.fixture(scope="session")
def node() -> Callable[[], Path]:
    """The npm packages, set up on first use. Without Node a test is skipped, but never in CI."""

    def modules() -> Path:
        if provision.has_node():
            provision.everything()
            return provision.node_modules()
        if os.environ.get("CI"):
            pytest.fail("node and npm are not installed, and CI must have them")
        pytest.skip("needs node and npm")

    return modules


@pytest.fixture(scope="session")
def chromium() -> Callable[[], str]:
    """The program of a real browser. Without one a test is skipped, but never in CI."""

    def program() -> str:
        found = provision.chromium()
        if found is None and os.environ.get("CI"):
            pytest.fail("chromium is not installed, and CI must have it")
        return found or pytest.skip("needs chromium")

    return program


@pytest.fixture(scope="session")
def sdk_client(node: Callable[[], Path]) -> Callable[[str, str], list[str]]:
    """The command of a client program for a server, both by their names in `provision`."""

    def command(client: str, server: str) -> list[str]:
        if provision.needs_node(client, server):
            node()
        return provision.client(client)

    return command


@pytest.fixture
def forked_recorders(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fork the recorders that mcp-tape starts by itself, here or in another process."""
    monkeypatch.setattr(sys, "executable", suites.python())
    monkeypatch.setenv("WARM_PYTHON", suites.python())


@pytest.fixture
def suite(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Suite:
    """A user's tests, to run with the plugin. Without CI, because pytest would not shorten its summary lines there."""
    monkeypatch.delenv("CI", raising=False)
    from tests.support.plugin import Suite

    return Suite(pytester)

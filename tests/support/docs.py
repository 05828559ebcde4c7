"""Helpers for tests of the documentation: its pages, their blocks, and a directory where the examples run."""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mcp_tape.demo import client
from tests.support import forked, provision, warm
from tests.support.bucket import served
from tests.support.running import record, run, started, until

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.glob("*.md"))]
BLOCK = re.compile(r"(?P<mark><!-- run -->\n)?^```(?P<language>\w+)\n(?P<text>.*?)^```", re.S | re.M)
ON_THE_DESK = ("tape.db", "next.db", "remote.db", "ask.py")
# Records a client command at a URL.
RECORD = """
rm -f url && mkfifo url
mcp-tape record -q --url "$SERVER" -o remote.db > url &
read -r URL < url
{client} "$URL" Bern
kill $! && wait $!
"""
# An example must end everything that it starts.
WATCHED = "trap 'code=$?; for job in $(jobs -pr); do kill $job; code=99; done; exit $code' EXIT\n"


def blocks(language: str, *, marked: bool = False) -> list[object]:
    """Every fenced block in a language, for parametrization."""
    found = []
    for page in PAGES:
        for block in BLOCK.finditer(page.read_text("utf-8")):
            if block["language"] == language and (block["mark"] or not marked):
                first = block["text"].partition("\n")[0]
                found.append(pytest.param(block["text"], id=f"{page.name}: {first[:50]}"))
    return found


def under(page: str, title: str) -> str:
    """The text of a page under a heading, up to the next one."""
    text = (DOCS / page).read_text("utf-8")
    found = re.search(rf"^#+ {re.escape(title)}\n(.*?)(?=^#+ |\Z)", text, flags=re.S | re.M)
    assert found, f"{page} has no heading {title}"
    return found[1]


@contextlib.contextmanager
def weather_server(place: Path) -> Iterator[str]:
    """Run the server of docs/http.md on a free port; yield its URL."""
    program = example("docs/http.md", "server.py", place, lambda text: text.replace("port=8000", "port=0"))
    with (place / "log").open("wb") as log, started([sys.executable, str(program)], stdout=log, stderr=log) as server:
        until(lambda: server.poll() is not None or _origin(place), "the weather server to listen")
        yield f"{_origin(place)}/mcp"
        assert server.poll() is None, (place / "log").read_text()


def _origin(place: Path) -> str:
    """The address that the server reports."""
    said = re.search(r"running on (http://127\.0\.0\.1:\d+) ", (place / "log").read_text())
    return said[1] if said else ""


def make_desk(place: Path, server: str) -> Path:
    """A directory with recordings of the demo, of its next version and of a URL's server, and the latter's client."""
    demo = [sys.executable, "-m", "mcp_tape.demo.server"]
    client.play(record(place / "tape.db", demo, "-q"))
    client.play(record(place / "next.db", [*demo, "next"], "-q"))
    example("docs/http.md", "ask.py", place)
    done = shell(RECORD.format(client="python ask.py"), place, server)
    assert (done.returncode, done.stdout) == (0, b"Sunny in Bern.\n"), done.stderr
    return place


def shell(text: str, directory: Path, server: str) -> subprocess.CompletedProcess[bytes]:
    """Run an example; exit code 99 if it leaves a process running. Examples with s3:// get a bucket."""
    path = os.pathsep.join([forked.scripts(), _pythons(), str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = os.environ | {"PATH": path, "SERVER": server}
    with served() if "s3://" in text else contextlib.nullcontext() as bucket:
        if bucket is not None:
            environment |= bucket.environ() | {"MCP_TAPE_CACHE": str(directory / "cache")}
        return run(["bash", "-euo", "pipefail", "-c", WATCHED + text], cwd=directory, env=environment)


@functools.cache
def _pythons() -> str:
    """A directory for PATH with a `python` that starts with the SDK loaded."""
    place = tempfile.TemporaryDirectory(prefix="warm-")
    atexit.register(place.cleanup)
    warm.python(Path(place.name), provision.SDK)
    return place.name


FORMAT = (DOCS / "cassette-format.md").read_text("utf-8")

FILE = re.compile(r"^<!-- file: (?P<name>\S+) -->\n```\w+\n(?P<text>.*?)^```$", re.S | re.M)


def example(page: str, name: str, directory: Path, place: Callable[[str], str] = lambda text: text) -> Path:
    """Write a file of a page into a directory; `place` may change its text."""
    (text,) = [found["text"] for found in FILE.finditer((ROOT / page).read_text("utf-8")) if found["name"] == name]
    changed = place(text)
    (directory / name).write_text(changed, "utf-8")
    return directory / name


def pytest_run(directory: Path, *options: str, offline: bool = False) -> subprocess.CompletedProcess[bytes]:
    """Run pytest with only the plugins of the examples; others take longer to load than the tests."""
    plugins = ["mcp_tape.pytest_plugin", "pytest_recording.plugin", "no:cacheprovider"]
    named = [word for plugin in plugins for word in ("-p", plugin)]
    path = str(directory / "nothing") if offline else provision.environment()["PATH"]
    env = os.environ | {"PATH": path, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return run([*provision.pytest_command(), "--rootdir=.", *named, *options], cwd=directory, env=env)

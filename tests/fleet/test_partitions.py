"""Directories of recordings: harmless on every system, whatever the server's name."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_tape.cassette.reader import Session
from mcp_tape.fleet.partitions import harmless_name, partition

HARMLESS = set(string.ascii_lowercase + string.digits + "._-")
SESSION = Session(1, "2026-11-18T23:30:00Z", None, "stdio", "{}", *[None] * 6, "tests", *[None] * 5, 1)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("server", "name"),
    [
        ("github", "github"),
        ("GitHub MCP Server", "github-mcp-server"),
        ("mcp-servers/everything", "mcp-servers-everything"),
        ("../../etc/passwd", "etc-passwd"),
        ("..", "unnamed"),
        ("server=evil/date=1", "server-evil-date-1"),
        ("C:\\x", "c-x"),
        ("a\0b\nc", "a-b-c"),
        ("%2e%2e%2f", "2e-2e-2f"),
        ("天气", "unnamed"),
        ("météo", "m-t-o"),
        ("", "unnamed"),
        ("x" * 300, "x" * 64),
    ],
)
def test_a_server_s_name_is_made_harmless(server: str, name: str) -> None:
    assert harmless_name(server) == name


@given(st.text())
def test_no_name_does_harm(server: str) -> None:
    name = harmless_name(server)
    assert 0 < len(name) <= 64 and set(name) <= HARMLESS and not name.startswith(".")
    assert harmless_name(name) == name


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({"server_name": "time"}, "date=2026-11-18/server=time"),
        ({"label": "in-a-config"}, "date=2026-11-18/server=in-a-config"),
        ({"server_name": "time", "started_at": "2026-11-18T23:30:00-02:00"}, "date=2026-11-19/server=time"),
        ({"server_name": "time", "started_at": "../../../etc"}, "date=1970-01-01/server=time"),
        ({"server_name": "time", "started_at": "9999-12-31T23:59:59Z"}, "date=9999-12-31/server=time"),
        ({}, "date=2026-11-18/server=unnamed"),
    ],
)
def test_a_session_is_in_the_directories_of_its_day_and_its_server(facts: dict[str, str], expected: str) -> None:
    assert partition(SESSION._replace(**facts)) == expected

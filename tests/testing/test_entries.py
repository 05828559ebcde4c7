"""Entries for servers: accepted forms, and the configurations that replace them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mcp_tape import TapeError, use_cassette
from mcp_tape.testing.entries import expand_variables, read_entries

GIVEN: list[tuple[Any, tuple[str, ...], str | None]] = [
    (["server", "-v"], ("server", "-v"), None),
    (("server",), ("server",), None),
    ([Path("/bin/server")], ("/bin/server",), None),
    ("https://example.com/mcp", (), "https://example.com/mcp"),
    ({"command": "server", "args": ["-v"]}, ("server", "-v"), None),
    ({"command": ["server", "-v"]}, ("server", "-v"), None),
    ({"command": "server", "args": None, "env": None}, ("server",), None),
    ({"url": "http://localhost:1/sse", "type": "sse"}, (), "http://localhost:1/sse"),
]


@pytest.mark.parametrize(("value", "command", "url"), GIVEN)
def test_a_command_a_url_or_an_object(value: Any, command: tuple[str, ...], url: str | None) -> None:
    entry = read_entries({"it": value})["it"]
    assert (entry.command, entry.url) == (command, url)


REFUSED: list[tuple[Any, str]] = [
    ([], "a dict of at least one"),
    ({}, "a dict of at least one"),
    ({"git": "mcp-server-git -v"}, r"'git' is neither a URL nor a list of words, as in \['mcp-server-git', '-v'\]"),
    ({"git": 1}, "'git' must be a list of words, a URL or a dict, not int"),
    ({"git": b"server"}, "not bytes"),
    ({"git": ["server", 1]}, "a list of texts"),
    ({"git": {}}, "either a command or a url"),
    ({"git": []}, "needs a command"),
    ({"git": {"command": 5}}, "command of the server 'git' must be a list of texts"),
    ({"git": {"command": "a", "args": "--flag"}}, "args of the server 'git' must be a list of texts"),
    ({"git": {"url": "ftp://b"}}, "the url of the server 'git' must be one of http or https"),
    ({"git": {"url": 5}}, "the url of the server 'git' must be one of http or https"),
    ({"git": {"command": "a", "url": "http://b"}}, "either a command or a url, and not both"),
    ({"git": {"command": "a", "env": ["A=B"]}}, "env of the server 'git' must be a dict"),
    ({"": ["server"]}, "'' is not a server name"),
    ({"a\nb": ["server"]}, "is not a server name"),
]


@pytest.mark.parametrize(("given", "why"), REFUSED)
def test_an_invalid_server_is_refused(given: Any, why: str) -> None:
    with pytest.raises(TapeError, match=why):
        read_entries(given)


ENVIRON = {"NAME": "Bern", "EMPTY": ""}
TEXTS = [
    ("plain", "plain"),
    ("${NAME}", "Bern"),
    ("a ${env:NAME} b ${NAME}", "a Bern b Bern"),
    ("${EMPTY}", ""),
    ("${GONE:-there}", "there"),
    ("${NAME:-there}", "Bern"),
    ("${GONE}", None),
    ("${input:token}", None),
    ("${workspaceFolder}/x", None),
    ("$NAME {NAME} $$", "$NAME {NAME} $$"),
]


@pytest.mark.parametrize(("text", "value"), TEXTS)
def test_variables_are_put_in_where_they_are_known(text: str, value: str | None) -> None:
    assert expand_variables(text, ENVIRON) == value


def test_values_with_unknown_variables_are_left_to_the_client() -> None:
    entry = read_entries({"it": {"command": "${NAME}", "args": ["${GONE}"], "env": {"A": "${GONE}", "B": "${NAME}"}}})[
        "it"
    ]
    known = entry.expand(ENVIRON)
    assert (known.command, known.env) == (("Bern", "${GONE}"), {"B": "Bern"})


@pytest.mark.parametrize(
    ("url", "value"), [("https://${NAME}/mcp", "https://Bern/mcp"), ("https://${GONE}/mcp", "https://${GONE}/mcp")]
)
def test_a_url_may_name_variables_too(url: str, value: str) -> None:
    assert read_entries({"it": {"url": url}})["it"].expand(ENVIRON).url == value


def test_a_url_whose_variable_is_not_set_cannot_be_recorded(tmp_path: Path) -> None:
    with pytest.raises(TapeError, match=r"the URL https://\$\{GONE\}/mcp names a variable that is not set"):
        use_cassette(tmp_path / "tape.db", servers={"it": {"url": "https://${GONE}/mcp"}})


def test_an_entry_of_a_live_server_keeps_its_variables_and_headers() -> None:
    given = {"command": "server", "env": {"TOKEN": "${TOKEN}"}, "cwd": "${workspaceFolder}", "timeout": 5}
    entry = read_entries({"it": given})["it"]
    made = entry.client_entry("mcpServers", command=["tape", "--", "server"], live=True)
    assert made == {
        "timeout": 5, "transport": "stdio", "command": "tape", "args": ["--", "server"],
        "env": {"TOKEN": "${TOKEN}"}, "cwd": "${workspaceFolder}",
    }  # fmt: skip
    assert entry.client_entry("servers", command=["tape"], live=False) == {
        "timeout": 5, "type": "stdio", "command": "tape", "args": [],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("given", "made"),
    [
        ({}, {"transport": "http"}),
        ({"type": "http"}, {"type": "http"}),
        ({"transport": "streamable_http"}, {"transport": "streamable_http"}),
    ],
)
def test_the_transport_of_an_entry_stays(given: dict[str, str], made: dict[str, str]) -> None:
    entry = read_entries({"it": {"url": "https://example.com/mcp", "headers": {"Authorization": "Bearer x"}} | given})[
        "it"
    ]
    replaced = entry.client_entry("mcpServers", url="http://127.0.0.1:1/mcp", live=False)
    assert replaced == made | {"url": "http://127.0.0.1:1/mcp"}


def test_the_older_transport_is_known_by_its_path() -> None:
    entry = read_entries({"it": "https://example.com/sse"})["it"]
    assert entry.client_entry("mcpServers", url="http://127.0.0.1:1/sse?a=b", live=False)["transport"] == "sse"

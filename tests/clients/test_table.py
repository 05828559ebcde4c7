"""The table of clients: the places of their files, on both systems."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcp_tape.clients.table import BY_NAME, CLIENTS, JSON, LOCAL, PROJECT, YAML, path_of, places

HOME = {"HOME": "/home/ann"}


@pytest.mark.parametrize(
    ("client", "linux", "mac"),
    [
        ("claude-desktop", ".config/Claude/claude_desktop_config.json",
         "Library/Application Support/Claude/claude_desktop_config.json"),
        ("claude-code", ".claude.json", ".claude.json"),
        ("cursor", ".cursor/mcp.json", ".cursor/mcp.json"),
        ("vscode", ".config/Code/User/mcp.json", "Library/Application Support/Code/User/mcp.json"),
        ("zed", ".config/zed/settings.json", ".config/zed/settings.json"),
        ("codex", ".codex/config.toml", ".codex/config.toml"),
        ("goose", ".config/goose/config.yaml", ".config/goose/config.yaml"),
        ("antigravity", ".gemini/config/mcp_config.json", ".gemini/config/mcp_config.json"),
    ],
)  # fmt: skip
def test_a_client_has_its_file_where_the_system_wants_it(client: str, linux: str, mac: str) -> None:
    pattern = BY_NAME[client].user[0]
    assert path_of(pattern, HOME, "linux") == f"/home/ann/{linux}"
    assert path_of(pattern, HOME, "darwin") == f"/home/ann/{mac}"


def test_variables_move_files() -> None:
    environ = HOME | {"XDG_CONFIG_HOME": "/x", "CODEX_HOME": "/c"}
    assert path_of("{xdg}/zed/settings.json", environ, "linux") == "/x/zed/settings.json"
    assert path_of("{xdg}/zed/settings.json", environ, "darwin") == "/home/ann/.config/zed/settings.json"
    assert path_of("{config}/a", HOME | {"XDG_CONFIG_HOME": "relative"}, "linux") == "/home/ann/.config/a"
    assert path_of("{codex}/config.toml", environ) == "/c/config.toml"


def test_names_are_given_once_and_files_of_projects_are_below_it() -> None:
    assert len(BY_NAME) == len(CLIENTS)
    found = list(places("/p", HOME, "linux"))
    assert all(place.path.startswith("/p/") == (place.scope == PROJECT) for place in found)
    assert [place.keys for place in found if place.scope == LOCAL] == [(("projects", "/p", "mcpServers"),)]


def test_patterns_find_the_files_that_are_there(tmp_path: Path) -> None:
    home = tmp_path / "a [strange] home*"
    inner = [
        ".claude/plugins/cache/market/plugin/1.0/.mcp.json",
        ".config/Code/User/profiles/-1a2b/mcp.json",
        ".aws/amazonq/agents/one.json",
        "project/.continue/mcpServers/two.json",
        "project/.continue/mcpServers/three.yaml",
    ]
    for name in inner:
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).touch()
    found = {place.path: place for place in places(str(home / "project"), {"HOME": str(home)}, "linux")}
    assert {str(home / name) for name in inner} <= set(found)
    assert found[str(home / inner[3])].client.kind == JSON and found[str(home / inner[4])].client.kind == YAML


def test_the_manual_has_every_client_with_its_files() -> None:
    page = (Path(__file__).parents[2] / "docs" / "known-clients.md").read_text("utf-8")
    for client in CLIENTS:
        files = ", ".join(f"`{pattern}`" for pattern in (*client.user, *client.project))
        assert f"| `{client.name}` | {files} |\n" in page

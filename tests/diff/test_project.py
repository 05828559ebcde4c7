"""The settings of a project: pyproject.toml, the ignore file, and where they are found."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mcp_tape.compare.judging import IGNORE_HEADER
from mcp_tape.diff import project
from mcp_tape.errors import SettingsError

FULL = """
[project]
name = "x"
[tool.mcp-tape]
category = "model"
fail-on = "warn"
ignore-paths = ["$.result.uptime", "$..etag"]
[tool.mcp-tape.levels]
tool-description-changed = "info"
tool-added = "off"
"""


def settle(place: Path, text: str) -> Path:
    (place / "pyproject.toml").write_text(text, "utf-8")
    return place


def test_without_files_the_defaults_hold(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    assert project.load(str(tmp_path)) == project.Project(ignore_path=str(tmp_path / ".mcp-tape-ignore"))


def test_the_nearest_pyproject_above_settles_everything(tmp_path: Path) -> None:
    inner = settle(tmp_path, FULL) / "a" / "b"
    inner.mkdir(parents=True)
    loaded = project.load(str(inner))
    assert (loaded.category, loaded.fail_on) == ("model", "warn")
    assert loaded.ignore_paths == ("$.result.uptime", "$..etag")
    assert loaded.levels == {"tool-description-changed": "info", "tool-added": None}
    assert loaded.settings(2.0)[:2] == ("model", loaded.levels) and loaded.settings(2.0).slower_than == 2.0
    settle(tmp_path / "a", "")
    assert project.load(str(inner)).category == "call"


def test_options_win_and_paths_are_added(tmp_path: Path) -> None:
    loaded = project.load(str(settle(tmp_path, FULL)), category="wire", fail_on="never", ignore_paths=["$.x"])
    assert (loaded.category, loaded.fail_on) == ("wire", "never")
    assert loaded.ignore_paths == ("$.result.uptime", "$..etag", "$.x")


@pytest.mark.parametrize("top", [".git", "pyproject.toml"])
def test_the_ignore_file_is_the_nearest_within_the_project(tmp_path: Path, top: str) -> None:
    (tmp_path / ".mcp-tape-ignore").write_text("a3f8c21b9d04\n")
    root, inner = tmp_path / "root", tmp_path / "root" / "inner"
    inner.mkdir(parents=True)
    assert project.load(str(inner)).ignore_path == str(tmp_path / ".mcp-tape-ignore")
    (root / top).touch()  # in a worktree .git is a file
    assert project.load(str(inner)).ignore_path == str(root / ".mcp-tape-ignore")
    assert not project.load(str(inner)).ignores.lines
    (root / ".mcp-tape-ignore").write_text("77c10e5512ab\n")
    assert [line.text for line in project.load(str(inner)).ignores.lines] == ["77c10e5512ab"]
    (inner / ".mcp-tape-ignore").write_text("0d9a3b6c1e42\n")
    assert [line.text for line in project.load(str(inner)).ignores.lines] == ["0d9a3b6c1e42"]


def test_a_pyproject_beyond_the_repository_is_not_ours(tmp_path: Path) -> None:
    inner = settle(tmp_path, FULL) / "repository"
    (inner / ".git").mkdir(parents=True)
    assert project.load(str(inner)).category == "call"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[tool.mcp-tape", "pyproject.toml is not TOML"),
        ("[tool]\nmcp-tape = 3", r"\[tool.mcp-tape\] is a table, not 3"),
        ("[tool.mcp-tape]\nfailon = 'warn'", r"no 'failon'; did you mean fail-on\? \(it may have category, fail-on"),
        ("[tool.mcp-tape]\ncategory = 'calls'", r"category = 'calls': it may be one of wire, call, model"),
        ("[tool.mcp-tape]\nfail-on = true", r"fail-on = True: it may be one of error, warn, info, never"),
        ("[tool.mcp-tape]\nfail-on = ['error']", r"fail-on = \['error'\]: it may be one of error"),
        ("[tool.mcp-tape]\nignore-paths = '$.a'", r"ignore-paths is a list of JSONPaths"),
        ("[tool.mcp-tape]\nignore-paths = ['a']", r"ignore-paths: a JSONPath starts with \$"),
        ("[tool.mcp-tape]\nlevels = 'off'", r"levels\] is a table of rules and levels"),
        ("[tool.mcp-tape.levels]\ntool-remove = 'off'", r"no 'tool-remove'; did you mean tool-removed\? \(the rules"),
        ("[tool.mcp-tape.levels]\ntool-removed = 'warning'", r"tool-removed = 'warning': .* error, warn, info, off"),
    ],
)
def test_invalid_settings_are_refused_with_the_file_the_key_and_the_choices(
    tmp_path: Path, text: str, why: str
) -> None:
    with pytest.raises(SettingsError, match=rf"pyproject.toml.*{why}" if "TOML" not in why else why) as refused:
        project.load(str(settle(tmp_path, text)))
    assert refused.value.exit_code == 2


def test_a_bad_line_of_the_ignore_file_is_named(tmp_path: Path) -> None:
    (tmp_path / ".mcp-tape-ignore").write_text("# fine\n\ntool-remove tool x\n")
    with pytest.raises(SettingsError, match=r"\.mcp-tape-ignore, line 3: 'tool-remove' is not a rule; did you mean"):
        project.load(str(tmp_path))


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / ".mcp-tape-ignore").write_bytes(b"\xff\xfe")
    with pytest.raises(SettingsError, match="it is not UTF-8"):
        project.load(str(tmp_path))


@pytest.mark.parametrize("name", [".mcp-tape-ignore", "pyproject.toml"])
def test_an_endless_file_is_refused_without_waiting(tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    os.mkfifo(file)
    with pytest.raises(SettingsError, match="it is not a regular file"):
        project.load(str(tmp_path))
    file.unlink()
    file.symlink_to("/dev/zero")
    with pytest.raises(SettingsError, match="it is not a regular file"):
        project.load(str(tmp_path))
    file.unlink()
    with open(file, "wb") as out:
        out.truncate(1 << 34)  # sparse: takes no room on the disk
    with pytest.raises(SettingsError, match="it has more than 16 MiB"):
        project.load(str(tmp_path))


@pytest.mark.parametrize(
    "text", ["x = " + "[" * 100_000, "x = " + "{a=" * 5_000, f"x = {'9' * 5_000}", "x = 0000-00-00"]
)
def test_unusual_toml_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(SettingsError, match=r"pyproject\.toml is not TOML"):
        project.load(str(settle(tmp_path, text)))


def test_ignoring_creates_the_file_with_a_head_and_repeats_nothing(tmp_path: Path) -> None:
    path = tmp_path / ".mcp-tape-ignore"
    for _ in range(2):
        project.ignore(str(path), [("a3f8c21b9d04", "accepted"), ("$.x tool y", "")])
    assert path.read_text() == f"{IGNORE_HEADER}a3f8c21b9d04  # accepted\n$.x tool y\n"
    assert len(project.load(str(tmp_path)).ignores.lines) == 2


def test_ignoring_keeps_existing_lines(tmp_path: Path) -> None:
    path, real = tmp_path / ".mcp-tape-ignore", tmp_path / "elsewhere"
    real.write_bytes(b"# mine\r\ntool-removed tool x")
    path.symlink_to(real)
    project.ignore(str(path), [("tool-removed tool x", "again"), ("a3f8c21b9d04", "two\nlines")])
    assert real.read_bytes() == b"# mine\r\ntool-removed tool x\r\na3f8c21b9d04  # two lines\r\n"


def test_an_unwritable_ignore_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="cannot be written: No such file"):
        project.ignore(str(tmp_path / "none" / ".mcp-tape-ignore"), [("a3f8c21b9d04", "")])

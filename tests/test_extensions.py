"""Other packages add readers, stores and commands: the example does, and a broken package affects nothing else."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from mcp_tape.cassette.reader import Cassette
from mcp_tape.errors import CassetteError
from tests.support.forked import SCRIPT
from tests.support.messages import call, request, result
from tests.support.provision import ROOT
from tests.support.running import run

TAPE = ROOT / "cassettes" / "batch.db"


def tape(place: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[bytes]:
    """Run mcp-tape with the packages of a directory installed too."""
    return run([*SCRIPT, *words], env={**os.environ, "PYTHONPATH": str(place), **variables})


def install(place: Path, package: str, group: str, entry: str) -> None:
    """Write the metadata of a package, as an installer does."""
    about = place / f"{package}-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n", "utf-8")
    (about / "entry_points.txt").write_text(f"[mcp_tape.{group}]\n{entry}\n", "utf-8")


@pytest.mark.slow
def test_the_example_adds_a_reader_a_store_and_a_command(tmp_path: Path) -> None:
    source, place, shelf = tmp_path / "source", tmp_path / "installed", tmp_path / "shelf"
    shutil.copytree(ROOT / "docs" / "examples" / "extension", source, ignore=shutil.ignore_patterns("__pycache__"))
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-index", "--no-build-isolation", "--no-deps"]
    done = run([*pip, "--target", str(place), str(source)])
    assert done.returncode == 0, done.stderr

    talk = tmp_path / "talk.txt"
    init = request(0, "initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo={"name": "c"})
    talk.write_text(f"talk\n> {init}\n< {result(0)}\n> {call(1, 'dig')}\n< {result(1)}\n", "utf-8")
    read = tape(place, "show", str(talk), "--json")
    assert read.returncode == 0, read.stderr
    assert b"talk.txt: imported from talk: times invented" in read.stderr
    assert [json.loads(line)["sender"] for line in read.stdout.splitlines()] == ["client", "server"] * 2

    shelf.mkdir()
    shutil.copy(TAPE, shelf / "a.db")
    assert tape(place, "check", "shelf://a.db", SHELF=str(shelf)).returncode == 0
    gone = tape(place, "ls", "shelf://b.db", SHELF=str(shelf))
    assert (gone.returncode, gone.stderr) == (CassetteError.exit_code, b"mcp-tape: there is nothing at shelf://b.db\n")

    used = tape(place, "tools", str(talk))
    assert (used.returncode, used.stdout) == (0, b"dig\n"), used.stderr
    assert b"tools  mcp-tape-shelf 1.0" in tape(place, "--help").stdout


@pytest.mark.parametrize(
    ("group", "entry", "words"),
    [
        ("stores", "shelf = json:loads", ["ls", "shelf://a.db"]),
        ("commands", "dig = json:loads", ["dig"]),
        ("readers", "talk = json:loads", ["ls", "talk.txt"]),
    ],
)
@pytest.mark.slow
def test_packages_that_register_the_same_name_are_both_named(
    tmp_path: Path, group: str, entry: str, words: list[str]
) -> None:
    for package in ("one", "another"):
        install(tmp_path, package, group, entry)
    (tmp_path / "talk.txt").write_text("talk\n", "utf-8")
    name = entry.partition(" ")[0]
    done = tape(tmp_path, *words[:-1], words[-1] if group != "readers" else str(tmp_path / words[-1]))
    said = f"another 1.0 and one 1.0 both register {name!r} in the group mcp_tape.{group}; uninstall one of them"
    assert done.returncode and said in done.stderr.decode()


@pytest.mark.slow
def test_a_package_that_cannot_be_imported_breaks_only_its_own_additions(tmp_path: Path) -> None:
    install(tmp_path, "broken", "commands", "dig = no_such_module:dig")
    install(tmp_path, "wrong", "readers", "talk = no_such_module:READERS")
    recording = ROOT / "tests/formats/others/recordings/by-hand/mcpsnoop.jsonl"
    for words in (["ls", str(TAPE)], ["ls", str(recording)], ["--help"]):
        done = tape(tmp_path, *words)
        assert done.returncode == 0, done.stderr
    done = tape(tmp_path, "dig")
    assert (
        b"broken 1.0 registers 'dig' in the group mcp_tape.commands, which cannot be imported: ModuleNot" in done.stderr
    )
    (tmp_path / "odd.txt").write_text("odd\n", "utf-8")
    done = tape(tmp_path, "ls", str(tmp_path / "odd.txt"))
    assert done.returncode == CassetteError.exit_code and b"wrong 1.0 registers 'talk'" in done.stderr


def test_a_url_without_a_reader_is_refused_by_its_scheme() -> None:
    with pytest.raises(CassetteError, match=r"mcp-tape cannot read shelf:// URLs, only az://, gs://, http://, "):
        Cassette("shelf://secret/a.db")


@pytest.mark.slow
def test_a_local_cassette_and_a_command_of_ours_need_no_search() -> None:
    done = run([sys.executable, "-X", "importtime", "-m", "mcp_tape", "ls", str(TAPE)])
    assert done.returncode == 0 and b"mcp_tape.cassette.reader" in done.stderr
    assert b"mcp_tape.extensions" not in done.stderr and b"importlib.metadata" not in done.stderr

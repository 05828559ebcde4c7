"""Randomly changed cassettes, at any level: every command ends with an exit code of its own.

No traceback, no leftover file, a few seconds at most, and memory in proportion to the cassette.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import os
import pkgutil
import re
import resource
import select
import shutil
import signal
import sqlite3
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

import mcp_tape
from mcp_tape.cassette.reader import Cassette
from mcp_tape.cli import cli
from mcp_tape.errors import CassetteError
from mcp_tape.replay.stage import ReplayOptions, Stage
from mcp_tape.transports.http.serve import ReplayServer
from tests.support import fuzzing
from tests.support.fuzzing import Case
from tests.support.http_in_loop import InLoop
from tests.support.reading import GOLDEN
from tests.support.running import MCP_TAPE

PAGE = 4096
EACH = 6  # commands per mutant
WAIT = 240  # seconds for all of them, which take tenths; each verify may wait 30 for a server to start
MEMORY = 1 << 30  # bytes above this process's own
SMALL = [path for path in GOLDEN if path.stat().st_size < 120_000]

READING = """
    ls FILE | ls FILE --json | show FILE | show FILE --all --json | show FILE 3 | show FILE 5 --json
    show FILE --filter status:error | show FILE --filter tool:* | stats FILE | stats FILE --json
    search FILE server | search FILE e* --json | check FILE | check FILE --json | redact FILE --dry-run
    export FILE | export FILE --format md | export FILE --format raw --side client | export FILE --session all
    dump FILE | dump FILE --times --json | review FILE --accept-all
    query FILE SELECT*FROM(tool_calls) | query FILE SELECT*FROM(exchanges) --csv | query FILE SELECT*FROM(messages) --nl
    diff ORIGINAL FILE | diff FILE ORIGINAL --json | diff FILE FILE --format md | breaking FILE ORIGINAL
    replay FILE | replay FILE --strict --report OUT | replay FILE --session all --ignore $..x --repeats cycle
    replay FILE --order recorded --speed 1000 | replay FILE --match-on $.params.name
    use FILE --mode none -- true | verify FILE --allow-writes --timeout 0.2 -- true
    verify FILE --allow-writes --session all --timeout 0.2 -- REPLAY
"""
CHANGING = """
    redact FILE --redact-key name | redact FILE --redact-value server | rm FILE --session 1 --force
    edit FILE --editor true | edit FILE --editor EDITOR | merge FILE ORIGINAL -o OUT | merge ORIGINAL FILE -o OUT
    merge FILE FILE -o OUT --force | load LINES -o OUT | load LINES -o FILE --force | use FILE --mode once -- true
    record -o FILE -- true | use FILE --mode new_episodes -- cat
    verify FILE --allow-writes --timeout 0.2 --update -- REPLAY
"""
EDITOR = "sed -i -e s/server/servant/g"


def commands(several: str) -> list[list[str]]:
    return [command.split() for line in several.strip().splitlines() for command in line.split("|")]


# Mutants -----------------------------------------------------------------------------------------------

ODD = (
    "NULL",
    "''",
    "'x'",
    "x''",
    "x'ff00'",
    "0",
    "-1",
    "1e999",
    "1.5",
    "7",
    "9223372036854775807",
    "-9223372036854775808",
    "zeroblob(70000)",
    "'[1, {}, null]'",
    "'null'",
    "char(27, 8238, 0, 10)",
    """'{"jsonrpc":"2.0","id":1,"method":"tools/list"}'""",
    """'{"jsonrpc":"2.0","id":"1","result":{"tools":[7,{"name":[]}]}}'""",
    """'[{"jsonrpc":"2.0","id":1,"result":{}}]'""",
    "'request'",
    "'response'",
    "'notification'",
    "'noise'",
    "'batch'",
    "'control'",
    "'refused'",
    "'retry'",
    "'server'",
    "'client'",
    "'post-1'",
)


def rows(chance: Case, path: Path) -> None:
    """Values of wrong types, missing rows, and duplicate rows."""
    with contextlib.closing(sqlite3.connect(path)) as db:
        for _ in range(chance.randint(1, 4)):
            table = chance.choice(("sessions", "facts", "derived", "derived"))
            columns = [name for _, name, *_ in db.execute(f"PRAGMA table_info({table})")]
            some = chance.choice(("1", f"{columns[0]} % 7 = {chance.randrange(7)}", f"{columns[0]} % 3 = 1"))
            column = chance.choice(columns)
            value = chance.choice(
                [*ODD, f"{column} + 1", f"{column} - 1", f"CAST({column} AS BLOB)", chance.choice(columns)]
            )
            with contextlib.suppress(sqlite3.Error):
                if chance.random() < 0.1:
                    db.execute(f"DELETE FROM {table} WHERE {some}")
                elif chance.random() < 0.05:
                    db.execute(f"DROP INDEX derived_{chance.choice(('key', 'cue', 'answers', 'method'))}")
                else:
                    db.execute(f"UPDATE OR REPLACE {table} SET {column} = {value} WHERE {some}")
        db.commit()


def schema(chance: Case, path: Path) -> None:
    """Another schema for the same pages."""
    with contextlib.closing(sqlite3.connect(path)) as db:
        words = "INTEGER TEXT NOT NULL BLOB elapsed part cue PRIMARY KEY key derived facts WHERE id".split()
        old, new = chance.choice(words), chance.choice([*words, "", "AS (1)", "CHECK (0)", "x", "DEFAULT (1)"])
        with contextlib.suppress(sqlite3.Error):
            db.execute("PRAGMA writable_schema = ON")
            where = f"rowid % 5 = {chance.randrange(5)}"
            db.execute(f"UPDATE sqlite_master SET sql = replace(sql, ?, ?) WHERE {where}", (old, new))
            db.execute(f"UPDATE sqlite_master SET rootpage = rootpage + ? WHERE {where}", (chance.choice((0, 0, 1)),))
            db.commit()


def flips(chance: Case, path: Path) -> None:
    data = bytearray(path.read_bytes())
    for _ in range(chance.randint(1, 12)):
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    path.write_bytes(data)


def pages(chance: Case, path: Path) -> None:
    """A page replaced by another, of this cassette or a different one, or by none."""
    data = bytearray(path.read_bytes())
    other = chance.choice((path, chance.choice(SMALL))).read_bytes()
    source, target = (chance.randrange(len(file) // PAGE) * PAGE for file in (other, data))
    data[target : target + PAGE] = chance.choice((other[source : source + PAGE], bytes(PAGE), chance.randbytes(PAGE)))
    path.write_bytes(data)


def cut(chance: Case, path: Path) -> None:
    data = path.read_bytes()
    at = chance.randrange(len(data))
    path.write_bytes(chance.choice((data[:at], data[: at // PAGE * PAGE], data[at:], data + data[at:])))


def beside(chance: Case, path: Path) -> None:
    """A journal beside it: a killed recorder's, with some bytes changed, or a random one."""
    if chance.random() < 0.5:
        writer = sqlite3.connect(path)
        writer.execute("PRAGMA journal_mode = WAL")
        writer.execute("UPDATE sessions SET note = ?", ("x" * chance.randrange(20_000),))
        writer.commit()
        kept = {end: Path(f"{path}{end}").read_bytes() for end in ("", "-wal")}
        writer.close()
        for end, data in kept.items():
            Path(f"{path}{end}").write_bytes(data)
        Path(f"{path}-shm").unlink(missing_ok=True)
        flips(chance, Path(f"{path}-wal"))
        return
    end = chance.choice(("-wal", "-journal", "-shm"))
    Path(f"{path}{end}").write_bytes(chance.choice((chance.randbytes(700), b"", chance.choice(SMALL).read_bytes())))


def nothing(chance: Case, path: Path) -> None:
    """No change: that must be readable too."""


KINDS: list[Callable[[Case, Path], None]] = [*[rows] * 6, schema, flips, pages, cut, beside, nothing]


# Runs --------------------------------------------------------------------------------------------------


def given(words: list[str], path: Path, original: Path) -> list[str]:
    names = {"FILE": path, "ORIGINAL": original, "OUT": path.with_name("out"), "LINES": path.with_name("lines")}
    replay = [*MCP_TAPE, "replay", "-q", str(original)]
    named = [str(names.get(one, one)) for word in words for one in (replay if word == "REPLAY" else [word])]
    return [
        EDITOR if one == "EDITOR" else re.sub(r"^SELECT\*FROM\((\w+)\)$", r"SELECT * FROM \1", one) for one in named
    ]


def ends_well(words: list[str]) -> str:
    """A description of a command's misbehaviour; empty if there is none."""
    try:
        result = CliRunner().invoke(cli, words)
    except BaseException:
        return traceback.format_exc()
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        return "".join(traceback.format_exception(*(result.exc_info or ())))
    if result.exit_code not in (0, 1, 2, 3, 4) or "Traceback" in result.output:
        return f"exit code {result.exit_code}: {result.output[-2000:]}"
    return ""


def plays_over_http(path: Path, said: list[bytes]) -> str:
    """The same for an HTTP replay, given all client messages."""
    try:
        with Cassette(path) as cassette:
            server = ReplayServer(Stage(cassette, ReplayOptions(), lambda text: None), lambda: None)
            asyncio.run(_asked(server, said))
    except CassetteError:
        return ""
    except BaseException:
        return traceback.format_exc()
    return ""


async def _asked(server: ReplayServer, said: list[bytes]) -> None:
    served, own = InLoop(server), dict[str, str]()
    for body in filter(None, said):
        found = re.search(rb"mcp-session-id: (.*)\r\n", await served.post(body, patience=0.05, **own))
        own = {"mcp_session_id": found[1].decode("latin-1")} if found else own
    await served.end()


def in_a_child(work: Callable[[], str]) -> str:
    """The result of some work in a child process, within limits."""
    out, into = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # about pytest's threads: the child uses none
        child = os.fork()
    if not child:
        _bounded(work, into)
    os.close(into)
    try:
        told = b""
        while select.select([out], [], [], 2 * WAIT)[0] and (data := os.read(out, 1 << 16)):
            told += data
    finally:
        os.close(out)
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    return told.decode() or "it ended without a word: it crashed, or took too long"


def _bounded(work: Callable[[], str], into: int) -> None:
    try:
        if sys.platform == "linux":
            most = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize() + MEMORY
            resource.setrlimit(resource.RLIMIT_AS, (most, most))
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(WAIT)
        os.write(into, (work() or "well").encode("utf-8", "replace"))
    except BaseException:
        os.write(into, traceback.format_exc().encode("utf-8", "replace"))
    finally:
        os._exit(0)


def requests_of(path: Path) -> bytes:
    """All client messages of a cassette, and some more."""
    with contextlib.closing(sqlite3.connect(path)) as db:
        said = db.execute(
            "SELECT CAST(text AS BLOB) FROM frames WHERE sender = 'client' AND kind IN ('message', 'batch')"
        )
        lines = [bytes(text) for (text,) in said]
    more = b'{"jsonrpc":"2.0","id":"new","method":"tools/call","params":{"name":"none","arguments":{"a":1}}}'
    return b"".join(line + b"\n" for line in [*lines, *(line.replace(b":", b" :") for line in lines), more])


def run_all(case: Case, folder: Path) -> str:
    """Make a mutant and run some commands on it; return the misbehaviour."""
    original, path = case.choice(SMALL), folder / "tape.db"
    (folder / "temporary").mkdir()
    (folder / "home").mkdir()
    os.environ.update(TMPDIR=str(folder / "temporary"), HOME=str(folder / "home"))
    tempfile.tempdir = None
    os.chdir(folder)
    (folder / "input").write_bytes(requests_of(original))
    lines = CliRunner().invoke(cli, ["convert", str(original)]).stdout_bytes
    (folder / "lines").write_bytes(lines)
    shutil.copy(original, path)
    kinds = [case.choice(KINDS) for _ in range(case.choice((1, 1, 2)))]
    for kind in kinds:
        with contextlib.suppress(sqlite3.Error, IndexError, ValueError):  # the file may be invalid by now
            kind(case, path)
    if case.random() < 0.3:
        flips(case, folder / "lines")
    before = {*os.listdir(folder), "out", "tape.db-wal", "tape.db-shm", "tape.db.new"}
    for words in [*case.choices(commands(READING), k=EACH - 1), case.choice(commands(CHANGING))]:
        with open(folder / "input", "rb") as source, open(folder / "home" / "output", "wb") as target:
            os.dup2(source.fileno(), 0)
            for number in (1, 2):
                os.dup2(target.fileno(), number)
        wrong = ends_well(given(words, path, original))
        output = (folder / "home" / "output").read_bytes()
        wrong += output.decode("utf-8", "replace") if b"Traceback" in output else ""
        left = {*os.listdir(folder)} - before
        temporary = os.listdir(folder / "temporary") if words[0] != "edit" else []
        if wrong or left or temporary:
            how = f"case {case.number}: {[kind.__name__ for kind in kinds]} of {original.stem}, {' '.join(words)}"
            return f"{how}\nleft: {sorted(left)} {temporary}\n{wrong}"
    wrong = plays_over_http(path, (folder / "input").read_bytes().splitlines())
    how = f"case {case.number}: {[kind.__name__ for kind in kinds]} of {original.stem}, over HTTP"
    return f"{how}\n{wrong}" if wrong else ""


@pytest.fixture(scope="module")
def loaded() -> None:
    """Load all modules, so that children need not load them."""
    for module in pkgutil.walk_packages(mcp_tape.__path__, "mcp_tape."):
        last = module.name.rpartition(".")[2]
        if last not in ("__main__", "fast", "sdk", "memory", "server", "client") and not last.startswith("windows_"):
            importlib.import_module(module.name)


@pytest.mark.slow
@pytest.mark.usefixtures("loaded")
def test_every_command_ends_with_an_exit_code_on_a_mutant(tmp_path: Path) -> None:
    wrong = []
    for case in fuzzing.cases(30):
        folder = tmp_path / str(case.number)
        folder.mkdir()
        told = in_a_child(lambda case=case, folder=folder: run_all(case, folder))  # type: ignore[misc]
        if told != "well":
            wrong.append(told if "case" in told else f"case {case.number}: {told}")
            print(wrong[-1], flush=True)
        shutil.rmtree(folder)
    assert not wrong, "\n\n".join(wrong)

"""SQLite's files beside a cassette: those of a killed command are applied, and untrusted ones lead nowhere."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from mcp_tape import api
from mcp_tape.cassette import file, writer
from mcp_tape.cassette.change import remove, replace_sessions
from mcp_tape.cassette.change.write_access import connect_for_changes
from mcp_tape.cassette.reader import Cassette
from mcp_tape.cassette.text import write as _write  # noqa: F401  (loaded here, as another user may not be able to)
from mcp_tape.cli import cli
from mcp_tape.cli.commands.ls import _list_all as list_all
from mcp_tape.errors import CassetteError
from mcp_tape.formats import sheet
from mcp_tape.modes import can_play
from mcp_tape.verify.update import forget as _forget  # noqa: F401
from tests.support.decks import make_cassette
from tests.support.running import ECHO, MCP_TAPE, as_another_user, record, run

ASKED = '{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"add"}}'
TOLD = '{"jsonrpc":"2.0","id":%d,"result":{"content":[]}}'
MAGIC = bytes.fromhex("d9d505f920a163d7")
CHANGE = "UPDATE facts SET text = 'changed by somebody who was killed'"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cassette of several pages."""
    said = [("client", ASKED % n) if side else ("server", TOLD % n) for n in range(150) for side in (True, False)]
    return make_cassette(tmp_path_factory.mktemp("made") / "tape.db", said)


@pytest.fixture
def tape(made: Path, tmp_path: Path) -> Path:
    """A copy of it, in its own directory."""
    place = tmp_path / "here"
    place.mkdir()
    return Path(shutil.copy(made, place))


def interrupt(tape: Path, *statements: str) -> None:
    """Leave a cassette as a command killed during its commit does: some pages are changed, the journal is hot."""
    before = tape.read_bytes() if tape.exists() else b""
    with closing(sqlite3.connect(tape, isolation_level=None)) as db:
        db.execute("PRAGMA cache_size = 1")  # write pages before the commit
        db.execute("BEGIN IMMEDIATE")
        for statement in statements:
            db.execute(statement)
        left = {ending: Path(f"{tape}{ending}").read_bytes() for ending in ("", "-journal")}
        db.execute("ROLLBACK")
    assert left[""] != before and left["-journal"][:8] == MAGIC
    for ending, data in left.items():
        Path(f"{tape}{ending}").write_bytes(data)


def name_super_journal(tape: Path, name: str) -> None:
    """Append the name of a super-journal to the cassette's journal, as in the file format."""
    raw = os.fsencode(name)
    with open(f"{tape}-journal", "ab") as journal:
        journal.write(b"\0\0\0\1" + raw + len(raw).to_bytes(4, "big") + sum(raw).to_bytes(4, "big") + MAGIC)


def say_wal(tape: Path) -> None:
    data = tape.read_bytes()
    tape.write_bytes(data[:18] + b"\2\2" + data[20:])


def texts(tape: Path) -> set[bytes]:
    with Cassette(tape) as cassette:
        return {frame.text for frame in cassette.frames(1)}


def files(place: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in place.iterdir()}


# The journal of a killed command ------------------------------------------------------------------------


@pytest.mark.parametrize("header", ["rollback", "wal"])
def test_the_next_reader_rolls_back_a_leftover_journal(tape: Path, header: str) -> None:
    before = tape.read_bytes()
    interrupt(tape, "CREATE TABLE new (x)", CHANGE)
    if header == "wal":  # a kill while switching to WAL leaves both
        say_wal(tape)
    assert b"changed" not in b"".join(texts(tape))
    assert files(tape.parent) == {"tape.db": before}


COMMANDS = [
    ["ls"], ["show"], ["stats"], ["convert", "--to", "txt"], ["convert"], ["check"], ["query", "select 1"],
    ["search", "add"], ["redact"], ["rm", "--session", "1"],
]  # fmt: skip


@pytest.mark.slow(quick=3)
@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_every_command_opens_the_leftovers_of_a_killed_one(tape: Path, command: list[str]) -> None:
    interrupt(tape, CHANGE)
    with suppress(SystemExit):
        cli([command[0], str(tape), *command[1:]], standalone_mode=False)
    assert not Path(f"{tape}-journal").exists()


def test_replay_opens_the_leftovers_of_a_killed_edit(tape: Path) -> None:
    interrupt(tape, CHANGE)
    done = run([*MCP_TAPE, "replay", str(tape)], (ASKED % 7).encode() + b"\n")
    assert (done.returncode, done.stdout) == (0, (TOLD % 7).encode() + b"\n")


@pytest.fixture
def public() -> Iterator[Path]:
    """A directory that every user may enter; pytest's own are private."""
    with tempfile.TemporaryDirectory() as place:
        os.chmod(place, 0o755)
        yield Path(place)


def test_without_write_permission_the_journal_is_rolled_back_in_a_copy(made: Path, public: Path) -> None:
    tape = Path(shutil.copy(made, public))
    interrupt(tape, CHANGE)
    before = files(public)
    public.chmod(0o555)
    printed = as_another_user(lambda: cli(["show", str(tape)], standalone_mode=False))
    assert "tools/call" in printed and "killed" not in printed
    assert files(public) == before


def test_a_link_to_a_cassette_is_put_in_order_where_the_cassette_is(tape: Path, tmp_path: Path) -> None:
    interrupt(tape, CHANGE)
    link = tmp_path / "link.db"
    link.symlink_to(tape)
    assert b"changed" not in b"".join(texts(link))
    assert os.listdir(tape.parent) == ["tape.db"]


def interrupt_the_first(made: Path, tape: Path) -> None:
    """Leave a cassette as a recorder killed at its first commit does: tables are written, the journal is empty."""
    header = MAGIC + bytes(4) + b"nonc" + bytes(4) + (512).to_bytes(4, "big") + (4096).to_bytes(4, "big")
    tape.write_bytes(made.read_bytes()[: 3 * 4096])
    Path(f"{tape}-journal").write_bytes(header.ljust(512, b"\0"))


def test_a_recorder_that_was_killed_while_it_made_the_tables_leaves_an_empty_file(made: Path, tmp_path: Path) -> None:
    tape = tmp_path / "tape.db"
    interrupt_the_first(made, tape)
    assert not can_play(str(tape))
    assert files(tmp_path) == {"tape.db": b""}
    interrupt_the_first(made, tape)
    with pytest.raises(CassetteError, match="is empty; record into it with"):
        Cassette(tape)
    interrupt_the_first(made, tape)
    assert not list_all(str(tmp_path), [str(tape)], False)
    interrupt_the_first(made, tape)
    assert run(record(tape, ECHO, "-q"), b"{}\n").stderr == b""
    assert b"{}" in texts(tape)


def test_an_edit_writes_one_file_only(tape: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two files would need a super-journal."""
    seen: list[str] = []
    take_over = replace_sessions.take_over

    def watched(db: sqlite3.Connection, session: int, number: int) -> None:
        take_over(db, session, number)
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            db.execute("DELETE FROM new.facts")
        seen.append("taken over")

    monkeypatch.setattr(replace_sessions, "take_over", watched)
    with open(tape.parent / "sheet", "w+") as text:
        written = sheet.write(str(tape), 1, text)
        text.seek(0)
        sheet.put_back(str(tape), written, text.read().replace('"add"', '"sum"').splitlines(keepends=True))
    assert seen == ["taken over"]
    assert any(b'"sum"' in text for text in texts(tape))


# Untrusted journals -------------------------------------------------------------------------------------


def read(tape: Path) -> None:
    Cassette(tape)


def write(tape: Path) -> None:
    writer.Writer(str(tape))


def change(tape: Path) -> None:
    with connect_for_changes(str(tape)) as db:
        db.execute(CHANGE)


def look_before_recording(tape: Path) -> None:
    api.check_writable(str(tape))


OPENERS: list[Callable[[Path], None]] = [read, write, change, look_before_recording]


def refused(tape: Path, opener: Callable[[Path], None], says: str) -> None:
    before = files(tape.parent)
    with pytest.raises(CassetteError, match=says):
        opener(tape)
    file.tidy(str(tape))
    assert files(tape.parent) == before


@pytest.mark.parametrize("header", ["rollback", "wal"])
@pytest.mark.parametrize(
    "name", ["{}/mine.py", "here/mine.py", "{}/tape.db-mj0123456789", "{}/tape.db-mjABCDEF901/../mine.py"]
)
def test_a_journal_that_names_another_file_is_refused(
    tape: Path, monkeypatch: pytest.MonkeyPatch, name: str, header: str
) -> None:
    monkeypatch.chdir(tape.parent.parent)
    interrupt(tape, CHANGE)
    name_super_journal(tape, name.format(tape.parent))
    if header == "wal":
        say_wal(tape)
    for mine in ("mine.py", "tape.db-mj0123456789"):
        (tape.parent / mine).write_text("my work")
    for opener in OPENERS:
        refused(tape, opener, "would have SQLite delete another file, .*(mine.py|6789)")


def test_a_journal_that_is_not_hot_may_not_name_another_file_either(tape: Path) -> None:
    """SQLite would use the name when it rolls back our own transaction."""
    mine = tape.parent / "mine.py"
    mine.write_text("my work")
    Path(f"{tape}-journal").write_bytes(bytes(1 << 20))
    name_super_journal(tape, str(mine))
    for opener in OPENERS:
        refused(tape, opener, "would have SQLite delete another file")


def test_a_list_of_cassettes_goes_on_behind_one_that_is_refused(tape: Path, tmp_path: Path) -> None:
    interrupt(tape, CHANGE)
    mine = tmp_path / "mine.py"
    mine.write_text("my work")
    name_super_journal(tape, str(mine))
    shutil.copy(make_cassette(tmp_path / "other.db", [("client", ASKED % 1)]), tape.parent / "zzz.db")
    done = run([*MCP_TAPE, "ls"], cwd=tmp_path)
    assert done.returncode == 3
    assert b"here/zzz.db" in done.stdout and b"other.db" in done.stdout
    assert b"was not opened" in done.stderr and b"Traceback" not in done.stderr
    assert mine.read_text() == "my work"


@pytest.mark.parametrize("header", ["rollback", "wal"])
def test_a_super_journal_of_the_cassettes_own_is_rolled_back(tape: Path, header: str) -> None:
    interrupt(tape, CHANGE)
    own = f"{tape}-mj01AB23945"
    name_super_journal(tape, own)
    Path(own).write_bytes(os.fsencode(f"{tape}-journal\0{tape.parent}/new.db-journal\0"))
    if header == "wal":
        say_wal(tape)
    assert b"changed" not in b"".join(texts(tape))
    assert os.listdir(tape.parent) == ["tape.db"]


def test_a_super_journal_that_lists_more_than_ours_ever_do_is_refused(tape: Path) -> None:
    interrupt(tape, CHANGE)
    own = f"{tape}-mj01AB23945"
    name_super_journal(tape, own)
    Path(own).write_bytes(os.fsencode(f"{tape}-journal\0") * 10_000)
    with pytest.raises(CassetteError, match="lists more journals"):
        texts(tape)
    assert Path(own).exists()


@pytest.mark.parametrize("ending", ["-journal", "-wal", "-shm"])
@pytest.mark.parametrize("make", [os.link, os.symlink, lambda _, name: os.mkfifo(name)], ids=["hard", "soft", "pipe"])
@pytest.mark.parametrize("header", ["rollback", "wal"])
def test_files_beside_a_cassette_may_not_lead_to_others(
    tape: Path, tmp_path: Path, ending: str, make: Callable[[Path, str], None], header: str
) -> None:
    mine = tmp_path / "mine.py"
    mine.write_text("my work")
    make(mine, f"{tape}{ending}")
    if header == "wal":
        say_wal(tape)
    for opener in OPENERS:
        with pytest.raises(CassetteError, match=r"was not opened: beside it, .*nothing was touched"):
            opener(tape)
    file.tidy(str(tape))
    assert mine.read_text() == "my work"


def test_there_is_one_way_to_open_a_file(request: pytest.FixtureRequest) -> None:
    """The guarded one."""
    package = request.config.rootpath / "mcp_tape"
    opening = re.compile(r"sqlite3\.connect\((?!\":memory:\")|sqlite3 import .*\bconnect\b|\bDatabase\((?!db\b)")
    assert [path.name for path in package.rglob("*.py") if opening.search(path.read_text())] == ["file.py"]


def test_a_name_that_a_url_would_read_otherwise_is_opened(tmp_path: Path) -> None:
    place = tmp_path / os.fsdecode(b"50% of #1? & \xc3\xa9\xff")
    place.mkdir()
    tape = make_cassette(place / "ta pe.db", [("client", ASKED % 1)])
    assert texts(tape) == {(ASKED % 1).encode()} == texts(Path(f"/{tape}"))
    remove.remove(str(tape), [1])
    assert os.listdir(place) == ["ta pe.db"]

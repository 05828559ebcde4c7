"""mcp-tape query: read-only SQL, printed as a table, CSV or JSON."""

from __future__ import annotations

import base64
import contextlib
import csv
import io
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from mcp_tape.cassette import schema
from mcp_tape.cassette.query.sql import ask
from mcp_tape.cassette.reader import Cassette
from tests.support import provision
from tests.support.docs import BLOCK, FORMAT, ROOT
from tests.support.reading import Frames, call, invoke, lines, make, said
from tests.support.running import MCP_TAPE, WAIT, receive, run, started

SQL = [block["text"] for block in BLOCK.finditer(FORMAT) if block["language"] == "sql"]
ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "


def talk() -> Frames:
    frames = Frames().client(call(1, "add", a=1)).server(said(1, "two\x1b[31m"))
    frames.client(call(2, "find", text="東京" * 3)).server(said(2, "x" * 500, isError=True))
    return frames.add("server", b"\xff\x00", kind="noise")


@pytest.fixture(scope="module")
def tape(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("query") / "tape.db", talk())


@pytest.mark.slow
def test_a_table_has_names_a_rule_and_aligned_columns(tape: Path) -> None:
    assert lines("query", tape, "SELECT seq, tool, status, NULL AS never FROM tool_calls") == [
        "seq  tool  status      never",
        "---  ----  ----------  -----",
        "  1  add   ok",
        "  3  find  tool-error",
    ]


@pytest.mark.slow
def test_a_table_is_fitted_to_its_place_and_cuts_the_long_columns(tape: Path) -> None:
    shown = lines("query", tape, "SELECT seq, request, response FROM exchanges")
    assert 190 < max(map(len, shown)) <= 200
    assert shown[3].endswith("…") and len(shown) == 4


def test_wide_characters_keep_the_columns_apart(tape: Path) -> None:
    shown = lines("query", tape, "SELECT arguments, 'end' AS e FROM tool_calls")
    assert shown[3].startswith('{"text":"東京東京東京"}  end')
    assert shown[2].startswith('{"a":1}                  end')


def test_no_rows_are_an_empty_table_and_an_empty_array(tape: Path) -> None:
    sql = "SELECT seq, text FROM stderr"
    assert lines("query", tape, sql) == ["seq  text", "---  ----"]
    assert lines("query", tape, sql, "--json") == ["[]"]
    assert lines("query", tape, sql, "--nl") == []
    assert lines("query", tape, sql, "--csv") == ["seq,text"]


def test_json_is_one_array_and_nl_one_object_a_line(tape: Path) -> None:
    sql = "SELECT seq, key, arguments FROM tool_calls JOIN messages USING (session, seq) ORDER BY seq"
    result = invoke("query", tape, sql, "--json")
    found = json.loads(result.stdout)
    assert [json.loads(line) for line in lines("query", tape, sql, "--nl")] == found
    assert [row["seq"] for row in found] == [1, 3]
    key = found[0]["key"]
    assert key["$base64"] is True and len(base64.b64decode(key["encoded"])) == 16


def test_columns_with_the_same_name_are_distinct_in_json(tape: Path) -> None:
    assert lines("query", tape, "SELECT 1 AS a, 2 AS a, 3 AS a", "--nl") == ['{"a":1,"a_2":2,"a_3":3}']


def test_csv_can_be_read_back(tape: Path) -> None:
    result = invoke("query", tape, "SELECT seq, text FROM frames ORDER BY seq LIMIT 4", "--csv")
    names, *rows = csv.reader(io.StringIO(result.stdout))
    assert names == ["seq", "text"]
    assert [text.encode() for _, text in rows] == [frame.text for frame in talk()[:4]]


def test_line_breaks_in_csv_are_within_quotes(tape: Path) -> None:
    sql = "SELECT 'l1' || char(10) || 'l2' AS c, 'x' || char(13) || 'y' AS d"
    assert invoke("query", tape, sql, "--csv").stdout_bytes == b'c,d\n"l1\nl2","x\ry"\n'


def test_bytes_and_control_characters_are_shown_harmlessly(tape: Path) -> None:
    sql = "SELECT data, char(27) || 'x' || char(155) AS c FROM frames WHERE kind = 'noise'"
    assert lines("query", tape, sql)[2] == "<2 bytes>  ·x·"
    for form in ("--json", "--nl"):
        assert "\x1b" not in invoke("query", tape, sql, form).stdout


def test_a_name_of_a_column_is_harmless_too(tape: Path) -> None:
    assert lines("query", tape, 'SELECT 1 AS "a\x1b[31m"')[0] == "a·[31m"


def test_parameters_are_given_by_name(tape: Path) -> None:
    sql = "SELECT seq FROM tool_calls WHERE tool = :tool AND seq > :least"
    assert lines("query", tape, sql, "-p", "tool", "find", "-p", "least", "1", "--nl") == ['{"seq":3}']


@pytest.mark.parametrize(
    ("place", "column"),
    [
        *(("frames", name) for name in ("session", "seq")),
        *(("messages", name) for name in ("frame", "session", "seq", "answers", "exchange", "cue")),
        ("exchanges", "answer_seq"),
    ],
)
def test_a_number_that_a_view_makes_is_compared_as_one(tape: Path, place: str, column: str) -> None:
    sql = f"SELECT DISTINCT {column} AS n FROM {place} WHERE {column} = :n"
    (found, *_) = lines("query", tape, f"SELECT max({column}) AS n FROM {place}", "--nl")
    assert lines("query", tape, sql, "-p", "n", str(json.loads(found)["n"]), "--nl") == [found]


def test_the_query_may_come_from_stdin(tape: Path) -> None:
    result = invoke("query", tape, "-", "--nl", input="SELECT count(*) AS n\nFROM frames;\n")
    assert result.stdout == '{"n":5}\n'


@pytest.mark.parametrize(
    ("sql", "hint"),
    [
        ("DELETE FROM facts", "can only read"),
        ("DELETE FROM messages", "can only read"),
        ("INSERT INTO facts (id) VALUES (9) RETURNING id", "can only read"),
        ("CREATE TEMP TABLE x (a)", "can only read"),
        ("DROP VIEW tool_calls", "can only read"),
        ("ATTACH '{out}' AS other", "can only read"),
        ("VACUUM INTO '{out}'", "can only read"),
        ("PRAGMA query_only = OFF", "can only read"),
        ("PRAGMA user_version = 7", "can only read"),
        ("PRAGMA trusted_schema = ON", "can only read"),
        ("PRAGMA journal_mode = WAL", "can only read"),
        ("BEGIN", "can only read"),
        ("SELECT load_extension('x')", "can only read"),
        ("SELECT 1; SELECT 2", "more than one statement"),
        ("SELECT :x", "-p NAME VALUE"),
        ("SELEC 1", "syntax error"),
        ("SELECT * FROM nowhere", "no such table: nowhere"),
        ("", "gives no rows"),
        ("/* only a remark */", "gives no rows"),
    ],
)
def test_statements_that_write_or_cannot_run_are_refused(tape: Path, tmp_path: Path, sql: str, hint: str) -> None:
    before = tape.read_bytes()
    result = invoke("query", tape, sql.format(out=tmp_path / "out.db"))
    assert (result.exit_code, result.stdout) == (2, "")
    assert hint in result.stderr
    assert tape.read_bytes() == before
    assert os.listdir(tmp_path) == []
    assert os.listdir(tape.parent) == ["tape.db"]


@pytest.mark.parametrize("sql", ["PRAGMA table_info(frames)", "SELECT * FROM pragma_table_info('frames')"])
def test_the_schema_can_be_asked_for(tape: Path, sql: str) -> None:
    assert len(lines("query", tape, sql, "--nl")) == 12


@pytest.mark.parametrize("sql", SQL)
def test_the_documented_queries_give_the_same_as_the_plain_database(tape: Path, sql: str) -> None:
    with contextlib.closing(sqlite3.connect(tape)) as db, Cassette(tape) as cassette:
        assert list(ask(cassette.database, cassette.path, sql).rows) == db.execute(sql).fetchall()


def test_a_strangers_views_do_not_run(tape: Path, tmp_path: Path) -> None:
    strange = tmp_path / "strange.db"
    shutil.copy(tape, strange)
    with contextlib.closing(sqlite3.connect(strange)) as db:
        db.execute("DROP VIEW tool_calls")
        db.execute("CREATE VIEW tool_calls AS SELECT 'bad' AS tool")
        db.execute("CREATE VIEW mine AS SELECT json_extract(target, '$.command') AS c FROM sessions")
    assert lines("query", strange, "SELECT tool FROM tool_calls", "--nl") == ['{"tool":"add"}', '{"tool":"find"}']
    assert not unsafe("SELECT * FROM mine", strange) or invoke("query", strange, "SELECT * FROM mine").exit_code == 2


def unsafe(sql: str, tape: Path) -> bool:
    """Whether this version of SQLite considers JSON functions unsafe in views."""
    with contextlib.closing(sqlite3.connect(tape)) as db:
        db.execute("PRAGMA trusted_schema = OFF")
        try:
            db.execute(sql)
        except sqlite3.OperationalError:
            return True
    return False


def test_our_own_views_are_all_made_for_the_connection(tape: Path) -> None:
    with Cassette(tape) as cassette:
        found = ask(cassette.database, cassette.path, "SELECT name FROM sqlite_temp_master WHERE type = 'view'")
        views = {"frames", "messages", "exchanges", "tool_calls", "notifications", "stderr"}
        assert {name for (name,) in found.rows} == views
    assert schema.SCHEMA.count("CREATE VIEW") == len(views)


@pytest.mark.slow
def test_a_reader_that_has_seen_enough_ends_an_endless_query(tape: Path) -> None:
    command = [*MCP_TAPE, "query", str(tape), f"{ENDLESS} SELECT i FROM n", "--nl"]
    with started(command) as process:
        assert process.stdout and process.stderr
        assert receive(process.stdout, 8) == b'{"i":1}\n'
        process.stdout.close()
        assert process.wait(WAIT) == 0
        assert process.stderr.read() == b""


@pytest.mark.slow
def test_an_endless_query_can_be_interrupted(tape: Path) -> None:
    sql = f"{ENDLESS} SELECT 1 AS a UNION ALL SELECT 2 UNION ALL SELECT count(*) FROM n"
    command = [*MCP_TAPE, "query", str(tape), sql, "--nl"]
    with started(command) as process:
        assert process.stdout and process.stderr
        assert receive(process.stdout, 8) == b'{"a":1}\n'  # the query is running
        process.send_signal(signal.SIGINT)
        assert process.wait(WAIT) == 130
        assert process.stderr.read() == b""


@pytest.mark.slow(quick=2)
@pytest.mark.parametrize(
    ("words", "number"), [(["tables", "--counts"], 3), (["views"], 6), (["query", "SELECT * FROM tool_calls"], 2)]
)
def test_sqlite_utils_works_on_an_unchanged_cassette(tape: Path, words: list[str], number: int) -> None:
    command = [sys.executable, "-m", "sqlite_utils", words[0], str(tape), *words[1:]]
    done = subprocess.run(command, capture_output=True, timeout=WAIT, check=True)
    assert len(json.loads(done.stdout)) == number


@pytest.mark.slow
@pytest.mark.parametrize(
    ("place", "shown"),
    [
        ("/tape/tool_calls.json?_shape=array&_col=tool", "forecast"),
        ("/tape/exchanges.json?_shape=array", "initialize"),
        ("/tape/messages.json?_shape=array&_size=3", "notifications/initialized"),
        ("/tape.json?sql=select+method+from+notifications&_shape=array", "notifications/progress"),
    ],
    ids=lambda value: value.partition("?")[0],
)
def test_datasette_works_on_an_unchanged_cassette(tmp_path: Path, place: str, shown: str) -> None:
    shutil.copy(ROOT / "cassettes" / "demo.db", tmp_path / "tape.db")
    datasette = [str(provision.venv("datasette>=0.64,<1", "setuptools<81")), "-W", "ignore", "-m", "datasette"]
    done = run([*datasette, "tape.db", "--get", place], cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert shown in done.stdout.decode()
    assert os.listdir(tmp_path) == ["tape.db"]


def test_sqlite_utils_is_not_imported_to_look_at_a_cassette(tape: Path) -> None:
    done = run([sys.executable, "-X", "importtime", "-m", "mcp_tape", "search", str(tape), "add"])
    assert b"sqlite3" in done.stderr and b"sqlite_utils" not in done.stderr


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "plain", "'=1", ""])
def test_csv_is_as_it_was_and_for_a_spreadsheet_without_formulas(tape: Path, text: str) -> None:
    inert = f"'{text}" if text[:1] in tuple("=+-@\t\r") and text else text
    for form, expected in (("--csv", text), ("--spreadsheet", inert)):
        result = invoke("query", tape, "SELECT :t AS '=a', -1", "-p", "t", text, form)
        names, row = csv.reader(io.StringIO(result.stdout_bytes.decode(), newline=""))
        assert row == [expected, "-1"] and names[0].endswith("=a")


def test_a_cassette_is_a_database_of_sqlite_utils_that_can_only_read(tape: Path) -> None:
    with Cassette(tape) as cassette:
        database = cassette.database
        assert [row["tool"] for row in database["tool_calls"].rows_where("status != ?", ["ok"])] == ["find"]
        assert database["messages"].count == 5 and "rpc_id" in database["messages"].columns_dict
        with pytest.raises(sqlite3.DatabaseError, match=r"not authorized|readonly"):
            database["sessions"].delete_where()
        assert cassette.database is database
        assert len(list(cassette.frames(1))) == 5  # invalid UTF-8 is still read as bytes
    with pytest.raises(sqlite3.ProgrammingError):
        database.execute("SELECT 1")

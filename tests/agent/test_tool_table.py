"""Each tool reports the same as its command: on golden, large, broken and old cassettes, and while recording."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from mcp_tape.agent.paging import ROOM, ToolAnswer, ToolError, words_of
from mcp_tape.agent.places import ReadableCassettes, ToolCall
from mcp_tape.agent.tool_table import TOOLS
from mcp_tape.cassette.query.sql import QueryError, ask
from mcp_tape.cassette.query.word_search import SearchError
from mcp_tape.cassette.reader import Cassette
from mcp_tape.cassette.text.safe_lines import escape_control_characters
from mcp_tape.compare.report import render
from mcp_tape.compare.versions import compare, recorded_version
from mcp_tape.errors import CassetteError, TapeError
from tests.support.agents import answer, next_of, pages, text_of
from tests.support.golden import CASSETTES, GOLDEN, path_of
from tests.support.reading import Frames, Recording, call, invoke, lines, make, objects, said

MANY = 3_000


def values(found: ToolAnswer, name: str) -> list[dict[str, Any]]:
    assert found.structured is not None
    return list(found.structured[name])


def all_values(tool: str, name: str, *places: object, **arguments: Any) -> list[dict[str, Any]]:
    """The members of all answers; each answer is bounded and fits its schema."""
    schema = Draft202012Validator(TOOLS[tool].gives or {})
    found = []
    for one in pages(tool, *places, **arguments):
        schema.validate(one.structured)
        assert len(text_of(one).encode()) <= ROOM
        assert len(json.dumps(one.structured, ensure_ascii=False, separators=(",", ":")).encode()) <= ROOM + 100
        found += values(one, name)
    return found


@pytest.fixture(scope="module")
def huge(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Many calls, one with an answer of several megabytes, a batch with many messages, and much on stderr."""
    frames = Frames()
    for number in range(MANY):
        frames.client(call(number, "find", word=f"w{number}")).server(said(number, f"found w{number} " + "é" * 200))
    frames.client(call("big", "dump")).server(said("big", "😀\n" * 1_000_000))
    batch = b"[" + b",".join(call(f"b{number}", "find", word="of a batch") for number in range(300)) + b"]"
    frames.client(batch, kind="batch")
    for number in range(1_200):
        frames.stderr(f"line {number}\n")
    return make(tmp_path_factory.mktemp("huge") / "huge.db", frames)


# Golden cassettes ---------------------------------------------------------------------------------------


@pytest.mark.slow(quick=5)
@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_sessions_and_messages_are_those_of_ls_and_show(path: Path) -> None:
    listed = objects("ls", path)
    sessions = all_values("list_sessions", "sessions", path)
    same = ("id", "started_at", "ended_at", "exchanges", "open", "errors", "protocol_version", "transport")
    assert [{name: one[name] for name in same} for one in sessions] == [
        {name: one[name] for name in same} for one in listed
    ]
    for session in sessions:
        shown = objects("show", path, "--session", session["id"])
        found = all_values("show_session", "messages", path, session=session["id"], all=True)
        same = ("session", "seq", "sender", "kind", "id", "status", "size", "odd", "exchange")
        assert [{name: one[name] for name in same} for one in found] == [
            {name: one[name] for name in same} for one in shown
        ]


@pytest.mark.slow(quick=3)
@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_every_exchange_is_whole(path: Path) -> None:
    """Each message of `show FILE SEQ --json` is in the text, formatted."""
    for row in objects("show", path):
        if row["kind"] != "request":
            continue
        text = "".join(map(text_of, pages("show_exchange", path, seq=row["seq"])))
        for each in objects("show", path, row["seq"]):
            assert f"{each['session']}.{each['seq']} · " in text
            if each["kind"] in ("request", "response", "stderr", "noise"):
                assert unspaced(each["text"]) in unspaced(text)


def unspaced(text: str) -> str:
    return re.sub(r"\s", "", escape_control_characters(text))


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_figures_are_those_of_stats(path: Path) -> None:
    assert all_values("stats", "calls", path) == objects("stats", path)


@pytest.mark.parametrize("filter", ["status:error", "kind:request tool:*", "-from:client", "session:1..9", "Bern"])
@pytest.mark.slow
def test_a_filter_keeps_the_same_messages_as_in_show(filter: str) -> None:  # noqa: A002
    for path in GOLDEN:
        done = invoke("show", path, "--filter", filter, "--json")
        shown = [json.loads(line)["seq"] for line in done.stdout.splitlines()]
        assert [one["seq"] for one in all_values("show_session", "messages", path, filter=filter, all=True)] == shown


@pytest.mark.parametrize(("name", "words"), [("demo", "Bern"), ("everything", "echo mess*"), ("git", "commit")])
def test_search_finds_the_same_as_the_command(name: str, words: str) -> None:
    found = all_values("search", "messages", path_of(name), words=words)
    assert [(one["session"], one["seq"]) for one in found] == [
        (one["session"], one["seq"]) for one in objects("search", path_of(name), words)
    ]


def test_without_a_file_search_and_stats_read_all_cassettes(tmp_path: Path) -> None:
    for name in ("demo", "everything", "git"):
        shutil.copy(path_of(name), tmp_path)
    (tmp_path / "broken.db").write_bytes(path_of("demo").read_bytes()[:5000])
    each = [
        (name, one["session"], one["seq"])
        for name in ("demo", "everything", "git")
        for one in objects("search", path_of(name), "result*")
    ]
    found = all_values("search", "messages", tmp_path, words="result*")
    assert [(Path(one["file"]).stem, one["session"], one["seq"]) for one in found] == each and len(each) > 1
    figures = all_values("stats", "calls", tmp_path)
    assert sum(one["calls"] for one in figures) == sum(
        one["calls"] for name in ("demo", "everything", "git") for one in objects("stats", path_of(name))
    )
    for tool, arguments in (("search", {"words": "result*"}), ("stats", {})):
        told = answer(tool, tmp_path, **arguments)
        assert told.structured is not None and f"[Not read: {tmp_path}/broken.db: cannot read" in told.text
        assert [one.partition(": ")[0] for one in told.structured["unread"]] == [f"{tmp_path}/broken.db"]
        with pytest.raises(ToolError, match="there are several cassettes: name one"):
            answer(tool, tmp_path, **arguments, session=1)


@pytest.mark.slow
def test_cassettes_that_are_not_read_count_for_the_room_of_an_answer(tmp_path: Path, huge: Path) -> None:
    """Cassettes before and after the point where the answer is full."""
    place = tmp_path.joinpath(*["d" * 100] * 3)
    place.mkdir(parents=True)
    shutil.copy(huge, place / "a.db")
    for name in ("V", "W", "X", "Y", "Z", "b", "c"):
        (place / f"{name}.db").write_bytes(path_of("demo").read_bytes()[:5000])
    found = all_values("search", "messages", place, words="w12*")
    assert len(found) == len(objects("search", place / "a.db", "w12*"))
    assert len(all_values("stats", "calls", place)) == len(objects("stats", place / "a.db"))


@pytest.mark.slow
def test_the_pages_of_a_search_on_several_cassettes_go_on_where_the_last_one_ended(tmp_path: Path, huge: Path) -> None:
    for name in ("a.db", "b.db"):
        shutil.copy(huge, tmp_path / name)
    found = all_values("search", "messages", tmp_path, words="w12*")
    assert len(found) == len({(one["file"], one["seq"]) for one in found}) == 2 * len(objects("search", huge, "w12*"))


@pytest.mark.slow
def test_diff_is_that_of_the_command() -> None:
    old, new = path_of("time"), path_of("git")
    shown = invoke("diff", old, new, "--fail-on", "never").stdout
    assert "".join(map(text_of, pages("diff", CASSETTES, old=str(old), new=str(new)))) == shown
    with Cassette(old) as one, Cassette(new) as other:
        surface = render(compare(recorded_version(one), recorded_version(other), parts=("surface",)), "json")
    found = pages("diff", CASSETTES, old=f"{old}#1", new=f"{new}#1", part="surface", format="json")
    assert json.loads("".join(map(text_of, found))) == json.loads(surface)


@pytest.mark.slow
def test_query_gives_the_rows_of_the_command() -> None:
    sql = "SELECT seq, tool, error, arguments FROM tool_calls WHERE tool <> :t"
    (shown,) = objects("query", path_of("demo"), sql, "-p", "t", "forecast")
    assert all_values("query", "rows", path_of("demo"), sql=sql, params={"t": "forecast"}) == shown


def test_a_session_that_is_not_there_is_named_and_a_frame_too() -> None:
    with pytest.raises(CassetteError, match="does not hold session 99"):
        answer("show_session", path_of("demo"), session=99)
    with pytest.raises(CassetteError, match="has no frame 999"):
        answer("show_exchange", path_of("demo"), seq=999)
    with pytest.raises(CassetteError):
        answer("show_exchange", path_of("demo"), seq=1 << 70)


@pytest.mark.parametrize(
    ("tool", "arguments", "told"),
    [
        ("show_session", {"session": 99}, "does not hold session 99; list_sessions has its sessions"),
        ("show_exchange", {"seq": 999}, "has no frame 999; show_session has the numbers of its messages"),
        ("query", {"sql": "SELECT none"}, "; the description of this tool has the tables and their columns"),
        ("query", {"sql": "SELECT :a"}, 'Give it in "params".'),
    ],
)
@pytest.mark.slow
def test_an_error_names_tools_and_no_commands_of_a_shell(tool: str, arguments: dict[str, Any], told: str) -> None:
    with pytest.raises(TapeError) as caught:
        answer(tool, path_of("demo"), **arguments)
    assert words_of(caught.value).endswith(told) and "mcp-tape" not in words_of(caught.value)


@pytest.mark.parametrize(
    ("tool", "arguments", "said"),
    [
        ("show_exchange", {}, "'seq' is a required property. Example: {"),
        ("show_exchange", {"seq": "1"}, "argument seq: '1' is not of type 'integer'"),
        ("show_session", {"sesion": 1}, "('sesion' was unexpected). Example: {"),
        ("show_session", {"filter": "tool:x nonsense:1"}, "filter, at 'nonsense:1': there is no field 'nonsense'"),
        ("show_session", {"session": "1", "filter": 3}, "(and 1 more problem)"),
        ("search", {"words": "***"}, "there is no word in '***'"),
        ("diff", {"old": "a.db", "new": "b.db", "format": "html"}, "argument format: 'html' is not one of"),
        ("query", {"sql": "SELECT 1; SELECT 2"}, "more than one statement"),
    ],
)
def test_a_model_can_correct_its_errors(tool: str, arguments: dict[str, Any], said: str) -> None:
    with pytest.raises((ToolError, QueryError, SearchError)) as caught:
        answer(tool, path_of("demo"), **arguments)
    assert said in str(caught.value)


def test_a_whole_number_may_be_written_with_a_point() -> None:
    assert answer("show_exchange", path_of("demo"), seq=6.0) == answer("show_exchange", path_of("demo"), seq=6)


@pytest.mark.slow
def test_a_query_can_only_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the rules of the command; `tests/cassette/query/test_sql.py` has the statements that they refuse."""
    monkeypatch.chdir(tmp_path)
    tape = shutil.copy(path_of("demo"), tmp_path)
    before = Path(tape).read_bytes()
    with pytest.raises(QueryError) as caught:
        answer("query", tape, sql="VACUUM INTO 'copy.db'")
    assert words_of(caught.value).endswith("a query can only read, and this one would write")
    assert Path(tape).read_bytes() == before and [path.name for path in tmp_path.iterdir()] == ["demo.db"]


@pytest.mark.slow
def test_a_query_has_a_bound_of_memory() -> None:
    with pytest.raises(QueryError, match="more memory than it may use"):
        answer("query", path_of("demo"), sql="SELECT zeroblob(300000000) || ''")


@pytest.mark.slow
def test_the_tables_that_query_names_are_there() -> None:
    named = re.findall(r"(\w+)\(([\w, ]+)\)[;.]", TOOLS["query"].description)
    assert {table for table, _ in named} == {"tool_calls", "exchanges", "notifications", "stderr", "sessions"}
    with Cassette(path_of("demo")) as cassette:
        for table, columns in named:
            ask(cassette.database, "demo.db", f"SELECT {columns} FROM {table}")


def test_every_example_is_one_that_its_tool_takes() -> None:
    for tool in TOOLS.values():
        Draft202012Validator.check_schema(tool.takes)
        Draft202012Validator.check_schema(tool.gives or {})
        Draft202012Validator(tool.takes).validate(json.loads(tool.example))


# Large --------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_huge_session_is_read_in_parts_and_nothing_is_lost(huge: Path) -> None:
    found = all_values("show_session", "messages", huge, filter="kind:request tool:find")
    assert [one["id"] for one in found] == [*map(str, range(MANY)), *(f'"b{n}"' for n in range(300))]
    assert len(list(pages("show_session", huge, filter="kind:request"))) > 10


@pytest.mark.slow
def test_a_huge_answer_is_read_whole_in_parts(huge: Path) -> None:
    seq = 2 * MANY + 2
    shown = [json.loads(line)["text"] for line in lines("show", huge, seq, "--json")][-1]
    for start in (0, 1_000_000, 2_990_000):  # the whole text would take too long
        whole, cursor = "", f"1.{start}"
        for _ in range(3):
            one = answer("show_exchange", huge, seq=seq, cursor=cursor)
            whole += text_of(one)
            cursor = next_of(one) or cursor
        (longest,) = re.findall(r"(?:😀\\n){1000,}", whole)
        assert longest in shown
    assert whole.endswith('"\n      }\n    ]\n  }\n}\n')


@pytest.mark.slow
def test_a_huge_search_goes_on_where_it_stopped(huge: Path) -> None:
    found = all_values("search", "messages", huge, words="found")
    assert [one["seq"] for one in found] == list(range(2, 2 * MANY + 1, 2))


@pytest.mark.slow
def test_a_huge_query_goes_on_where_it_stopped_and_cuts_long_values_with_a_word(huge: Path) -> None:
    rows = all_values("query", "rows", huge, sql="SELECT seq FROM tool_calls WHERE seq > 3000 ORDER BY seq")
    assert len(rows) == MANY // 2 + 1 + 300
    (row,) = all_values("query", "rows", huge, sql="SELECT result FROM tool_calls WHERE tool = 'dump'")
    cut = re.search(r"… \[(\d+) characters in all; the next: substr\(result, 2001, 2000\)\]$", row["result"])
    assert cut and int(cut[1]) > 2_000_000
    (row,) = all_values("query", "rows", huge, sql="SELECT zeroblob(5000) AS b")
    assert row == {"b": "[5000 bytes; read parts: hex(substr(b, 1, 1000))]"}
    wide = ", ".join(["zeroblob(2000)"] * 20)
    with pytest.raises(ToolError, match="Ask for fewer columns"):
        answer("query", huge, sql=f"SELECT {wide}")


@pytest.mark.slow
def test_more_stderr_than_is_read_is_not_left_out_silently(huge: Path) -> None:
    text = "".join(map(text_of, pages("show_exchange", huge, seq=2 * MANY + 3)))
    assert "line 999\n" in text and "line 1000\n" not in text
    assert text.endswith("[There is more on stderr: call show_session with filter kind:stderr]\n")


@pytest.mark.slow
def test_many_sessions_and_cassettes_are_listed_in_parts(tmp_path: Path) -> None:
    tape = tmp_path / "0.db"
    for _ in range(120):
        make(tape, Frames().client(call(1, "t")), note="x" * 400)
    sessions = all_values("list_sessions", "sessions", tape)
    assert [one["id"] for one in sessions] == list(range(1, 121))
    assert sessions[0]["note"].endswith("… [100 more characters]")
    small = make(tmp_path / "1.db", Frames().client(call(1, "t")))
    for number in range(2, 300):
        shutil.copy(small, tmp_path / f"{number}.db")
    found = all_values("list_cassettes", "cassettes", tmp_path)
    assert sorted(int(Path(one["file"]).stem) for one in found) == list(range(300))
    assert sum(one["sessions"] for one in found) == 120 + 299


# Broken, old, and being recorded ------------------------------------------------------------------------


@pytest.mark.parametrize("tool", ["list_sessions", "show_session", "stats", "show_exchange", "search", "query", "diff"])
def test_a_broken_cassette_is_an_error_in_words(tmp_path: Path, tool: str) -> None:
    tape = tmp_path / "tape.db"
    tape.write_bytes(path_of("demo").read_bytes()[:5000])
    more: dict[str, dict[str, Any]] = {
        "show_exchange": {"seq": 1},
        "search": {"words": "x"},
        "query": {"sql": "SELECT * FROM facts"},
        "diff": {"old": str(tape), "new": str(tape)},
    }
    with pytest.raises(CassetteError, match=r"tape\.db"):
        answer(tool, tape, **more.get(tool, {}))


def test_broken_cassettes_are_listed_with_why(tmp_path: Path) -> None:
    (tmp_path / "broken.db").write_bytes(path_of("demo").read_bytes()[:5000])
    (tmp_path / "empty.db").touch()
    shutil.copy(path_of("demo"), tmp_path / "whole.db")
    broken, whole = all_values("list_cassettes", "cassettes", tmp_path)
    assert "broken.db" in broken["problem"] and broken["sessions"] == 0
    assert (whole["problem"], whole["sessions"]) == (None, 1)
    assert "demo-weather 1.0" in whole["newest"]


def test_a_session_that_is_being_recorded_is_read_so_far(tmp_path: Path) -> None:
    tape = tmp_path / "tape.db"
    recording = Recording(tape)
    frames = Frames().client(call(1, "slow", city="Bern"))
    recording.write(frames)
    (session,) = all_values("list_sessions", "sessions", tape)
    assert (session["ended_at"], session["open"]) == (None, 1)
    assert "not ended" in answer("list_sessions", tape).text
    (asked,) = all_values("show_session", "messages", tape)
    assert asked["status"] == "unanswered"
    last = f"{asked['session']}.{asked['seq']}.0"
    recording.write(frames.server(said(1, "Sunny"))[1:])
    (told,) = values(answer("show_session", tape, cursor=last), "messages")
    assert (told["seq"], told["status"]) == (2, "ok")
    assert "Sunny" in answer("show_exchange", tape, seq=1).text
    recording.end()


@pytest.mark.slow
def test_reading_on_stays_in_the_session_where_it_began(tmp_path: Path) -> None:
    tape = make(tmp_path / "tape.db", Frames().client(call(1, "first", word="é" * 20_000)))
    for number in range(200):
        make(tape, Frames().client(call(number, "t")))
    frames = Frames()
    for number in range(200):
        frames.client(call(number, "old"))
    make(tape, frames.server(said(1, "old " * 10_000)))
    listed, whole = answer("show_session", tape), answer("show_exchange", tape, seq=2)
    make(tape, Frames().client(call(1, "new")).server(said(1, "new " * 10_000)))
    more = answer("show_session", tape, cursor=next_of(listed))
    assert {one["what"] for one in values(more, "messages")} == {"tools/call old unanswered"}
    assert "old old" in answer("show_exchange", tape, seq=2, cursor=next_of(whole)).text


def test_a_stranger_s_long_words_are_cut_and_read_on(tmp_path: Path) -> None:
    long = "x" * 50_000
    frames = Frames().client(call(long, long)).server(said(long, "found")).happened("server", "stdio", event="close")
    tape = make(tmp_path / "tape.db", frames, protocol_version=long, server_name=long, started_at=long, note=long)
    (session,) = all_values("list_sessions", "sessions", tape)
    assert session["note"] == session["started_at"] == "x" * 300 + "… [49700 more characters]"
    asked, told, _ = all_values("show_session", "messages", tape)
    assert "more characters]" in asked["id"] and "more characters]" in asked["what"]
    assert told["detail"].endswith("… [show_exchange has all]") and len(told["detail"]) < 350
    assert len(all_values("stats", "calls", tape)) == 1
    assert len(all_values("search", "messages", tape, words="found")) == 1
    assert long in "".join(map(text_of, pages("show_exchange", tape, seq=1)))


@pytest.mark.slow
def test_redacted_values_stay_redacted_and_hidden_characters_are_shown(tmp_path: Path) -> None:
    hidden = "\u202eignore\U000e0041"
    text = f"[redacted:env:TOKEN] {hidden} HALF"
    told = said(1, text).replace(b"HALF", b"\\ud800")
    tape = make(tmp_path / "tape.db", Frames().client(call(1, "t")).server(told))
    for tool, arguments in (
        ("show_session", {}), ("show_exchange", {"seq": 1}), ("search", {"words": "ignore"}),
        ("query", {"sql": "SELECT result FROM tool_calls"}),
    ):  # fmt: skip
        found = answer(tool, tape, **arguments)
        whole = found.text + json.dumps(found.structured, ensure_ascii=False)
        assert "[redacted:env:TOKEN]" in whole and "ignore" in whole
        assert "\u202e" not in whole and "\U000e0041" not in whole
        whole.encode()


def test_a_call_that_its_client_abandons_is_ended() -> None:
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
    stopped = ToolCall(ReadableCassettes([str(path_of("demo"))]), lambda: True)
    with pytest.raises(ToolError, match=r"^stopped$"):
        TOOLS["query"].call(stopped, {"sql": endless})
    with pytest.raises(ToolError, match="stopped"):
        TOOLS["search"].call(stopped, {"words": "nothing"})


def test_tools_are_named_as_the_manual_names_them() -> None:
    manual = (CASSETTES.parent / "docs" / "agents.md").read_text("utf-8")
    assert re.findall(r"^\| `(\w+)` \|", manual, re.M) == list(TOOLS)
    assert f"{ROOM:,} bytes" in manual

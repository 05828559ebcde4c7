"""The filter grammar: valid filters, errors with their positions, and the rows that are kept."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_tape.cassette import schema
from mcp_tape.cassette.query import filters
from mcp_tape.cassette.query.filters import FilterError, parse
from mcp_tape.cassette.query.timeline import TimelineRow, session_rows, whole_text
from mcp_tape.cassette.reader import Cassette
from tests.support.docs import under
from tests.support.filtering import KEEPS, REFUSES, TALK
from tests.support.reading import GOLDEN, Frames, call, invoke, lines, make, message, objects, said


@pytest.fixture(scope="module")
def tape(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("filters") / "tape.db", TALK, Frames().client(message(id=1, method="ping")))


def kept(tape: Path, text: str, session: int = 1) -> list[int]:
    with Cassette(tape) as cassette:
        return [row.seq for row in session_rows(cassette, session, parse(text))]


@pytest.mark.parametrize(("text", "seqs"), KEEPS)
def test_a_filter_keeps(tape: Path, text: str, seqs: list[int]) -> None:
    assert kept(tape, text) == seqs


@pytest.mark.parametrize(("text", "position", "hint"), REFUSES)
def test_a_filter_that_does_not_parse_says_why_and_where(text: str, position: int, hint: str) -> None:
    with pytest.raises(FilterError) as refused:
        parse(text)
    assert refused.value.position == position
    assert hint in str(refused.value)


@pytest.mark.parametrize("command", ["show", "stats", "convert"])
def test_the_command_line_points_at_the_place(tape: Path, command: str) -> None:
    result = invoke(command, tape, "--filter", "日本\ttool:a metod:x")
    assert (result.exit_code, result.stdout) == (2, "")
    *_, shown, pointer = result.stderr.splitlines()
    assert shown == "  日本 tool:a metod:x"
    assert pointer == " " * 14 + "^"  # 日 and 本 are two columns wide each


@pytest.mark.slow
def test_thousands_of_words_are_no_limit(tape: Path) -> None:
    nowhere = [f"-w{number}" for number in range(1500)]
    assert kept(tape, " ".join(["bern", *nowhere])) == kept(tape, "bern")
    assert kept(tape, " ".join(["bern", *nowhere, "w1"])) == []
    assert kept(tape, "status:ok " * 999) == kept(tape, "status:ok")


def test_a_value_beyond_all_numbers_is_no_crash(tape: Path) -> None:
    assert kept(tape, f"size:<{'9' * 400}g dur:..{'9' * 400}s") == [1, 2, 3, 5, 6, 7, 8, 9, 10, 11]


def test_a_filter_on_sessions_is_about_all_of_them(tape: Path) -> None:
    shown = lines("show", tape, "--filter", "session:1..9 method:ping")
    assert [line for line in shown if line.startswith("session")] == ["session 1", "session 2"]
    assert len(lines("show", tape, "--filter", "method:ping")) == 1
    assert len(lines("show", tape, "--session", "1", "--filter", "method:ping")) == 2
    assert invoke("show", tape, "--session", "1", "--filter", "session:2").stdout == ""


def test_frames_of_a_filter_are_whole_and_in_order(tape: Path) -> None:
    with Cassette(tape) as cassette:
        found = list(filters.frames(cassette, 1, parse("tool:search*")))
        everything = list(filters.frames(cassette, 1))
    assert [frame.seq for frame in found] == [3, 7, 8, 9]
    assert [frame.text for frame in everything] == [frame.text for frame in TALK]
    assert found == [everything[seq - 1] for seq in (3, 7, 8, 9)]


def test_a_batch_is_kept_when_one_of_its_messages_is() -> None:
    (batch,) = [path for path in GOLDEN if path.name == "batch.db"]
    with Cassette(batch) as cassette:
        found = list(filters.frames(cassette, 1, parse("method:ping")))
    assert [(frame.seq, frame.kind) for frame in found] == [(4, "batch"), (6, "batch")]
    assert kept(batch, "method:ping") == [4, 6]


@pytest.mark.parametrize(("text", "seqs"), [("status:unanswered", []), ("-status:unanswered tool:never", [14])])
def test_nothing_is_unanswered_while_it_may_be_answered(tape: Path, text: str, seqs: list[int]) -> None:
    with Cassette(tape) as cassette:
        assert [row.seq for row in session_rows(cassette, 1, parse(text).for_open_session())] == seqs
        assert [row.seq for row in session_rows(cassette, 1, parse(text.strip("-")).only_unanswered())] == [14]


def batch(*messages: bytes) -> bytes:
    return b"[" + b", ".join(messages) + b"]"


def cancel(number: int) -> bytes:
    return message(method="notifications/cancelled", params={"requestId": number})


def test_a_cancel_is_of_the_request_that_it_names_on_its_own_side(tmp_path: Path) -> None:
    frames = (
        Frames()
        .client(call(5, "a"))
        .server(message(id=5, method="sampling/createMessage"))
        .client(cancel(5))
        .client(batch(call(6, "b"), call(7, "c")), kind="batch")
        .client(cancel(6))
        .server(message(id=8, method="roots/list"))
        .server(batch(cancel(8)), kind="batch")
        .client(batch(call(9, "d"), cancel(9)), kind="batch")
    )
    tape = make(tmp_path / "tape.db", frames)
    with Cassette(tape) as cassette:
        found = {(row.sender, row.rpc_id): row.status for row in session_rows(cassette, 1) if row.kind == "request"}
    assert found == {
        ("client", "5"): "cancelled", ("server", "5"): "unanswered", ("client", "6"): "cancelled",
        ("client", "7"): "unanswered", ("server", "8"): "cancelled", ("client", "9"): "cancelled",
    }  # fmt: skip
    headings = [line for line in lines("convert", tape, "--to", "md") if line.startswith("## ")]
    assert "cancelled" in headings[0] and "not answered" not in headings[0]
    assert any(heading.endswith("cancelled, **not answered**") for heading in headings)


def test_size_and_text_are_those_of_the_part_of_a_batch(tmp_path: Path) -> None:
    parts = call(1, "long", text="needle" * 50), call(2, "short")
    answers = said(1, "x"), said(2, "y" * 500)
    frames = Frames().client(batch(*parts), kind="batch").server(batch(*answers), kind="batch")
    tape = make(tmp_path / "tape.db", frames)

    def names(text: str) -> list[Any]:
        with Cassette(tape) as cassette:
            return [(row.sender, row.name, row.size) for row in session_rows(cassette, 1, parse(text))]

    assert names("NEEDLE") == [("client", "long", len(parts[0]))]
    assert names("-needle from:client size:<200") == [("client", "short", len(parts[1]))]
    figures = {row["name"]: row["bytes"] for row in objects("stats", tape)}
    assert figures == {"long": len(parts[0] + answers[0]), "short": len(parts[1] + answers[1])}


@pytest.mark.parametrize(
    ("recorded", "text"),
    [
        (rb"http:\/\/ex.com\/a", '"http://EX.com/a"'),
        (rb"caf\u00E9 \xc3\xa9".replace(rb"\xc3\xa9", "é".encode()), '"café é"'),
        (rb"\u0062ern", "Bern"),
        (rb"\ud83d\ude00", "😀"),
        (rb"{\"city\":\"B\\u0061sel\"}", "basel"),
        (rb"one\ntwo", '"one\ntwo"'),
    ],
)
def test_text_is_found_behind_any_escapes(tmp_path: Path, recorded: bytes, text: str) -> None:
    frames = Frames().client(b'{"id":1,"method":"x","params":["' + recorded + b'"]}').client(call(2, "other"))
    tape = make(tmp_path / "tape.db", frames)
    assert (kept(tape, text), kept(tape, f"-{text}")) == ([1], [2])


# The same filter in plain Python, on the values of the rows.
def fits(row: TimelineRow, text: str, field: str, value: str) -> bool:
    match field:
        case "method" | "tool":
            name = row.method if field == "method" else row.name
            pattern = "(?s:.*)".join(map(re.escape, value.split("*")))
            return name is not None and re.fullmatch(pattern, name) is not None
        case "from":
            return row.sender == value
        case "kind":
            return value in ((row.kind, row.frame_kind) if row.is_message else (row.frame_kind,))
        case "status":
            return row.status in (("error", "tool-error", "refused") if value == "error" else (value,))
        case "size":
            return len(text.encode()) > int(value[1:])
    return value.lower() in text.lower()


TERMS = st.tuples(
    st.sampled_from(["", "-"]),
    st.one_of(
        st.tuples(st.just("method"), st.sampled_from(["tools/*", "ping", "*/list", "notifications/*", "*o*", "nope"])),
        st.tuples(st.just("tool"), st.sampled_from(["*", "echo", "*_time", "get*", "a*d"])),
        st.tuples(st.just("from"), st.sampled_from(["client", "server"])),
        st.tuples(
            st.just("kind"),
            st.sampled_from(["request", "response", "notification", "batch", "noise", "stderr", "control"]),
        ),
        st.tuples(st.just("status"), st.sampled_from(["ok", "error", "tool-error", "unanswered", "cancelled"])),
        st.tuples(st.just("size"), st.sampled_from([">0", ">100", ">5000"])),
        st.tuples(st.just(""), st.sampled_from(["error", "text", "jsonrpc", "ping"])),
    ),
)


@given(st.lists(TERMS, max_size=4), st.sampled_from(GOLDEN))
def test_sql_keeps_the_same_rows_as_plain_python(terms: list[tuple[str, tuple[str, str]]], tape: Path) -> None:
    text = " ".join(f"{minus}{field}{':' * bool(field)}{value}" for minus, (field, value) in terms)
    with Cassette(tape) as cassette:
        session = cassette.session().id
        every = [(row, whole_text(cassette, row)) for row in session_rows(cassette, session)]
        found = list(session_rows(cassette, session, parse(text)))
    assert found == [
        row for row, said in every if all(fits(row, said, *term) is not bool(minus) for minus, term in terms)
    ]


@given(st.text())
def test_any_text_parses_or_is_refused_at_a_place_in_it(text: str) -> None:
    where, values, place = "", (), 0
    try:
        where, values = parse(text).sql()
    except FilterError as error:
        place = error.position
    assert 0 <= place <= len(text)
    assert where.count("?") == len(values)


@pytest.mark.parametrize("text", ["", "tool:x", "status:error dur:>1", "-method:ping hello", "id:3 size:>2k"])
def test_every_filter_is_answered_by_indexes(tape: Path, text: str) -> None:
    plan = "EXPLAIN QUERY PLAN SELECT f.seq FROM {} WHERE f.id BETWEEN ? AND ? AND {} ORDER BY f.id, m.part"
    where, values = parse(text).sql()
    with Cassette(tape) as cassette:
        steps: list[Any] = cassette.rows(plan.format(filters.ROWS, where), (*schema.row_ids(1), *values))
    told = [step[-1] for step in steps]
    for table in ("facts", "derived"):  # the session's rows, and each frame with its messages
        assert any(f"{table} USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)" in step for step in told), told
    assert not [step for step in told if step.startswith("SCAN") and step != "SCAN few"], told


def test_the_guide_has_every_word_of_the_grammar() -> None:
    table = re.findall(r"^\| (`.*)$", under("filters.md", "Words"), flags=re.M)
    assert len(table) >= 10
    assert all(parse(word).terms for row in table for word in re.findall(r"^`(.+?)` \|", row))
    fields = {word.partition(":")[0] for row in table for word in re.findall(r"`(\w+:[^`]+)`", row)}
    assert fields == set(filters._FIELDS) - {""}
    (statuses,) = [row for row in table if "status:" in row]
    assert all(f"`{status}`" in statuses for status in filters._STATUSES if status != "error")

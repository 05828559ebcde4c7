"""JSON lines survive a round trip, and hand-written lines make a cassette."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from mcp_tape.cassette.reader import Cassette
from mcp_tape.cassette.text import read
from mcp_tape.cassette.writer import Writer
from mcp_tape.wire.frames import Frame, FrameNumbers
from mcp_tape.wire.ledger import Ledger
from tests.support.decks import FACTS
from tests.support.fuzzing import examples
from tests.support.golden import GOLDEN
from tests.support.running import MCP_TAPE, frames, is_one_file, run, sessions
from tests.support.texts import STARTED, documents, everything, hidden, layouts, odd, over_http, several, tape

CALL = '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"sum","arguments":{"a":%s}}}'
ANSWER = '{"jsonrpc":"2.0","id":1,"result":{"content":[]}}'


def lines(*rows: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def loaded(place: Path, data: bytes) -> Path:
    tape("convert", "-", place / "loaded.db", stdin=data)
    return place / "loaded.db"


@pytest.mark.parametrize("make", [odd, hidden, over_http, several])
def test_every_row_comes_back_as_it_went(tmp_path: Path, make: Callable[[Path], Path]) -> None:
    path = make(tmp_path / "tape.db")
    out = tape("convert", path, "--session", "all").stdout_bytes
    assert everything(loaded(tmp_path, out)) == everything(path)
    assert tape("convert", tmp_path / "loaded.db", "--session", "all").stdout_bytes == out


@pytest.mark.parametrize("golden", GOLDEN, ids=lambda path: path.stem)
def test_golden_cassettes_come_back_as_they_went(tmp_path: Path, golden: Path) -> None:
    out = tape("convert", golden, "--session", "all").stdout_bytes
    assert everything(loaded(tmp_path, out)) == everything(golden)


MESSAGES = documents.map(lambda value: {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": value})
JSON = st.builds(
    lambda value, layout: json.dumps(value, **layout).encode("utf-8", "surrogatepass"),
    documents | MESSAGES | st.lists(MESSAGES, min_size=1, max_size=3),
    layouts,
)
FRAMES = st.lists(
    st.tuples(
        st.sampled_from(["client", "server"]),
        JSON | st.binary(max_size=30) | st.text(max_size=20).map(lambda text: text.encode("utf-8", "surrogatepass")),
        st.sampled_from([b"\n", b"\r\n", b""]),
        st.none() | st.binary(max_size=10) | st.just(b"event: message\r\nid: \xff7\r\ndata: "),
        st.sampled_from(["stdio", "stderr", "post-1", "get-1"]),
        st.sampled_from([None, None, None, "control"]),  # such as the head of a response
    ),
    min_size=1, max_size=8,
)  # fmt: skip
TEXTS = st.none() | st.text(max_size=12)
SAID = {  # facts of a session
    "target": documents, "protocol_version": TEXTS, "client_name": TEXTS,
    "client_version": TEXTS, "server_name": TEXTS, "server_version": TEXTS, "note": TEXTS, "run": TEXTS,
}  # fmt: skip
ENDED = {"incomplete": TEXTS, "exit_code": st.none() | st.integers(-(2**31), 2**31)}


def clear(path: Path) -> None:
    for left in path.parent.glob(f"{path.name}*"):
        left.unlink()


@pytest.mark.slow
@examples(60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(FRAMES, st.fixed_dictionaries({}, optional=SAID), st.fixed_dictionaries({}, optional=ENDED))
def test_every_recording_comes_back(
    tmp_path: Path, said: list[Any], facts: dict[str, Any], ended: dict[str, Any]
) -> None:
    for name in ("any.db", "any.jsonl", "again.db", "again.jsonl", "loaded.db"):
        clear(tmp_path / name)
    path = written(tmp_path / "any.db", said, facts, ended)
    tape("convert", path, tmp_path / "any.jsonl")
    tape("convert", tmp_path / "any.jsonl", tmp_path / "again.db")
    assert everything(tmp_path / "again.db") == everything(path)
    assert [frame.text for frame in frames(tmp_path / "again.db", 1)] == [text for _, text, *_ in said]
    tape("convert", tmp_path / "again.db", tmp_path / "again.jsonl")
    text = (tmp_path / "any.jsonl").read_bytes()
    assert (tmp_path / "again.jsonl").read_bytes() == text == tape("convert", path).stdout_bytes
    assert everything(loaded(tmp_path, text)) == everything(path)


def written(path: Path, said: list[Any], facts: dict[str, Any], ended: dict[str, Any]) -> Path:
    """A cassette with one session of any frames and facts."""
    writer, ledger = Writer(str(path)), Ledger()
    session = writer.begin(STARTED | FACTS | facts)
    kept = []
    for frame in numbered(said):
        kept.append((session, frame, ledger.derive(frame)))
    writer.append(kept, {})
    writer.finish(session, {"ended_at": "2026-01-01T00:00:01Z"} | ended)
    writer.close()
    return path


def numbered(said: list[Any]) -> Iterator[Frame]:
    numbers = FrameNumbers()
    for at, (sender, text, eol, head, channel, known) in enumerate(said, 1):
        kind, messages = read.kind_of(known, channel, text, head is None or bool(eol))
        seq = numbers.take(sender, channel, len(messages))
        yield Frame(seq, at * 7, sender, channel, kind, text, eol, head, at % 2)


def test_one_session_of_several_keeps_its_number(tmp_path: Path) -> None:
    path = several(tmp_path / "tape.db")
    out = tape("convert", path, "--session", 2).stdout_bytes
    (session,) = sessions(loaded(tmp_path, out))
    assert session == sessions(path)[1]
    assert frames(tmp_path / "loaded.db") == frames(path, 2)


def test_a_session_that_extends_a_missing_one_is_reported(tmp_path: Path) -> None:
    out = tape("convert", several(tmp_path / "tape.db"), "--session", 3).stdout_bytes
    told = tape("convert", "-", tmp_path / "new.db", stdin=out).stderr
    assert "session 3 extends session 1, which is not here" in told
    assert "--session 3" in told
    refused = tape("replay", tmp_path / "new.db", code=3).stderr
    assert f"{tmp_path / 'new.db'} holds session 3, which extends session 1, and that is not here" in refused
    assert "--session 3" in refused


def test_lines_by_hand_need_a_sender_and_a_text_only(tmp_path: Path) -> None:
    data = lines({"sender": "client", "text": CALL % "1e2"}, {"sender": "server", "text": ANSWER})
    path = loaded(tmp_path, data)
    (session,) = sessions(path)
    assert (session.transport, session.incomplete, session.exit_code) == ("stdio", None, None)
    assert session.ended_at == session.started_at
    asked, _ = frames(path)
    assert (asked.seq, asked.at, asked.kind, asked.channel, asked.eol) == (1, 0, "message", "stdio", b"\n")
    assert asked.text.endswith(b'{"a":1e2}}}')
    with Cassette(path) as cassette:
        (exchange,) = cassette.exchanges(1)
    assert (exchange.name, exchange.result) == ("sum", {"content": []})
    assert is_one_file(path)


def test_handwritten_lines_replay(tmp_path: Path) -> None:
    data = lines({"sender": "client", "text": CALL % 1}, {"sender": "server", "text": ANSWER})
    done = run([*MCP_TAPE, "replay", str(loaded(tmp_path, data))], (CALL % 1).encode() + b"\n")
    assert (done.returncode, done.stdout.decode()) == (0, ANSWER + "\n")


def test_a_message_may_be_given_as_json_and_keeps_its_numbers(tmp_path: Path) -> None:
    data = b'{"sender": "client", "message": {"id":1, "method":"x", "params":{"n":1e2,"n2":1.0}}}\n\n'
    (frame,) = frames(loaded(tmp_path, data))
    assert frame.text == b'{"id":1, "method":"x", "params":{"n":1e2,"n2":1.0}}'
    assert frame.kind == "message"


@pytest.mark.parametrize(
    ("row", "kind"),
    [
        ({"text": "no JSON"}, "noise"),
        ({"text": "no JSON", "kind": "message"}, "noise"),
        ({"text": f"[{ANSWER}]", "kind": "message"}, "batch"),
        ({"text": ANSWER, "kind": "noise"}, "message"),
        ({"text": ANSWER, "channel": "stderr"}, "stderr"),
        ({"text": '{"event":"exit","code":0}', "kind": "control"}, "control"),
        ({"text": ANSWER, "head": "id: 1\n", "eol": ""}, "noise"),  # a fragment that reached nobody
    ],
)
def test_the_kind_of_a_frame_follows_its_text(tmp_path: Path, row: dict[str, str], kind: str) -> None:
    (frame,) = frames(loaded(tmp_path, lines({"sender": "server"} | row)))
    assert frame.kind == kind


def test_the_order_of_lines_counts_where_numbers_do_not_go_on(tmp_path: Path) -> None:
    texts = [("a", 1), ("b", 5), ("c", None), ("d", 6), ("a", 1), ("e", 20)]
    rows = [{"sender": "client", "text": text} | ({"seq": seq} if seq else {}) for text, seq in texts]
    path = loaded(tmp_path, lines(*rows))
    assert [(f.text.decode(), f.seq) for f in frames(path)] == [
        ("a", 1), ("b", 5), ("c", 6), ("d", 7), ("a", 8), ("e", 20)
    ]  # fmt: skip


def test_an_edited_text_counts_in_all_that_follows_from_it(tmp_path: Path) -> None:
    path = hidden(tmp_path / "tape.db")
    out = tape("convert", path).stdout_bytes
    assert b'"keys":' in out
    edited = out.replace(b'"name\\":\\"login', b'"name\\":\\"logon').replace(b'\\"result\\":{}', b'\\"error\\":{}')
    assert edited != out
    before, after = everything(path)["messages"], everything(loaded(tmp_path, edited))["messages"]
    column = {"name": 9, "status": 10, "key": 12}
    assert [row[column["name"]] for row in after if row[12]] == [b"logon", b"logon"]
    assert [row[column["status"]] for row in after if row[11]] == [b"error", b"error"]
    assert not {row[column["key"]] for row in before if row[12]} & {row[column["key"]] for row in after}


def test_facts_in_frames_override_the_session_line(tmp_path: Path) -> None:
    out = tape("convert", odd(tmp_path / "tape.db")).stdout_bytes
    (session,) = sessions(loaded(tmp_path, out.replace(b'\\"name\\":\\"odd\\"', b'\\"name\\":\\"even\\"')))
    assert session.server_name == "even"


@pytest.mark.parametrize(
    ("told", "name", "version"),
    [
        ({"serverInfo": {"name": "told", "version": "2"}}, "told", "2"),
        ({"serverInfo": {"name": "told"}}, "told", None),
        ({"serverInfo": {"version": "2"}}, None, "2"),
        ({"serverInfo": {}}, "given", "1"),
        ({}, "given", "1"),
    ],
)
def test_a_server_that_the_frames_tell_of_is_not_mixed_with_that_of_the_line(
    tmp_path: Path, told: dict[str, Any], name: str | None, version: str | None
) -> None:
    given = {"kind": "session", "server_name": "given", "server_version": "1", "client_name": "mine", "note": "n"}
    asks = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}}
    answer = {"jsonrpc": "2.0", "id": 1, "result": told}
    rows = given, {"sender": "client", "message": asks}, {"sender": "server", "message": answer}
    (session,) = sessions(loaded(tmp_path, lines(*rows)))
    assert (session.server_name, session.server_version) == (name, version)
    assert (session.client_name, session.note) == ("mine", "n")


def test_a_cassette_that_cannot_be_written_is_called_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(Writer, "append", full)
    said = tape("convert", "-", tmp_path / "new.db", stdin=lines(GOOD), code=3).stderr
    assert said == f"mcp-tape: cannot write {tmp_path / 'new.db'}: database or disk is full\n"
    assert not list(tmp_path.iterdir())


SESSION = {"kind": "session"}
GOOD = {"sender": "client", "text": "x"}


@pytest.mark.parametrize(
    ("data", "line", "hint"),
    [
        (lines(GOOD) + b"nonsense\n", 2, "not JSON"),
        (lines(GOOD) + b'{"sender": "client", }\n', 2, "column 2"),
        (b"\n\n[1]\n", 3, "not a JSON object"),
        (b'{"sender": "client", "text": "\xff"}\n', 1, "UTF-8"),
        (b"[" * 5000, 1, ""),
        (lines({"text": "x"}), 1, "sender"),
        (lines({"sender": "me", "text": "x"}), 1, "sender"),
        (lines({"sender": "client"}), 1, '"text"'),
        (lines({"sender": "client", "text": {"id": 1}}), 1, '"message"'),
        (lines({"sender": "client", "text": "\ud800"}), 1, "half a character"),
        (lines({"sender": "client", "base64": "%"}), 1, "base64"),
        (lines({"sender": "client", "base64": 1}), 1, "base64"),
        (lines(GOOD | {"kind": "massage"}), 1, "massage"),
        (lines(GOOD | {"seq": "1"}), 1, "seq"),
        (lines(GOOD | {"seq": 1 << 63}), 1, "seq"),
        (lines(GOOD | {"at": True}), 1, "at"),
        (lines(GOOD | {"channel": 1}), 1, "channel"),
        (lines(SESSION | {"session": 1}, SESSION | {"session": 1}), 2, "twice"),
        (lines(SESSION | {"format": 99}), 1, "pip install"),
        (lines(SESSION | {"exit_code": "0"}), 1, "exit_code"),
        (lines(SESSION | {"note": 7}), 1, "note"),
        (lines(SESSION | {"target": 7}), 1, "target"),
    ],
)  # fmt: skip
def test_a_wrong_line_is_named_and_nothing_is_written(tmp_path: Path, data: bytes, line: int, hint: str) -> None:
    (tmp_path / "wrong.jsonl").write_bytes(data)
    told = tape("convert", tmp_path / "wrong.jsonl", tmp_path / "new.db", code=3).stderr
    assert f"wrong.jsonl, line {line}: " in told
    assert hint in told
    assert os.listdir(tmp_path) == ["wrong.jsonl"]


def test_a_file_without_a_frame_is_refused(tmp_path: Path) -> None:
    assert "holds no frame" in tape("convert", "-", tmp_path / "new.db", stdin=b"\n", code=3).stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("name", "hint"), [("no.jsonl", "there is no cassette"), (".", "is a directory")])
def test_an_unreadable_source_is_reported(tmp_path: Path, name: str, hint: str) -> None:
    assert hint in tape("convert", tmp_path / name, tmp_path / "new.db", code=3).stderr
    assert not list(tmp_path.iterdir())


def test_a_cassette_is_replaced_only_when_asked_to(tmp_path: Path) -> None:
    path = odd(tmp_path / "tape.db")
    before = path.read_bytes()
    assert "--force" in tape("convert", "-", path, stdin=lines(GOOD), code=2).stderr
    assert path.read_bytes() == before
    tape("convert", "-", path, "--force", stdin=b"nonsense", code=3)
    assert path.read_bytes() == before
    assert "1 frame" in tape("convert", "-", path, "--force", stdin=lines(GOOD)).stderr
    assert [frame.text for frame in frames(path)] == [b"x"]
    assert os.listdir(tmp_path) == ["tape.db"]


def test_a_file_that_is_no_cassette_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "letter").write_text("Dear friend,")
    said = tape("convert", "-", tmp_path / "letter", "--to", "db", "--force", stdin=lines(GOOD), code=2).stderr
    assert "was not changed" in said
    assert (tmp_path / "letter").read_text() == "Dear friend,"


@pytest.mark.parametrize(("name", "hint", "code"), [("no/such/new.db", "no directory", 3), (".", "is a directory", 2)])
def test_a_place_that_cannot_be_written_is_named(tmp_path: Path, name: str, hint: str, code: int) -> None:
    assert hint in tape("convert", "-", tmp_path / name, stdin=lines(GOOD), code=code).stderr
    assert not list(tmp_path.iterdir())


def test_the_result_is_reported_as_json(tmp_path: Path) -> None:
    out = tape("convert", several(tmp_path / "tape.db"), "--session", "all").stdout_bytes
    told = json.loads(tape("convert", "-", tmp_path / "new.db", "--json", stdin=out).stdout)
    assert told["sessions"] == 4
    assert told["frames"] == len(everything(tmp_path / "tape.db")["frames"])


def test_a_filtered_export_makes_a_smaller_cassette(tmp_path: Path) -> None:
    path = odd(tmp_path / "tape.db")
    out = tape("convert", path, "--filter", "tool:sum").stdout_bytes
    assert [frame.text for frame in frames(loaded(tmp_path, out))] == [
        frame.text for frame in frames(path) if b'"id": 2' in frame.text or b'"id":2' in frame.text
    ]
    assert sessions(tmp_path / "loaded.db") == sessions(path)

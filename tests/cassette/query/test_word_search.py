"""mcp-tape search: words in all messages."""

from __future__ import annotations

import json
import os
import sqlite3
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_tape.cassette.query import word_search as searching
from mcp_tape.cassette.query.word_search import SearchTerm, parse
from mcp_tape.cassette.reader import Cassette
from tests.support.reading import Frames, call, invoke, lines, make, message, objects, said
from tests.support.running import MCP_TAPE, on_terminal


def talk() -> Frames:
    frames = Frames().client(call(1, "get_weather", city="Bern", note="line one\nline two"))
    frames.server(said(1, json.dumps({"sky": "blue\ngrey", "path": "C:\\new"})))
    frames.client(
        b'{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"x","arguments":"caf\\u00e9 \\u0042ern"}}'
    )
    frames.server(message(id=2, error={"code": -1, "message": "Connection REFUSED by Łódź"}))
    frames.client(b"[" + message(id=3, method="ping") + b"," + call(4, "batched", q="needle") + b"]", kind="batch")
    frames.add("server", b"\xff needle in bytes", kind="noise").stderr("a needle on stderr")
    return frames.happened("server", "stdio", event="exit", code=3)


@pytest.fixture(scope="module")
def tape(tmp_path_factory: pytest.TempPathFactory) -> Path:
    later = Frames().client(call(1, "later", q="needle again", also="needles"))
    return make(tmp_path_factory.mktemp("search") / "tape.db", talk(), later)


def found(tape: Path, *words: str) -> list[tuple[int, int]]:
    return [(hit["session"], hit["seq"]) for hit in objects("search", tape, *words)]


FINDS = [
    (["bern"], [(1, 1), (1, 3)]),
    (["BERN", "weather"], [(1, 1)]),
    (["needle"], [(1, 5), (1, 7), (1, 8), (2, 1)]),  # 5 and 6 are in the batch
    (["needl*"], [(1, 5), (1, 7), (1, 8), (2, 1)]),
    (["needles"], [(2, 1)]),
    (['"connection refused"'], [(1, 4)]),
    (['"refused connection"'], []),
    (["refused", "connection"], [(1, 4)]),
    (["connection refused"], [(1, 4)]),
    (["café"], [(1, 3)]),
    (["łódź"], [(1, 4)]),
    (["get_weather"], [(1, 1)]),
    (["tools/call", "batched"], [(1, 5)]),
    (["line", "two"], [(1, 1)]),
    (["grey"], [(1, 2)]),
    (["new"], [(1, 2)]),
    (["nline"], []),
    (["eedle"], []),
    (["exit"], [(1, 9)]),
]


@pytest.mark.parametrize(
    ("words", "places"), FINDS, ids=lambda value: " ".join(value) if value and isinstance(value[0], str) else ""
)
@pytest.mark.parametrize("with_fts5", [True, False])
def test_words_are_found_where_people_mean_them(
    tape: Path, words: list[str], places: list[tuple[int, int]], with_fts5: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not with_fts5:
        monkeypatch.setattr(searching, "has_fts5", lambda db: False)
    with Cassette(tape) as cassette:
        hits = searching.search(cassette, parse(" ".join(words)), [1, 2])
        assert [(hit.session, hit.seq) for hit in hits] == places


def test_a_line_is_as_in_show_with_the_hit_marked(tape: Path) -> None:
    weather, *_ = lines("search", tape, "bern")
    assert weather.split()[:7] == ["1", "1", "0.001", "→", "#1", "tools/call", "get_weather"]
    assert '"city": "«Bern»"' in weather


def test_in_a_batch_the_message_with_the_words_is_shown(tape: Path) -> None:
    batch = next(hit for hit in objects("search", tape, "needle") if hit["seq"] == 5)
    assert (batch["part"], batch["name"]) == (1, "batched")


def test_json_has_the_row_and_the_places_of_the_hits(tape: Path) -> None:
    (hit,) = objects("search", tape, "needle", "--session", "2")
    assert hit["name"] == "later" and hit["session"] == 2
    assert [hit["excerpt"][start:end] for start, end in hit["hits"]] == ["needle"]


def test_a_session_and_a_limit_can_be_given(tape: Path) -> None:
    assert found(tape, "needle", "--session", "1") == [(1, 5), (1, 7), (1, 8)]
    assert found(tape, "needle", "--limit", "2") == [(1, 5), (1, 7)]
    assert [invoke("search", tape, "needle", "--session", n).exit_code for n in (9, 0, 1 << 70)] == [3, 3, 3]


def test_finding_nothing_is_reported_and_is_not_an_error(tape: Path) -> None:
    result = invoke("search", tape, "no such word")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "nothing in" in result.stderr


@pytest.mark.parametrize("words", ["", "=>", '""', "*", "_", "\udcff"])
def test_no_word_at_all_is_wrong_usage(tape: Path, words: str) -> None:
    result = invoke("search", tape, words)
    assert result.exit_code == 2
    assert "there is no word" in result.stderr


@pytest.mark.parametrize(
    "words",
    [
        '"open',
        'a"b',
        "NOT",
        "AND OR",
        "a AND NOT b",
        "(",
        "needle)",
        "x:y",
        "^a",
        "a^",
        "-x-",
        "%",
        "a%b",
        "'",
        "\udcffa",
        "a\udcff*",
    ],
)
def test_no_words_mean_anything_to_the_index(tape: Path, words: str) -> None:
    assert invoke("search", tape, words).exit_code in (0, 2)


def test_searching_leaves_the_cassette_and_its_directory_alone(tape: Path) -> None:
    before = tape.read_bytes()
    assert found(tape, "needle")
    assert tape.read_bytes() == before
    assert os.listdir(tape.parent) == ["tape.db"]


@pytest.mark.slow
def test_a_terminal_gets_bold_hits_and_lines_of_its_width(tape: Path) -> None:
    output = on_terminal([*MCP_TAPE, "search", str(tape), "needle"], COLUMNS="80", NO_COLOR="", TERM="xterm").decode()
    assert "\x1b[1mneedle\x1b[0m" in output
    plain = output.replace("\x1b[1m", "").replace("\x1b[0m", "")
    assert max(map(len, plain.split("\r\n"))) <= 80
    assert "\x1b" not in plain


def test_parts_of_a_long_session_are_searched_one_after_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frames = Frames()
    for number in range(50):
        frames.client(call(number, "x", q=f"word{number % 7}"))
    tape = make(tmp_path / "tape.db", frames)
    monkeypatch.setattr(searching, "_SPAN", 8)
    monkeypatch.setattr(searching, "_INDEXED", 3)
    seen: list[int] = []
    with Cassette(tape) as cassette:
        hits = list(searching.search(cassette, [SearchTerm("word3")], [1], seen.append))
    assert [hit.seq for hit in hits] == [number + 1 for number in range(50) if number % 7 == 3]
    assert seen[-1] == 50


@given(
    texts=st.lists(st.text(alphabet='ab AB_é\\n"1', max_size=12), max_size=5),
    words=st.lists(st.text(alphabet="abé1_", min_size=1, max_size=3), min_size=1, max_size=2),
    prefix=st.booleans(),
)
def test_without_fts5_the_same_is_found(texts: list[str], words: list[str], prefix: bool) -> None:
    terms = [SearchTerm(word, prefix) for word in words if word.strip("_")]
    if not terms:
        return
    with sqlite3.connect(":memory:") as db:
        if not searching.has_fts5(db):
            pytest.skip("this SQLite has no FTS5")
        assert set(searching._index_matcher(db, terms)(texts)) == set(searching._pattern_matcher(terms)(texts))
    db.close()


@pytest.mark.slow
def test_a_long_text_full_of_hits_is_shown_by_its_first_hit(tmp_path: Path) -> None:
    text = "x " * 100_000 + "rain and rain " * 500_000
    tape = make(tmp_path / "tape.db", Frames().client(call(1, "sky")).server(said(1, text)))
    (hit,) = objects("search", tape, "rain")
    assert "x rain and rain" in json.dumps(hit) and len(json.dumps(hit)) < 20_000

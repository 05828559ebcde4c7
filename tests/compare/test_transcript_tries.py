"""Requests that never reached the server: retries count once, and the others have no answer."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.diffs import compare_cassettes
from tests.support.http_facts import Http, Talk, cassette
from tests.support.messages import call, result


def fine(http: Http) -> None:
    http.post("post-1", call(1, "a"))
    http.answer("post-1", result(1, "one"))
    http.post("post-2", call(2, "b"))
    http.answer("post-2", result(2, "two"))


def unreachable(http: Http) -> None:
    http.post("post-1", call(1, "a"))
    http.answer("post-1", result(1, "one"))
    http.post("post-2", call(2, "b"))
    http.control("server", "post-2", event="failed", why="no route")


def ended(http: Http) -> None:
    http.post("post-1", call(1, "a"))
    http.answer("post-1", result(1, "one"))
    http.post("post-2", call(2, "b"), mcp_session_id="old")
    http.answer("post-2", "", 404)


def vainly(http: Http) -> None:
    http.post("post-3", call(3, "b"))
    http.control("server", "post-3", event="failed", why="no route")


def again(http: Http, answer: str) -> None:
    http.post("post-3", call(3, "b"))
    http.answer("post-3", result(3, answer))


def found(tmp_path: Path, old: list[Talk], new: list[Talk]) -> list[tuple[str, str]]:
    one, other = cassette(tmp_path / "old.db", *old), cassette(tmp_path / "new.db", *new)
    return [(change.rule, change.level) for change in compare_cassettes(str(one), str(other), parts=["calls"]).changes]


@pytest.mark.parametrize("vainly", [vainly, lambda http: None])
@pytest.mark.parametrize("talk", [unreachable, ended])
def test_a_call_that_never_got_to_the_server_has_no_answer(tmp_path: Path, talk: Talk, vainly: Talk) -> None:
    assert found(tmp_path, [fine], [talk, vainly]) == [("call-unanswered", "error")]


@pytest.mark.parametrize("talk", [unreachable, ended])
def test_a_call_that_gets_to_the_server_now_is_no_new_one(tmp_path: Path, talk: Talk) -> None:
    assert found(tmp_path, [talk], [fine]) == []


@pytest.mark.parametrize("talk", [unreachable, ended])
def test_of_a_call_that_was_tried_again_the_last_try_counts(tmp_path: Path, talk: Talk) -> None:
    assert found(tmp_path, [fine], [talk, lambda http: again(http, "two")]) == []
    (tmp_path / "x").mkdir()
    assert found(tmp_path / "x", [fine], [talk, lambda http: again(http, "2")]) == [
        ("call-structured-value-changed", "info")
    ]

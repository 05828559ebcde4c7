"""The ids of sessions, from which every worker knows whose a session is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_tape.transports.http.serve import SessionIds


def test_one_worker_counts_and_takes_the_first_that_is_free() -> None:
    ids = SessionIds("S")
    taken = [ids.take(()) for _ in range(4)]
    assert taken == ["S", "S-2", "S-3", "S-4"]
    for one in ("S-3", "S"):
        ids.give_back(one)
    assert [ids.take(()) for _ in range(3)] == ["S", "S-3", "S-5"]


def test_without_a_recorded_id_they_have_a_name() -> None:
    ids = SessionIds(None)
    assert [ids.take(()) for _ in range(2)] == ["tape-1", "tape-2"]


def test_an_id_that_is_recorded_elsewhere_is_left_out() -> None:
    ids = SessionIds("S")
    assert [ids.take({"S-2"}) for _ in range(2)] == ["S", "S-3"]


RECORDED = st.none() | st.text("ab-0123456789", min_size=1) | st.sampled_from(["tape-7", "a-1", "a-1-2", "-"])


@given(RECORDED, st.integers(1, 5), st.integers(0, 2))
def test_an_id_says_whose_session_it_is(recorded: str | None, workers: int, earlier: int) -> None:
    every = [SessionIds(recorded, number, workers, earlier) for number in range(workers)]
    again = SessionIds(recorded, 0, workers, earlier + 1)
    found = {one.take(()): worker for _ in range(4) for worker, one in enumerate(every)}
    assert len(found) == 4 * workers
    for session, worker in found.items():
        assert {one.owner(session) for one in (*every, again)} == {worker}
    assert not {again.take(()) for _ in range(4)} & found.keys()


@pytest.mark.parametrize("session", ["", "S-", "S-0", "S-01", "S--1", "S-1 ", "T-1", "S-" + "9" * 5000, "S-²", "S-٣"])
def test_what_is_no_id_is_nobodys(session: str) -> None:
    assert SessionIds("S", 1, 3).owner(session) is None

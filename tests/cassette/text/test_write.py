"""Times of an older text stay if the rest is the same, and never go back."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mcp_tape.cassette.text.write import _keep_times, _places
from mcp_tape.wire.frames import Frame

LOOKS = st.lists(st.sampled_from("abc"), max_size=12)


def frames(texts: list[str], step: int) -> list[Frame]:
    return [
        Frame(n, n * step, "client", "stdio", "message", text.encode(), b"\n", None, 0)
        for n, text in enumerate(texts, 1)
    ]


@given(LOOKS, LOOKS)
def test_frames_that_are_as_they_were_keep_their_times(old: list[str], new: list[str]) -> None:
    before, now = frames(old, 10), frames(new, 7)
    places = _places([f.text for f in before], [f.text for f in now])  # type: ignore[misc]
    assert all(before[was].text == now[place].text for place, was in places.items())
    timed = list(_keep_times(iter(now), {place: before[was].at for place, was in places.items()}, len(now)))
    assert [f.text for f in timed] == [f.text for f in now]
    assert [f.at for f in timed] == sorted(f.at for f in timed)
    assert all(timed[place].at == before[was].at for place, was in places.items())
    if old == new:
        assert timed == before


@given(LOOKS, LOOKS, LOOKS, LOOKS)
def test_frames_before_and_behind_a_change_keep_their_times(
    first: list[str], was: list[str], now: list[str], last: list[str]
) -> None:
    places = _places([*first, "x", *was, "y", *last], [*first, "y", *now, "x", *last])  # type: ignore[misc,list-item]
    assert all(places.get(place) == place for place in range(len(first)))
    ends = len(first) + 2 + len(was) + len(last), len(first) + 2 + len(now) + len(last)
    assert all(places.get(ends[1] - back) == ends[0] - back for back in range(1, len(last) + 1))

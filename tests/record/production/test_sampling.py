"""Sampling of sessions: the syntax, and the sessions that are chosen."""

from __future__ import annotations

import pytest

from mcp_tape.record.production.sampling import NoRecorder, draw_sample, parse_share


@pytest.mark.parametrize(
    ("text", "share"), [("1%", 0.01), ("0.5%", 0.005), ("100%", 1.0), ("0%", 0.0), ("12.5 %", 0.125), ("001%", 0.01)]
)
def test_a_share_is_a_percentage(text: str, share: float) -> None:
    assert parse_share(text) == pytest.approx(share)


@pytest.mark.parametrize("text", ["0.01", "1/100", "1", "101%", "-1%", "%", "1e2%", "1%%", "", "one%"])
def test_an_invalid_percentage_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="write a percentage"):
        parse_share(text)


def test_a_sample_has_about_its_share_of_all() -> None:
    for share in (0.01, 0.3):
        sample = draw_sample(share, "seed")
        taken = sum(sample.takes(f"session {number}") for number in range(20_000))
        assert 0.8 * share < taken / 20_000 < 1.2 * share


def test_all_and_nothing_are_exact() -> None:
    names = [str(number) for number in range(1000)]
    assert all(map(draw_sample(1.0, None).takes, names))
    assert not any(map(draw_sample(0.0, None).takes, names))


def test_a_seed_makes_the_same_choice_again_and_chance_does_not() -> None:
    names = [str(number) for number in range(200)]
    first, again, other = (draw_sample(0.5, seed) for seed in ("a", "a", "b"))
    assert [*map(first.takes, names)] == [*map(again.takes, names)] != [*map(other.takes, names)]
    assert [*map(draw_sample(0.5, None).takes, names)] != [*map(draw_sample(0.5, None).takes, names)]


def test_traffic_outside_the_sample_is_recorded_nowhere() -> None:
    recorder = NoRecorder()
    recorder.stream("client", "stdio")(b"text\n")
    recorder.control("server", "stdio", event="exit", code=0)
    assert recorder.close().frames == 0

"""The HTTP sessions that are recorded with sampling."""

from __future__ import annotations

import json

from mcp_tape.record.http_sessions import Sessions
from mcp_tape.record.production.sampling import Sampling, draw_sample
from mcp_tape.record.tape import Tape
from mcp_tape.wire.frames import Frame
from tests.support.http_facts import Http
from tests.support.messages import call, request, result

SAMPLE = draw_sample(0.5, "seed")
TAKEN, LEFT = ([name for name in map(str, range(100)) if SAMPLE.takes(name) is is_in] for is_in in (True, False))


class Recording:
    def __init__(self) -> None:
        self.frames: list[list[Frame]] = []
        self.sampling = Sampling(SAMPLE)
        self.http = Http(Sessions(self._begin, self.sampling))

    def _begin(self, at: int, transport: str, legacy: bool) -> Tape:
        kept: list[Frame] = []
        self.frames.append(kept)
        return Tape(lambda frame, entries: kept.append(frame), None, at)

    def texts(self) -> list[list[str]]:
        return [[frame.text.decode() for frame in kept if frame.kind == "message"] for kept in self.frames]


def test_each_session_is_in_or_out_as_a_whole() -> None:
    recording = Recording()
    http = recording.http
    for number, name in enumerate((LEFT[0], TAKEN[0], LEFT[1], TAKEN[1])):
        http.post(f"post-{number}", request(0, "initialize"))
        http.answer(f"post-{number}", result(0, name), 200, mcp_session_id=name)
    for number, name in enumerate((TAKEN[0], TAKEN[1]), 4):
        http.post(f"post-{number}", call(1), mcp_session_id=name)
        http.answer(f"post-{number}", result(1, name))
    expected = [[request(0, "initialize"), result(0, name), call(1), result(1, name)] for name in TAKEN[:2]]
    assert recording.texts() == expected
    assert str(recording.sampling) == "2 of 4 sessions"


def traced(number: int, trace: str) -> str:
    return request(number, "tools/list", _meta={"traceparent": f"00-{trace}-{'b' * 16}-01"})


def test_requests_without_a_session_are_chosen_one_by_one() -> None:
    recording = Recording()
    for number in range(40):
        recording.http.post(f"post-{number}", call(number))
        recording.http.answer(f"post-{number}", result(number))
    (kept,) = recording.texts()
    taken = len(kept) // 2
    assert 0 < taken < 40 and str(recording.sampling) == f"0 of 0 sessions, {taken} of 40 requests without one"
    assert all(kept[at + 1] == result(int(id_of(kept[at]))) for at in range(0, len(kept), 2))


def id_of(text: str) -> str:

    return str(json.loads(text)["id"])


def test_requests_of_one_trace_are_in_or_out_together() -> None:
    recording = Recording()
    traces = [f"{number:032x}" for number in range(20)]
    for number in range(60):
        recording.http.post(f"post-{number}", traced(number, traces[number % 20]))
        recording.http.answer(f"post-{number}", result(number))
    kept = [text for text in recording.texts()[0] if "traceparent" in text]
    expected = [traced(number, traces[number % 20]) for number in range(60) if SAMPLE.takes(traces[number % 20])]
    assert kept == expected and 0 < len(kept) < 60

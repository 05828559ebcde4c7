"""The relay's end of a recording: the summary of the writer's reports."""

from __future__ import annotations

import os

from mcp_tape.record.recorder import Recorder, RecordingSummary


def reported(*numbers: int) -> RecordingSummary:
    """The summary of a recording whose writer reports these sessions."""

    def write(reader: int, status: int) -> None:
        for number in numbers:
            os.write(status, b"session %d\n" % number)
        os.write(status, b"done 1 2 3 4 \n")

    return Recorder("unused", write, print).close()


def test_the_sessions_of_a_recording_take_no_more_memory_as_they_become_many() -> None:
    assert reported(*range(7, 5_000)).sessions == [range(7, 5_000)]


def test_the_sessions_of_another_recorder_on_the_same_cassette_are_left_out() -> None:
    assert reported(1, 2, 4, 5, 8).sessions == [range(1, 3), range(4, 6), range(8, 9)]

"""Two recordings in the page's format: calls in pairs, as `diff` aligns them, and the changes of each."""

from __future__ import annotations

from pathlib import Path

from mcp_tape.cassette.reader import Cassette
from mcp_tape.compare.versions import compare, recorded
from mcp_tape.viewer.aligned import aligned
from mcp_tape.viewer.page import compared
from mcp_tape.viewer.tapes import Numbers
from tests.support.reading import Frames, call, make, said
from tests.support.viewing import index_of, report_of

OLD = Frames().client(call(1, "a")).server(said(1, "x")).client(call(2, "b")).server(said(2, "y")).client(call(3, "c"))
NEW = (
    Frames()
    .client(call(9, "d"))
    .server(said(9, "z"))
    .client(call(8, "b"))
    .server(said(8, "no", isError=True))
    .client(call(7, "a"))
    .server(said(7, "x"))
)


def test_calls_are_paired_and_each_change_has_its_calls(tmp_path: Path) -> None:
    tapes = make(tmp_path / "old.db", OLD), make(tmp_path / "new.db", NEW)
    with Cassette(tapes[0]) as before, Cassette(tapes[1]) as after:
        old, new = recorded(before), recorded(after)
        comparison = compare(old, new)
        numbers = Numbers(several=True)
        numbers.of(0, 1)
        found = aligned(comparison, numbers)
        page = b"".join(compared(comparison, old, new))
    assert found["pairs"] == [[1, 1, 2, 5], [1, 3, 2, 3], [1, 5, None, None], [None, None, 2, 1]]
    by_rule = {change.rule: found["changes"][change.fingerprint] for change in comparison.changes}
    assert by_rule["call-ok-to-error"] == ["error", [1]]
    assert (by_rule["call-missing"][1], by_rule["call-added"][1]) == ([2], [3])
    facts, columns = index_of(page)
    assert facts["compared"] == found and facts["files"] == ["old.db", "new.db"]
    assert columns["session"] == [1] * len(OLD) + [2] * len(NEW)
    assert "call-ok-to-error" in report_of(page.decode())


def test_a_change_that_is_found_often_keeps_the_first_of_its_calls(tmp_path: Path) -> None:
    old, new = Frames(), Frames()
    for number in range(50):
        old.client(call(number, "a", n=number)).server(said(number, "x"))
        new.client(call(number, "a", n=number)).server(said(number, "x", more=1))
    with Cassette(make(tmp_path / "1.db", old)) as before, Cassette(make(tmp_path / "2.db", new)) as after:
        comparison = compare(recorded(before), recorded(after))
    (often,) = [change for change in comparison.changes if change.times == 50]
    assert len(often.places) == 20 and often.places[0] == ((1, 1), (1, 1))
    assert "places" not in often.as_dict()

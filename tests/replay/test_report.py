"""The reports of a replay on stderr."""

from __future__ import annotations

import pytest

from mcp_tape.redaction.diagnostics import DiagnosticRedactor
from mcp_tape.replay.report import ReplayEvent, Reporter


@pytest.mark.parametrize(
    ("what", "loud", "quiet"),
    [
        ("note", ["note: so"], ["note: so"]),
        ("refused", ["so"], ["so"]),
        ("miss", ["so"], []),
        ("played", [], []),
    ],
)
def test_only_misses_are_left_out_where_it_is_quiet(what: str, loud: list[str], quiet: list[str]) -> None:
    for is_quiet, expected in ((False, loud), (True, quiet)):
        said: list[str] = []
        Reporter(said.append, None, None, DiagnosticRedactor(), quiet=is_quiet).report(ReplayEvent(what, "so"))  # type: ignore[arg-type]
        assert said == expected

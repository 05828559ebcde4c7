"""The page as one file: joined from the files beside this one. Its policy allows only its own code."""

from __future__ import annotations

import os
import re
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, partial
from hashlib import sha256
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import Any

from .. import __version__
from ..cassette.query.filters import EVERYTHING, Filter
from ..cassette.query.recorded_requests import RecordedRequest
from ..cassette.query.timeline import TimelineRow
from ..cassette.reader import Cassette
from ..compare.changes import RequestPlace
from ..compare.judging import Comparison
from ..compare.report import html
from ..compare.report.wording import View
from ..compare.versions import Version
from .pack import Packer, deflate, encodable
from .tapes import PageTape, SessionNumbers, findings

# In order of dependency. All share one scope, so a top-level name must be unique.
MODULES = """text packed store filters tree content calls spans list copying findings details waterfall tables compare
    live app""".split()
_HERE = Path(__file__).parent
_IMPORT = re.compile(r"^import .*?;\n", re.M | re.S)
_AS_USUAL = View()
_IN_MEMORY = 64 << 20  # bytes of packed texts
# https://www.w3.org/TR/CSP3/: only the page's own script and style run, and nothing is loaded or requested.
_POLICY = (
    "default-src 'none'; script-src '{script}'; style-src '{style}'; img-src data:; media-src data:; "
    "base-uri 'none'; form-action 'none'{more}"
)


@cache
def script() -> str:
    """The modules as one script, in a scope of its own."""
    joined = "".join(_IMPORT.sub("", _read(f"{name}.mjs")).replace("\nexport ", "\n") for name in MODULES)
    return f'\n"use strict";\n(() => {{\n{joined}start();\n}})();\n'


def page(data: Iterable[bytes], *, may_ask: bool = False, report: str = "") -> Iterator[bytes]:
    """Yield the page around its data. `may_ask`: a served page may request updates. `report`: markup of ours."""
    style, code, loader = _read("app.css"), script(), _read("loader.js")
    scripts = f"{_hash(loader)}' '{_hash(code)}"
    policy = _POLICY.format(script=scripts, style=_hash(style), more="; connect-src 'self'" if may_ask else "")
    before, after = _read("page.html").split("{{data}}")
    filled = {"policy": policy, "style": style, "hidden": "" if report else " hidden"}
    for name, value in filled.items():
        before = before.replace(f"{{{{{name}}}}}", value)
    yield before.encode().replace(b"{{report}}", report.encode("utf-8", "replace"))
    yield from data
    yield after.replace("{{code}}", _packed_code()).replace("{{loader}}", loader).encode()


def export(cassette: Cassette, numbers: list[int], kept: Filter, name: str) -> Iterator[bytes]:
    """Sessions of a cassette as a self-contained page."""
    return export_tapes([PageTape(cassette, numbers, name)], kept)


def export_tapes(
    tapes: Sequence[PageTape], kept: Filter = EVERYTHING, report: str = "", comparison: Comparison | None = None
) -> Iterator[bytes]:
    """Sessions of cassettes as a self-contained page, with the report of their comparison if there is one."""
    packer, numbers = Packer(whole=kept == EVERYTHING), SessionNumbers(len(tapes) > 1)
    seen = set[tuple[int, int]]()
    with SpooledTemporaryFile(_IN_MEMORY) as blocks:
        for place, tape in enumerate(tapes):
            number = partial(numbers.of, place)
            for block in packer.pack(tape.cassette, _note_rows(tape.rows(kept), number, seen), number):
                blocks.write(b64encode(block) + b"\n")
        for block in packer.rest():
            blocks.write(b64encode(block) + b"\n")
        blocks.seek(0)
        facts = _facts(tapes, numbers, kept != EVERYTHING)
        facts["findings"] = list(_findings(tapes, numbers, None if kept == EVERYTHING else seen))
        if comparison is not None:
            facts["compared"] = align_calls(comparison, numbers)
        yield from page(_elements(packer.index(**facts), blocks), report=report)


def render_comparison(comparison: Comparison, old: Version, new: Version, view: View = _AS_USUAL) -> Iterator[bytes]:
    """Two versions of a server on a page: the report, and their recordings side by side."""
    report = "\n".join(html.articles([comparison], view))
    found = [version.recording for version in (old, new) if version.recording is not None]
    tapes = [PageTape(one.cassette, one.sessions, os.path.basename(one.cassette.path)) for one in found]
    return export_tapes(tapes, report=report, comparison=comparison)


def _note_rows(
    rows: Iterable[TimelineRow], number: Callable[[int], int], seen: set[tuple[int, int]]
) -> Iterator[TimelineRow]:
    for row in rows:
        seen.add((number(row.session), row.seq))
        yield row


def _findings(
    tapes: Sequence[PageTape], numbers: SessionNumbers, seen: set[tuple[int, int]] | None
) -> Iterator[dict[str, Any]]:
    """Yield all findings, or those of the rows in `seen`, without evidence from other rows."""
    for place, tape in enumerate(tapes):
        for finding in findings(tape.cassette, tape.sessions, partial(numbers.of, place)):
            if seen is None:
                yield finding
            elif (finding["session"], finding["seq"]) in seen:
                yield finding | {"evidence": []}


def _facts(tapes: Sequence[PageTape], numbers: SessionNumbers, filtered: bool) -> dict[str, Any]:
    """The facts about the recordings as a whole."""
    found = [
        numbers.head(place, session, tape.name) | {"open": False}
        for place, tape in enumerate(tapes)
        for session in tape.cassette.each_session()
        if session.id in tape.sessions
    ]
    files = [encodable(tape.name) for tape in tapes]
    return {"files": files, "by": f"mcp-tape {__version__}", "filtered": filtered, "sessions": found}


def _elements(index: bytes, blocks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield data elements that a browser does not run: base64 cannot end an element."""
    yield b'<script type="text/plain" id="index">' + b64encode(deflate(index)) + b"</script>\n"
    for block in blocks:
        yield b'<script type="text/plain" class="block">' + block.rstrip() + b"</script>\n"


@cache
def _packed_code() -> str:
    return b64encode(deflate(script().encode())).decode()


def _hash(text: str) -> str:
    return "sha256-" + b64encode(sha256(text.encode()).digest()).decode()


@cache
def _read(name: str) -> str:
    return (_HERE / name).read_text("utf-8")


# -- calls of two recordings side by side, as `diff` aligns them, for the page


def align_calls(comparison: Comparison, numbers: SessionNumbers) -> dict[str, Any]:
    """Return pairs of requests as `[session, seq, session, seq]`, and by the fingerprint of each change its level, its
    pairs and its tool.

    Pairs are in the order of the old recording, with null where there is no counterpart.
    """
    alignment = comparison.alignment
    if alignment is None:
        return {"pairs": [], "changes": {}}
    calls: list[tuple[RecordedRequest | None, RecordedRequest | None]] = [*alignment.pairs]
    calls += [(asked, None) for asked in alignment.missing] + [(None, asked) for asked in alignment.added]
    places = [(old and old[:2], new and new[:2]) for old, new in calls]
    known = {place: number for number, place in enumerate(places)}
    found = {change.fingerprint: [known[at] for at in change.places if at in known] for change in comparison.changes}
    tools = {one.fingerprint: encodable(one.subject.name) for one in comparison.changes if one.subject.kind == "tool"}
    return {
        "pairs": [[*_on_page(numbers, 0, old), *_on_page(numbers, 1, new)] for old, new in places],
        "changes": {
            one.fingerprint: [one.level, found[one.fingerprint], tools.get(one.fingerprint)]
            for one in comparison.changes
        },
    }


def _on_page(numbers: SessionNumbers, tape: int, place: RequestPlace | None) -> tuple[int | None, int | None]:
    return (None, None) if place is None else (numbers.of(tape, place[0]), place[1])

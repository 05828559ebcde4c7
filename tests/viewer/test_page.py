"""The page as a file: its policy, its parts, and the command's output path."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import zlib
from base64 import b64decode, b64encode
from hashlib import sha256
from pathlib import Path

import pytest

from mcp_tape.cassette.reader import Cassette
from mcp_tape.compare.versions import compare, recorded_version
from mcp_tape.viewer import page
from mcp_tape.viewer.page import align_calls, render_comparison
from mcp_tape.viewer.tapes import SessionNumbers
from tests.support.reading import Frames, call, invoke, make, said
from tests.support.viewing import evaluated, index_of, report_of


@pytest.fixture
def tape(tmp_path: Path) -> Path:
    return make(tmp_path / "tape.db", Frames().client(call(1, "x")))


def test_the_policy_allows_only_its_own_script_and_style(tape: Path, tmp_path: Path) -> None:
    html = invoke("convert", tape, "--to", "html").stdout
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]+)"', html)
    assert policy
    allowed = dict(rule.split(" ", 1) for rule in policy[1].split("; "))
    (loader,), (style,) = (re.findall(rf"<{name}>(.*?)</{name}>", html, re.S) for name in ("script", "style"))
    (code,) = re.findall(r'<script type="text/plain" id="code">(.*?)</script>', html)
    packed = zlib.decompress(b64decode(code)).decode()
    assert packed == page.script()
    assert allowed.pop("script-src") == f"'{hashed(loader)}' '{hashed(packed)}'"
    assert allowed.pop("style-src") == f"'{hashed(style)}'"
    none = "'none'"
    expected = {"default-src": none, "img-src": "data:", "media-src": "data:", "base-uri": none, "form-action": none}
    assert allowed == expected


def hashed(text: str) -> str:
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"


def test_a_page_that_is_served_may_ask_its_server_alone() -> None:
    assert b"; connect-src 'self'\"" in b"".join(page.page([], may_ask=True))
    assert b"connect-src" not in b"".join(page.page([]))


def test_every_module_is_joined_and_none_is_imported() -> None:
    script = page.script()
    files = sorted(path.stem for path in Path(page.__file__).parent.glob("*.mjs"))
    assert files == sorted(page.MODULES)
    assert not re.search(r"^(?:import|export) ", script, re.M)
    script += Path(page.__file__).with_name("loader.js").read_text("utf-8")
    assert "innerHTML" not in script and "outerHTML" not in script and "insertAdjacentHTML" not in script


def test_no_two_modules_give_the_same_name() -> None:
    given = re.findall(r"^(?:const|let|class|function\*?|async function) (?:\{.*?\}|(\w+))", page.script(), re.M)
    given += re.findall(r"^const .*?, (\w+) = [^\n]*;(?: //.*)?$", page.script(), re.M)
    assert len(given) > 100
    assert sorted(given) == sorted(set(given))


def test_it_is_the_same_every_time(tape: Path) -> None:
    first, second = (invoke("convert", tape, "--to", "html").stdout for _ in range(2))
    assert first == second


@pytest.mark.parametrize("form", ["jsonl", "md", "html"])
def test_a_file_gets_the_same_as_stdout(tape: Path, tmp_path: Path, form: str) -> None:
    file = tmp_path / "out"
    result = invoke("convert", tape, "--to", form, file)
    assert (result.exit_code, result.stdout) == (0, "")
    assert file.read_bytes() == invoke("convert", tape, "--to", form).stdout_bytes


def test_a_cassette_is_never_written_over(tape: Path) -> None:
    before = tape.read_bytes()
    result = invoke("convert", tape, "--to", "html", tape, "--force")
    assert (result.exit_code, tape.read_bytes()) == (3, before)
    assert "is a cassette, and stays one" in result.stderr


def test_a_place_that_cannot_be_written_is_named(tape: Path, tmp_path: Path) -> None:
    result = invoke("convert", tape, "--to", "html", tmp_path / "none" / "x.html")
    assert result.exit_code == 3 and "cannot write" in result.stderr


def test_a_side_is_no_page(tape: Path) -> None:
    result = invoke("convert", tape, "--to", "html", "--side", "client")
    assert result.exit_code == 2 and "--filter from:client" in result.stderr


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
@pytest.mark.slow
def test_a_call_is_copied_for_other_places() -> None:
    facts = {
        "file": "it's.db", "session": 2, "seq": 7, "what": "tools/call x", "status": "ok", "took": "1.0 ms",
        "target": '{"url": "http://127.0.0.1:9/mcp"}', "version": "2025-11-25", "method": "tools/call",
        "sentByClient": True, "chosen": "{}",
        "pair": ['{"params":{"name":"x","arguments":{"a":1e400,"b":null,"c":[true,"\\/\\ud83d\\ude00"]}}}', "{}"],
    }  # fmt: skip
    copied = evaluated("copying.mjs", f"Object.entries(m.waysToCopy({json.dumps(facts)})).map(([k, f]) => [k, f()])")
    ways = dict(copied)
    assert list(ways) == ["message", "curl", "mcp-tape show", "pytest test", "Markdown"]
    words = shlex.split(ways["curl"])
    assert (words[2], words[-1]) == ("http://127.0.0.1:9/mcp", facts["pair"][0])
    assert "mcp-protocol-version: 2025-11-25" in words
    assert shlex.split(ways["mcp-tape show"])[2] == "it's.db"
    assert 'client.call_tool("x", {"a":1e400,"b":None,"c":[True,"/😀"]})' in ways["pytest test"]
    compile(ways["pytest test"], "test_it.py", "exec")
    notice = evaluated("copying.mjs", f"Object.keys(m.waysToCopy({json.dumps(facts | {'method': None})}))")
    assert notice == ["message", "mcp-tape show", "Markdown"]


# -- two recordings in the page's format: calls in pairs, as `diff` aligns them, and the changes of each
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
        old, new = recorded_version(before), recorded_version(after)
        comparison = compare(old, new)
        numbers = SessionNumbers(several=True)
        numbers.of(0, 1)
        found = align_calls(comparison, numbers)
        page = b"".join(render_comparison(comparison, old, new))
    assert found["pairs"] == [[1, 1, 2, 5], [1, 3, 2, 3], [1, 5, None, None], [None, None, 2, 1]]
    by_rule = {change.rule: found["changes"][change.fingerprint] for change in comparison.changes}
    assert by_rule["call-ok-to-error"] == ["error", [1], None]
    assert (by_rule["call-missing"][1], by_rule["call-added"][1]) == ([2], [3])
    facts, columns = index_of(page)
    assert facts["compared"] == found and facts["files"] == ["old.db", "new.db"]
    assert columns["session"] == [1] * len(OLD) + [2] * len(NEW)
    assert "call-ok-to-error" in report_of(page.decode())


@pytest.mark.slow
def test_a_change_that_is_found_often_keeps_the_first_of_its_calls(tmp_path: Path) -> None:
    old, new = Frames(), Frames()
    for number in range(50):
        old.client(call(number, "a", n=number)).server(said(number, "x"))
        new.client(call(number, "a", n=number)).server(said(number, "x", more=1))
    with Cassette(make(tmp_path / "1.db", old)) as before, Cassette(make(tmp_path / "2.db", new)) as after:
        comparison = compare(recorded_version(before), recorded_version(after))
    (often,) = [change for change in comparison.changes if change.times == 50]
    assert len(often.places) == 20 and often.places[0] == ((1, 1), (1, 1))
    assert "places" not in often.as_dict()

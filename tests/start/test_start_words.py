"""A command line is read without click exactly as click reads it, or not at all.

Every command line of the documentation, a table of odd ones and random ones are read both ways. The resulting API call,
exit code and output are compared.
"""

from __future__ import annotations

import ast
import contextlib
import json
import os
import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from mcp_tape import TapeError, api, modes, options, start
from mcp_tape.cli import cli
from mcp_tape.fleet import serving
from mcp_tape.record.production.sampling import Sample
from mcp_tape.start import production, url_over_stdio
from tests.support.docs import PAGES
from tests.support.fuzzing import examples
from tests.support.promises import CASSETTES
from tests.support.running import MCP_TAPE, run

NAMES = ("record", "replay", "use")
ROWS = {name: getattr(options, name.upper()) for name in NAMES}
URL = "http://127.0.0.1:1/mcp"
_LISTS = re.compile(rf'\[\s*(?:"mcp-tape",\s*)?"(?:{"|".join(NAMES)})"[^\]]*\]')
_ENDS = set(";|&<>()`")


# The result of a command line ----------------------------------------------------------------------------


class Calls:
    """The calls of the API: noted, but not made."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, printed: pytest.CaptureFixture[str]) -> None:
        self._made: list[Any] = []
        self._printed = printed
        of_api = ("record", "record_url", "replay", "replay_web")
        others = (url_over_stdio, "record_url_over_stdio"), (serving, "replay_web"), (modes, "use")
        monkeypatch.setattr(production, "draw_sample", lambda share, seed: Sample(1.0, b""))  # no randomness
        for module, name in (*((api, n) for n in of_api), *others):
            monkeypatch.setattr(module, name, lambda *given, _as=name, **named: self._note(_as, given, named))

    def _note(self, *call: Any) -> None:
        self._made.append(call)
        raise TapeError("enough")

    def without_click(self, words: list[str]) -> tuple[Any, ...]:
        return self._outcome(start.run(words))

    def by_click(self, words: list[str]) -> tuple[Any, ...]:
        with pytest.raises(SystemExit) as ended:
            cli(words)
        return self._outcome(ended.value.code)

    def _outcome(self, code: Any) -> tuple[Any, ...]:
        made, self._made = self._made, []
        return made, code, self._printed.readouterr()

    def agree(self, words: list[str]) -> bool:
        """Compare both ways; return whether click was avoided. A refused attempt leaves no trace."""
        quick, slow = self.without_click(words), self.by_click(words)
        if quick[1] is None:
            assert quick[0] == [] and quick[2] == ("", "")
            return False
        assert quick == slow
        return True


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Calls:
    monkeypatch.chdir(tmp_path)
    Path("ENV").write_text("TOKEN=s3cret\n")
    Path("EMPTY").touch()
    shutil.copy(CASSETTES / "demo.db", "tape.db")
    return Calls(monkeypatch, capsys)


# The documentation --------------------------------------------------------------------------------------


def documented() -> Iterator[str]:
    """Every command line of record, replay and use in the pages, including help texts and configurations."""
    for page in PAGES:
        text = page.read_text("utf-8").replace("\\\n", " ").replace('"$SERVER"', URL)
        for found in re.finditer(rf"\bmcp-tape ((?:{'|'.join(NAMES)})\b[^\n]*)", text):
            yield shlex.join(_until_the_end(found[1]))
        for listed in _LISTS.findall(text):
            with contextlib.suppress(ValueError):  # it contains a variable
                words = json.loads(listed) if "'" not in listed else ast.literal_eval(listed)
                yield shlex.join(words[words[0] == "mcp-tape" :])


def _until_the_end(text: str) -> list[str]:
    """The words of a shell command, up to the end of the command or quotation."""
    words: list[str] = []
    reader = shlex.shlex(text, posix=True, punctuation_chars="".join(_ENDS))
    reader.whitespace_split, reader.commenters = True, "#"
    with contextlib.suppress(ValueError):  # an apostrophe in the following prose
        for word in reader:
            if set(word) <= _ENDS and word:
                break
            words.append(word)
    return words


DOCUMENTED = sorted(set(documented()))


def test_the_documentation_has_many_command_lines() -> None:
    assert len(DOCUMENTED) > 40
    for name in NAMES:
        assert sum(line.startswith(f"{name} ") for line in DOCUMENTED) > 5


@pytest.mark.parametrize("line", DOCUMENTED)
@pytest.mark.slow(quick=40)
def test_documented_command_lines_are_read_the_same_with_and_without_click(calls: Calls, line: str) -> None:
    words = shlex.split(line)
    called, *_ = calls.by_click(words)
    assert calls.agree(words) or not called  # click is never needed for valid ones


# Odd ones -----------------------------------------------------------------------------------------------

PLAIN = """
record -q -- s | record -o x.db -- s | record --output x.db -- s | record --output=x.db -- s | record --output= -- s
record -q -o x.db s a b | record s -q | record s -- -q | record -- s -- -o x | record -- -q | record - | record -- - x
record -o x -o y -- s | record --note '' -- s | record --note -n -- s | record --note -- -- s | record -o -- -- s
record -o - -- s | record --redact-key a --redact-key=b -- s | record --redact-key '' -- s | record --no-redact -- s
record --env-file ENV -- s | record --env-file ENV --env-file EMPTY -- s | record --max-decoded 800k -- s
record -- '' | record --run r -q -- s | record --run '' -- s | record --note=a=b -- s | record --note 'é\udcff' -- s
record -q -q -- s | replay t | replay -q t | replay t -q | replay -- t | replay t -- | replay -- -q | replay -
replay t --speed 2 | replay t --speed=0.5 --seed 7 | replay t --seed -3 | replay t --seed=+3 | replay t --seed ' 5 '
replay t --seed 1_0 | replay t --speed 0 | replay t --speed 1e3 | replay t --speed inf
replay t --repeats last --repeats cycle | replay t/u | replay t --strict --report r.jsonl | replay t --session all
replay t --session 3 | replay --session latest t | replay t --fault tools/call=error:1 --fault ping=drop
replay t --ignore $.a --ignore=$.b | replay t --match-on $.a,$.b | replay t --listen 127.0.0.1:0
replay t --listen 127.0.0.1:0 --max-body 1G --head-timeout 2.5 | replay --seed 1 --seed 2 t | use t -- s | use t s a
use t s -q a | use -q t -- s -q | use -- t s -q | use t --mode all -- s | use --mode none t
use t --mode=once --order recorded -- s | use t - s | use t -- - | use --in-place-of x t -- s --mode all
use t --url http://127.0.0.1:1/mcp | use t --url http://127.0.0.1:1/mcp --header 'A: b' --header=C:d
use t --mode once -- s
"""
UNUSUAL = """
record | record -- | record -qo x.db -- s | record -ox.db -- s | record -o=x.db -- s | record -o | record --output
record --quiet=yes -- s | record --outpu x -- s | record --no -- s | record -x -- s | record --help | record -h
record -qh | record --max-decoded x -- s | record --redact-value '(' -- s | record --redact-path '$[' -- s
record --env-file no -- s | record --env-file no --redact-env-from 1 -- s
record --redact-env-from 1 --env-file no -- s | record --url x | record --url http://127.0.0.1:1/mcp -- s
record --listen 127.0.0.1:0 -- s | record --allow-remote -- s | record --redact-env-from nobody -- s
record --cacert no -- s | record --note | record ---- s | record --=x -- s | record -- -- s | replay | replay t u
replay '' | replay t --speed -1 | replay t --speed nan | replay t --speed x | replay t --speed ''
replay t --seed 1.5 | replay t --seed x | replay t --seed '' | replay t --repeats Last | replay t --repeats ''
replay t --strict=1 | replay t --session newest | replay t --session '' | replay t --fault explode
replay t --listen here | replay t --listen 0.0.0.0:0 | replay t --max-body 1G | replay t --head-timeout 0
replay t --head-timeout -1 | replay t --allow-remote | replay t --report /dev/null/x | replay -o x t | replay t -s
replay t --stric | replay t --mode all | replay t --fault tools/call=http:503
replay t --listen 127.0.0.1:0 --fault tools/call=http:503 | use | use t | use -- | use '' -- s
use t --mode never -- s | use t --mode '' -- s | use t --url http://127.0.0.1:1/mcp -- s | use t --mode -- s
use t --header x:y -- s | use t --header nonsense --url http://127.0.0.1:1/mcp | use t --cacert EMPTY | -q record -- s
--quiet replay t | -- replay t | Replay t | rec -- s | ls t | --version | '' | replay=t | --help replay
"""


def lines(table: str) -> list[str]:
    return [line.strip() for line in table.replace("\n", "|").split("|") if line.strip()]


@pytest.mark.parametrize("line", lines(PLAIN))
def test_a_plain_line_is_read_without_click_as_by_click(calls: Calls, line: str) -> None:
    assert calls.agree(shlex.split(line.replace("\\udcff", "\udcff")))


@pytest.mark.parametrize("line", lines(UNUSUAL))
def test_an_unusual_line_is_clicks_or_read_as_by_click(calls: Calls, line: str) -> None:
    calls.agree(shlex.split(line))


POOL = st.sampled_from(
    sorted({flag for rows in ROWS.values() for row in rows for flag in (row.flag, row.short or row.flag)})
    + "-- - -x -qo x 1 0 2.5 -1 all latest once s.db '' tools/call=drop 127.0.0.1:0 800k $.a A:b --no --help".split()
    + [f"{row.flag}=1" for row in options.USE]
)


@examples(400, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=st.sampled_from(NAMES), words=st.lists(POOL, max_size=6), server=st.booleans())
def test_any_line_is_read_without_click_as_by_click_or_not_at_all(
    calls: Calls, name: str, words: list[str], server: bool
) -> None:
    risky = {row.flag for row in options.USE if row.hidden}  # these affect the test itself
    if not risky & {word.partition("=")[0] for word in words}:
        calls.agree([name, *words, *(["--", "s"] if server else [])])


# Everything else -----------------------------------------------------------------------------------------


def test_a_shell_that_asks_for_completions_asks_click(calls: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_MCP_TAPE_COMPLETE", "bash_complete")
    assert calls.without_click(["replay", "tape.db"])[1] is None


@pytest.mark.parametrize("words", [["replay", "-q", "tape.db"], ["replay", "--quiet=no", "tape.db"]])
@pytest.mark.slow
def test_as_a_command_and_as_a_module_it_is_the_same(tmp_path: Path, words: list[str]) -> None:
    shutil.copy(CASSETTES / "demo.db", tmp_path / "tape.db")
    script = str(Path(MCP_TAPE[0]).with_name("mcp-tape"))
    if not os.path.exists(script):
        pytest.skip("the command is not installed beside this Python")
    asked = b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}\n'
    one, other = (run([*command, *words], asked, cwd=tmp_path) for command in ([script], MCP_TAPE))
    assert (one.returncode, one.stdout, one.stderr) == (other.returncode, other.stdout, other.stderr)

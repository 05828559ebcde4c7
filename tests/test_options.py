"""Every option of the table gives the same value in each of its forms; a bad value is refused for the same reason.

The forms: a command line, a keyword of `use_cassette`, a mark, and the command line of a recorder that a test starts.
"""

from __future__ import annotations

import contextlib
import inspect
import os
import re
import shutil
import ssl
from pathlib import Path
from typing import Any, get_args

import click
import pytest

from mcp_tape import TapeError, api, modes, options, use_cassette
from mcp_tape.cli import cli
from mcp_tape.options import Option, OptionValues
from mcp_tape.record.recording_options import RecordingOptions
from mcp_tape.replay.stage import ReplayOptions
from mcp_tape.start.server_values import record_from, web_from
from mcp_tape.testing import tape_settings
from mcp_tape.testing.recorders import Handover
from mcp_tape.transports.environment_handover import RecorderEnvironment, ask_test
from mcp_tape.values import parse_size
from mcp_tape.wire.compression import MAX_DECODED
from tests.support.promises import CASSETTES

COMMANDS = {"record": options.RECORD, "replay": options.REPLAY, "use": options.USE}
ROWS = {row.name: row for rows in COMMANDS.values() for row in rows}
KEYWORDS = [row for row in ROWS.values() if row.keyword]
NEEDED = {"record": [], "replay": ["tape.db"], "use": ["tape.db"]}  # required words


def redact(text: str) -> str:
    """A function that another process can import."""
    return text.replace("Bern", "…")


SECRET = (("TOKEN", "s3cret"),)
HANDED = RecorderEnvironment(SECRET, (("HOME", "/srv"),), (("X-Key", "s3cret"),), ("GONE",))
NAMED = f"{redact.__module__}:redact"
# Texts on a command line, the resulting value, and the keyword's value if it differs.
SAMPLES: dict[str, tuple[list[str], Any] | tuple[list[str], Any, Any]] = {
    "output": (["other.db"], "other.db"),
    "of_client": (["cursor/git hub"], "cursor/git hub"),
    "rotate": (["50MB"], 50_000_000),
    "keep": (["20"], 20),
    "sample": (["0.5%"], "0.5%"),
    "sample_seed": (["a b"], "a b"),
    "bodies": (["hash"], "hash"),
    "on_rotate": (["cp {} 'a b/'"], "cp {} 'a b/'"),
    "hook_timeout": (["2.5"], 2.5),
    "otlp": (["http://127.0.0.1:4318"], "http://127.0.0.1:4318"),
    "mode": (["new_episodes"], "new_episodes"),
    "config": (["CONFIG"], "CONFIG"),
    "url": (["https://example.com/mcp"], "https://example.com/mcp"),
    "env": (["K=V", "A=b=c"], (("K", "V"), ("A", "b=c")), {"K": "V", "A": "b=c"}),
    "env_from": (["HOME", "A B"], ("HOME", "A B"), ["HOME", "A B"]),
    "cwd": (["/srv"], "/srv", Path("/srv")),
    "headers": (["X-Key: a:b", "Y:"], (("X-Key", "a:b"), ("Y", "")), {"X-Key": "a:b", "Y": ""}),
    "cacert": (["CERTIFICATES"], "CERTIFICATES"),
    "header_env": (["X-Key=HOME", "HOME"], (("X-Key", os.environ["HOME"]), ("HOME", os.environ["HOME"]))),
    "over_stdio": ([], True),
    "was": (["url,headers,http"], "url,headers,http"),
    "listen": (["127.0.0.1:0"], ("127.0.0.1", 0)),
    "allow_remote": ([], True),
    "head_timeout": (["2.5"], 2.5),
    "auth": ([], True),
    "max_body": (["800k"], 800_000),
    "workers": (["4"], 4),
    "note": (["-before 2.0"], "-before 2.0"),
    "redact_keys": (["pin", "a b"], ("pin", "a b"), ["pin", "a b"]),
    "redact_paths": (["$.params.pin", "$.a[0]"], ("$.params.pin", "$.a[0]"), ["$.params.pin", "$.a[0]"]),
    "redact_values": (["a+", "x{2}"], ("a+", "x{2}"), ["a+", "x{2}"]),
    "redact_with": ([NAMED], (NAMED,), [redact]),
    "of_files": (["ENV"], (SECRET,)),
    "of_processes": (["pid:SELF"], None),
    "of_test": (["SOCKET"], HANDED),
    "max_decoded": (["1.5k"], 1_500),
    "no_redact": ([], True, False),
    "session": (["1"], "1", 1),
    "ignore": (["$.params.now", "tools/call:x=$.a['b,c']"],) + (("$.params.now", "tools/call:x=$.a['b,c']"),) * 2,
    "match_on": (["$.params.name,$.a['b,c']"], ("$.params.name", "$.a['b,c']"), ["$.params.name", "$.a['b,c']"]),
    "normalize": (["paths", "tools/call:x=numbers:0.5"],) + (("paths", "tools/call:x=numbers:0.5"),) * 2,
    "match": (["nearest", "tools/call=nearest:0.5"],) + (("nearest", "tools/call=nearest:0.5"),) * 2,
    "fail_on": (["inexact"], "inexact"),
    "repeats": (["cycle"], "cycle"),
    "order": (["recorded"], "recorded"),
    "unanswered": (["silent"], "silent"),
    "speed": (["1.5"], 1.5),
    "faults": (["tools/call=drop", "ping@2=delay:5"],) + (("tools/call=drop", "ping@2=delay:5"),) * 2,
    "seed": (["7"], 7),
    "strict": ([], True),
    "report": (["REPORT"], "REPORT"),
    "replay_prefix": ([], True),
    "new_times": ([], True),
    "in_place_of": (["PATH"], "PATH"),
    "lock": (["mcp.lock"], "mcp.lock"),
    "label": (["it's git"], "it's git"),
    "run": (["r1"], "r1"),
    "quiet": ([], True),
}  # fmt: skip
# A bad value on a command line, the reason for refusing it, and the keyword's value if it differs.
BAD: dict[str, tuple[str, str] | tuple[str, str, Any]] = {
    "rotate": ("much", "'much' is not a size"),
    "keep": ("0", "'0' is not a number of at least 1"),
    "sample": ("0.01", "'0.01' is not a share of all sessions; write a percentage"),
    "bodies": ("half", "full, hash, none"),
    "on_rotate": ("cp it", "write {} there"),
    "hook_timeout": ("0", "0"),
    "otlp": ("localhost", "'localhost' is not an http or https URL"),
    "mode": ("nonne", "none, once, new_episodes, all, rewrite"),
    "url": ("example.com", "'example.com' is not an http or https URL"),
    "env": ("=x", "'' is not a variable name", {"": "x"}),
    "env_from": ("a=b", "'a=b' is not a variable name", ["a=b"]),
    "headers": ("no colon", "that is not a header; write it as 'Name: value'"),
    "header_env": ("X-Key=NO_SUCH_VARIABLE", "there is no variable 'NO_SUCH_VARIABLE'"),
    "cacert": ("EMPTY", "holds no certificate that can be read"),
    "listen": ("here:x", "'here:x' is not HOST:PORT"),
    "head_timeout": ("0", "0"),
    "max_body": ("much", "'much' is not a size"),
    "workers": ("0", "'0' is not a number of at least 1"),
    "redact_paths": ("params", "a JSONPath starts with $, this one does not: 'params'", ["params"]),
    "redact_values": ("({", "missing ), unterminated subpattern at position 0", ["({"]),
    "redact_with": ("json:nothing", "'json:nothing' is not a function that can be imported"),
    "of_files": ("MISSING", "cannot read the secrets to hide from"),
    "of_processes": ("me", "'me' is neither parents nor pid:N"),
    "of_test": ("MISSING", "the test cannot be asked which secrets to hide"),
    "max_decoded": ("0", "'0' is not a size"),
    "session": ("newest", "'newest' is neither latest, all nor a session's number"),
    "ignore": ("$[", "cannot read the JSONPath '$['", ["$["]),
    "match_on": ("$[", "cannot read the JSONPath '$['", ["$["]),
    "normalize": ("pathes", "there is no normalizer 'pathes'", ["pathes"]),
    "match": ("close", "'close' is not a way to match"),
    "fail_on": ("misses", "inexact"),
    "repeats": ("always", "error, last, cycle"),
    "order": ("random", "arrival, recorded"),
    "unanswered": ("never", "error, silent, exit"),
    "speed": ("-1", "0", -1.0),
    "faults": ("tools/call=explode", "there is no fault 'explode'", ["tools/call=explode"]),
    "seed": ("x", "'x' is not a valid integer"),
    "label": ("", "'' is not a server name"),
    "report": ("/dev/null/report", "cannot write /dev/null/report"),
}  # fmt: skip
LATE = {"url", "headers", "cacert", "redact_with", "seed"}  # keywords that only a recorder or a player refuses


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that options refer to."""
    monkeypatch.chdir(tmp_path)
    shutil.copy(CASSETTES / "demo.db", "tape.db")
    shutil.copy(ssl.get_default_verify_paths().cafile or pytest.skip("no certificates here"), "CERTIFICATES")
    Path("ENV").write_text("TOKEN=s3cret\n")
    Path("EMPTY").touch()
    Path("CONFIG").write_text("{}")


def given(command: str, words: list[str]) -> OptionValues:
    """The values of a command line."""
    words = [command, *words, *NEEDED[command]]
    with cli.make_context("mcp-tape", list(words)) as top:
        found = cli.get_command(top, command)
        assert found is not None
        with found.make_context(command, words[1:], parent=top) as context:
            values = {row.name: context.params[row.name] for row in COMMANDS[command]}
            return OptionValues(**{name: value for name, value in values.items() if value is not None})


def words_of(row: Option) -> list[str]:
    texts = SAMPLES[row.name][0]
    return [row.flag] if row.kind == "flag" else [word for text in texts for word in (row.flag, text)]


def value_of(row: Option) -> Any:
    return SAMPLES[row.name][1]


def keyword_of(row: Option) -> dict[str, Any]:
    return {row.keyword: SAMPLES[row.name][-1]}


# The table ----------------------------------------------------------------------------------------------


def test_each_row_has_a_sample() -> None:
    assert SAMPLES.keys() == ROWS.keys()
    assert BAD.keys() == {row.name for row in ROWS.values() if row.parse or row.check or row.kind in KINDS} | CHOICES


KINDS = ("integer", "number", "seconds")
CHOICES = {"mode", "repeats", "order", "unanswered", "fail_on", "bodies"}


def test_a_name_and_a_flag_belong_to_one_row() -> None:
    rows = set().union(*COMMANDS.values())
    assert len({row.name for row in rows}) == len({row.flag for row in rows}) == len(rows)


def test_each_row_has_a_typed_value_with_its_default() -> None:
    assert set(OptionValues._fields) == ROWS.keys()
    for name, value in OptionValues()._asdict().items():
        row = ROWS[name]
        nothing = () if row.multiple or row.join == "," else False if row.kind == "flag" else None
        assert value == (nothing if row.default is None else row.default), name


def test_the_keywords_are_those_of_use_cassette() -> None:
    parameters = inspect.signature(use_cassette).parameters
    others = {"path", "stubs", "lock", "command", "servers", "block_live"}
    assert {row.keyword for row in KEYWORDS} == parameters.keys() - others
    for row in KEYWORDS:
        if row.keyword == row.name and not row.multiple:
            assert parameters[row.name].default in (row.default, ())


def test_choices_are_those_of_the_types() -> None:
    assert get_args(modes.Mode) == options.MODES


def test_help_names_defaults_that_are_computed_later() -> None:
    assert "[default: 64M]" in ROWS["max_decoded"].help
    assert parse_size("64M") == MAX_DECODED and RecordingOptions._field_defaults["max_decoded"] is None


def test_options_with_a_name_are_taken_by_record_replay_or_serve() -> None:
    fields = {*ReplayOptions._fields, *RecordingOptions._fields, *api.Web._fields}
    # These have another name, or control the others.
    apart = {"order", "no_redact", "of_files", "of_processes", "of_test", "listen", "allow_remote"}
    around = {row.name for row in options.AROUND}
    assert ROWS.keys() - fields == apart | around | {
        *(row.name for row in options.IN_PRODUCTION),  # a recorder gets these as one value
        "output",
        "of_client",
        "rotate",
        "keep",
        "header_env",
        "lock",
        "over_stdio",
        "was",
        "mode",
        "config",
        "quiet",
        "workers",
    }


@pytest.mark.parametrize(
    "name", [name for name in ROWS if name in {*ReplayOptions._fields, *RecordingOptions._fields, *api.Web._fields}]
)
def test_a_value_reaches_recordings_replays_and_servers(name: str) -> None:
    values = OptionValues(**{name: value_of(ROWS[name])})
    made = (api.replay_options(values), record_from((), values), web_from(values._replace(listen=("127.0.0.1", 0))))
    for one in made:
        assert not hasattr(one, name) or getattr(one, name) == value_of(ROWS[name])


# The command line ---------------------------------------------------------------------------------------


CASES = [pytest.param(command, row, id=f"{command} {row.flag}") for command, rows in COMMANDS.items() for row in rows]


@pytest.mark.slow(quick=19)
@pytest.mark.parametrize(("command", "row"), CASES)
def test_on_a_command_line(command: str, row: Option) -> None:
    with contextlib.closing(Handover(lambda: HANDED)) as test:
        there = {"SOCKET": test.path, "pid:SELF": f"pid:{os.getpid()}"}
        words = [there.get(word, word) for word in words_of(row)]
        found = getattr(given(command, words), row.name)
    assert found == value_of(row) or (row.name == "of_processes" and isinstance(found, tuple))
    if row.short:
        assert getattr(given(command, [row.short, *words[1:]]), row.name) == found


@pytest.mark.slow(quick=19)
@pytest.mark.parametrize("name", BAD)
def test_a_bad_value_on_a_command_line(name: str) -> None:
    command = next(command for command, rows in COMMANDS.items() if ROWS[name] in rows)
    with pytest.raises((click.BadParameter, TapeError)) as refused:
        given(command, [ROWS[name].flag, BAD[name][0]])
    assert BAD[name][1] in (str(refused.value) if name not in CHOICES else str(refused.value).replace("'", ""))


def test_an_option_that_is_not_given_has_its_default() -> None:
    for command in COMMANDS:
        assert given(command, []) == OptionValues()


@pytest.mark.slow(quick=19)
@pytest.mark.parametrize("name", [name for name in ROWS if not name.startswith("of_") and name != "header_env"])
def test_words_for_a_value_give_it_again(name: str) -> None:
    row, value = ROWS[name], value_of(ROWS[name])
    command = next(command for command in ("use", "replay", "record") if row in COMMANDS[command])
    values = OptionValues(**{name: value})
    assert given(command, options.words_for([row], values)) == values
    assert options.words_for([row], OptionValues()) == []


# Keywords and marks -------------------------------------------------------------------------------------

OF_BOTH = [row for row in KEYWORDS if row.name != "mode"]
UNSTRUCK = pytest.mark.filterwarnings("ignore:.* struck nothing")
names = pytest.mark.parametrize("row", OF_BOTH, ids=[row.keyword for row in OF_BOTH])


@names
@UNSTRUCK
def test_as_a_keyword(row: Option) -> None:
    expected = given("use", words_of(row))
    with use_cassette("tape.db", "none", **keyword_of(row)) as tape:
        used = tape._settings
    if row.keyword != "redactions":
        assert getattr(used.values, row.name) == getattr(expected, row.name)
        assert used.replay == api.replay_options(expected)
    assert used.web == api.Web(url=expected.url or "", headers=expected.headers, cacert=expected.cacert)


@names
@UNSTRUCK
def test_in_a_mark(row: Option, pytestconfig: pytest.Config) -> None:
    want = tape_settings.resolve_tape(pytestconfig, [keyword_of(row)], {})
    with use_cassette("tape.db", "none", **keyword_of(row)) as tape, use_cassette("tape.db", **want.keywords) as marked:
        assert marked._settings == tape._settings


HANDED_OVER = ["env", "env_from", "headers"]  # not on a command line, which every process can read
on_the_command_line = [row for row in OF_BOTH if row.name not in HANDED_OVER]


@pytest.mark.parametrize("row", on_the_command_line, ids=[row.keyword for row in on_the_command_line])
@UNSTRUCK
def test_in_the_words_for_a_recorder(row: Option) -> None:
    server = {} if row in (*options.WEB, options.AUTH) else {"command": ["server"]}
    server |= {"url": "https://example.com/mcp"} if row in (*options.UPSTREAM, options.AUTH) else {}
    with use_cassette("tape.db", "new_episodes", **server, **keyword_of(row)) as tape:
        words = tape._options  # type: ignore[attr-defined]
        words += options.words_for(options.WEB, tape._settings.values)
        tape.finish(keep=False)
    assert getattr(given("use", words), row.name) == value_of(row)


@pytest.mark.parametrize("name", HANDED_OVER)
def test_a_recorder_gets_the_values_that_are_handed_over(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A B", "\"=\n'")
    server = {"url": "https://example.com/mcp"} if name == "headers" else {"command": ["server"]}
    with use_cassette("tape.db", "all", **server, **keyword_of(ROWS[name])) as tape:
        words = tape._mcp_tape()  # type: ignore[attr-defined]
        handed = ask_test(words[words.index("--secrets-from") + 1])
        tape.finish(keep=False)
    expected = [("HOME", os.environ["HOME"]), ("A B", "\"=\n'")] if name == "env_from" else value_of(ROWS[name])
    assert list(handed.headers if name == "headers" else handed.env) == list(expected)


@pytest.mark.parametrize("name", [row.name for row in KEYWORDS if row.name in BAD and row.name not in LATE])
def test_a_bad_value_of_a_keyword_or_a_mark(name: str, pytestconfig: pytest.Config) -> None:
    bad = {name: BAD[name][-1] if len(BAD[name]) == 3 else BAD[name][0]}
    with pytest.raises(TapeError, match=re.escape(BAD[name][1])):
        use_cassette("tape.db", **{"mode": "none"} | bad)
    with pytest.raises((TapeError, pytest.fail.Exception), match=re.escape(BAD[name][1])):
        use_cassette("tape.db", **tape_settings.resolve_tape(pytestconfig, [bad], {}).keywords)

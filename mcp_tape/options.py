"""The table of options: those of record, replay and use, which `use_cassette`, marks and recorders share.

Every shape that an option takes is made from its row: click's (cli/click_options.py), the keyword of `use_cassette`
and of marks with its check (testing/use.py), and the words on the command line of a recorder (`words_for`). Each
command loads this file when it starts, so it imports nothing of the package, and is below all of it: a row *names*
the function that reads or checks its value, which is loaded with the first value that was given.
"""

from __future__ import annotations

from collections import namedtuple

TYPE_CHECKING = False  # as in the package's __init__
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

MODES = ("none", "once", "new_episodes", "all", "rewrite")
UNPLAYED = ("ignore", "warn", "error")
MAX_DECODED = 64 * 10**6  # bytes that a compressed body may have when it is not: a bomb of 64 kB has as many

JSON_PATH = "wire.jsonpath:JsonPath"

_Row = namedtuple(
    "_Row",
    "name flag help metavar kind multiple default keyword parse check noun functions join counts hidden short",
    defaults=(None, "text", False, None, None, None, None, None, None, None, None, False, None),
)


class Option(_Row):
    """A row.

    name      of the value where options are given by name
    flag      on a command line; `short` is another
    help      and `metavar`, and `default` if there is one, are shown in help texts
    kind      text, path, file (which is there), integer, number (0 or more), seconds (more than 0), flag, or choices
    multiple  may be given several times
    keyword   of `use_cassette` and of marks, if they have it
    parse     module:function that makes the value of a text; ValueError says why it makes none
    check     module:function that refuses a text with a ValueError, or a part of what was parsed
    noun      for a text that is refused as a keyword's
    functions name of those that may stand beside the texts of a keyword
    join      between the parts of a value on a command line
    counts    url: only with the URL of a server; listening: only where clients come over HTTP
    hidden    from help: for recorders that a test starts
    """

    __slots__ = ()

    def taken(self, given: Any) -> Any:
        """Return the value of what was given on a command line. ValueError: why it is none."""
        if given is None or given == self.default or not (self.parse or self.check):
            return given
        return tuple(map(self._read, given)) if self.multiple else self._read(given)

    def _read(self, text: str) -> Any:
        if not self.parse:
            return self.checked(text)
        value = _named(self.parse)(text)
        return tuple(map(self.checked, value)) if self.check else value

    def checked(self, text: str) -> str:
        """Return a text that its check does not refuse with a ValueError."""
        _named(self.check)(text)
        return text


def _named(name: str) -> Callable[[str], Any]:
    from importlib import import_module

    module, _, function = name.partition(":")
    found: Callable[[str], Any] = getattr(import_module(f".{module}", __package__), function)
    return found


def words_for(rows: Iterable[Option], given: Mapping[str, Any]) -> list[str]:
    """Return the words of a command line that give these values, by name. A default need not be given."""
    found: list[str] = []
    for row in rows:
        value = given.get(row.name)
        if not value or value == row.default:
            continue
        for one in value if row.multiple else (value,):
            text = str(one) if row.join is None else row.join.join(map(str, one))
            found += [row.flag] if row.kind == "flag" else [row.flag, text]
    return found


def known(given: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Return the variables of other processes and files, of the values by name: what they hold is hidden too."""
    several = *given.get("of_files", ()), *given.get("of_processes", ()), given.get("of_test") or ()
    return tuple(pair for pairs in several for pair in pairs)


OUTPUT = Option(
    "output", "--output", "The cassette. Default: cassettes/NAME.db in a project, else in your data directory; NAME is "
    "made from the command or the URL.", "FILE", "path", short="-o",
)  # fmt: skip
MODE = Option(
    "mode", "--mode", "none: only replay. once: record if there is nothing to play. new_episodes: record what misses. "
    "all: always record. rewrite: record anew, and replace the cassette if that ends well.",
    kind=MODES, default="once", keyword="mode",
)  # fmt: skip
URL = Option(
    "url", "--url", "The HTTP server, instead of a command.", "URL",
    keyword="url", check="transports.http.addresses:check_url",
)  # fmt: skip
UPSTREAM = (
    Option("headers", "--header", "Send this header to the server with every request, e.g. 'Authorization: Bearer …'.",
           "'K: V'", multiple=True, keyword="headers", parse="values:header", join=": ", counts="url"),
    Option("cacert", "--cacert", "Trust this certificate authority, and no other.", "FILE", "file",
           keyword="cacert", check="values:check_certificates", counts="url"),
)  # fmt: skip
LISTEN = Option(
    "listen", "--listen", "Serve HTTP here; port 0 picks a free one. The URL is printed on stdout.", "HOST:PORT",
    parse="transports.http.addresses:host_and_port", join=":", counts="url",
)  # fmt: skip
LISTENING = (
    LISTEN,
    Option("allow_remote", "--allow-remote", "Let --listen name an address that other machines can reach.",
           kind="flag"),
    Option("head_timeout", "--head-timeout", "Over HTTP, how long the head of a request may take. Default: 30.",
           "SECONDS", "seconds", counts="listening"),
)  # fmt: skip
MAX_BODY = Option(
    "max_body", "--max-body", "Over HTTP, refuse larger requests to a replay with status 413, e.g. 800k or 1G. "
    "Default: 64M.", "SIZE", parse="values:parse_size", counts="listening",
)  # fmt: skip
NOTE = Option("note", "--note", "A remark, kept with the session.", "TEXT", keyword="note")
REDACT = (
    Option("redact_keys", "--redact-key", "Hide strings under this key too.", "KEY",
           multiple=True, keyword="redact_keys"),
    Option("redact_paths", "--redact-path", "Hide what stands at this place, e.g. '$.params.arguments.pin'.",
           "JSONPATH", multiple=True, keyword="redact_paths", check=JSON_PATH),
    Option("redact_values", "--redact-value", "Hide text that this regular expression finds.", "REGEX",
           multiple=True, keyword="redact_values", check="values:check_pattern", noun="regular expression"),
    Option("redact_with", "--redact-with", "Hide what this Python function of a text hides.", "MODULE:FUNCTION",
           multiple=True, keyword="redactions", check="values:named_function"),
)  # fmt: skip
KNOWN = (
    Option("of_files", "--env-file", "Hide the values of secret variables in this .env file too.", "FILE",
           multiple=True, parse="redaction.environment:from_file"),
    Option("of_processes", "--redact-env-from", "Hide the values of secret variables of other processes too: parents "
           "(those that started mcp-tape) or pid:N. Linux only.", "WHO",
           multiple=True, parse="transports.handover:from_process"),
)  # fmt: skip
NO_REDACT = Option(
    "no_redact", "--no-redact", "Keep secrets. The cassette is then one itself.", kind="flag", keyword="redact"
)
RECORDING = (
    NOTE,
    *REDACT,
    *KNOWN,
    Option("of_test", "--secrets-from", "Where a test tells what to hide.", "SOCKET",
           parse="transports.handover:received", hidden=True),
    Option("max_decoded", "--max-decoded", "Leave out the body of an HTTP message that has more bytes than this when "
           "decompressed.  [default: 64M]", "SIZE", parse="values:parse_size"),
    NO_REDACT,
)  # fmt: skip
REPLAYING = (
    Option("session", "--session", "latest, all or a number; latest: the newest that is more than a probe, and what "
           "extends it.", default="latest", keyword="session", check="values:check_session"),
    Option("ignore", "--ignore", "Leave this out when requests are compared, e.g. '$.params.arguments.now'.",
           "JSONPATH", multiple=True, keyword="ignore", check=JSON_PATH),
    Option("match_on", "--match-on", "Compare only these, e.g. '$.params.name'.", "JSONPATH,...",
           keyword="match_on", parse="wire.jsonpath:split_paths", check=JSON_PATH, functions="rules", join=","),
    Option("repeats", "--repeats", "More requests than recorded: a miss, the last answer, or start over. Default: "
           "error; cycle for clients of the modern era over HTTP, who share one tape.",
           kind=("error", "last", "cycle"), keyword="repeats"),
    Option("order", "--order", "Answer concurrent calls as they arrive, or in the order recorded.",
           kind=("arrival", "recorded"), default="arrival", keyword="order"),
    Option("speed", "--speed", "0: never wait. 1: as slow as it was. 2: twice as fast.",
           kind="number", default=0.0, keyword="speed"),
    Option("faults", "--fault", "Break an answer, e.g. 'tools/call:search@2=error:-32000'.", "TARGET=FAULT",
           multiple=True, keyword="faults", check="replay.faults:parse", noun="fault", functions="choosers"),
    Option("seed", "--seed", "For faults that happen by chance.", kind="integer", default=0, keyword="seed"),
    Option("strict", "--strict", "Recorded requests that nobody made are a finding too (exit 1).", kind="flag"),
    Option("report", "--report", "Append what happens, as JSON lines.", "FILE", check="values:check_appendable"),
)  # fmt: skip
IN_PLACE_OF = Option(
    "in_place_of", "--in-place-of", "The cassette that FILE stands for in reports.", "PATH", hidden=True
)
COMMON = (
    Option("run", "--run", "Commands with the same ID are one run: recorded together, replayed in that order. Give "
           "each run a new one. Default: $MCP_TAPE_RUN; for use and replay else the program that started them.", "ID"),
    Option("quiet", "--quiet", "Say nothing unless something is wrong.", kind="flag", short="-q"),
)  # fmt: skip

WEB = (URL, *UPSTREAM)
RECORD = (OUTPUT, *WEB, *LISTENING, *RECORDING, *COMMON)
REPLAY = (*REPLAYING, *REDACT, *LISTENING, MAX_BODY, *COMMON)
USE = (MODE, *WEB, *LISTENING, MAX_BODY, *REPLAYING, IN_PLACE_OF, *RECORDING, *COMMON)

"""The table of options for record, replay and use, shared by `use_cassette`, marks and recorders.

Every form of an option is made from its row: the click option (cli/click_options.py), the keyword of `use_cassette` and
of marks with its check (testing/use.py), and the words on a recorder's command line (`words_for`). All forms end in one
typed value, `OptionValues`. Each command loads this file when it starts, so it imports nothing heavy: a row *names* the
function that parses or checks its value, which is imported for the first given value, from a lower room.
"""

from __future__ import annotations

from .light import NamedTuple

TYPE_CHECKING = False  # as in the package's __init__
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any, Literal

    from .redaction.environment import Pairs
    from .replay.deck import Unanswered
    from .replay.finder import Repeats
    from .transports.environment_handover import RecorderEnvironment

    Mode = Literal["none", "once", "new_episodes", "all", "rewrite"]

MODES = ("none", "once", "new_episodes", "all", "rewrite")
LEVELS = ("ignore", "warn", "error")  # for unplayed requests and inexact answers in a test
FORMATS = ("db", "jsonl")  # of a suite's cassettes; also their file suffixes

JSON_PATH = "wire.jsonpath:JsonPath"
MATCHING = "replay.matching.targets"


class Option(NamedTuple):
    """A row of the table.

    name        the field of `OptionValues`
    flag        on a command line; `short` is an alias
    help        shown in help texts, as are `metavar` and `default`
    kind        text, path, file (existing), integer, number (0 or more), seconds (more than 0), flag, or choices
    multiple    may be given several times
    keyword     of `use_cassette` and of marks, if they have it
    parse       module:function that makes the value from a text, or raises ValueError
    check       module:function that refuses a text, or a part of the parsed value, with a ValueError
    noun        for the error if a keyword's text is refused
    may_be_one  as a keyword, a single text means a list of one
    functions   the name for functions that a keyword accepts beside texts
    join        between the parts of a value on a command line
    counts      url: only with a server's URL; command: only with its command; listening: only if clients come over HTTP
    hidden      not in help: for recorders that a test starts
    """

    name: str
    flag: str
    help: str
    metavar: str | None = None
    kind: str | tuple[str, ...] = "text"
    multiple: bool = False
    default: Any = None
    keyword: str | None = None
    parse: str | None = None
    check: str | None = None
    noun: str | None = None
    may_be_one: bool = False
    functions: str | None = None
    join: str | None = None
    counts: str | None = None
    hidden: bool = False
    short: str | None = None

    def convert(self, given: Any) -> Any:
        """Return the value for a text given on a command line. Raises ValueError."""
        if given is None or given == self.default or not (self.parse or self.check):
            return given
        return tuple(map(self._read, given)) if self.multiple else self._read(given)

    def _read(self, text: str) -> Any:
        if not self.parse:
            return self.check_text(text)
        value = _import_function(self.parse)(text)
        return tuple(map(self.check_text, value)) if self.check else value

    def check_text(self, text: str) -> str:
        """Return the text if its check accepts it. Raises ValueError."""
        assert self.check
        _import_function(self.check)(text)
        return text


def _import_function(name: str) -> Callable[[str], Any]:
    from importlib import import_module

    module, _, function = name.partition(":")
    found: Callable[[str], Any] = getattr(import_module(f".{module}", __package__), function)
    return found


class OptionValues(NamedTuple):
    """The values of options, by their names in the table.

    Options that are not given, or that the command does not have, keep their defaults.
    """

    output: str | None = None
    of_client: str | None = None
    rotate: int | None = None
    keep: int | None = None
    sample: str | None = None
    sample_seed: str | None = None
    bodies: str = "full"
    on_rotate: str | None = None
    hook_timeout: float | None = None
    otlp: str | None = None
    mode: Mode = "once"
    config: str | None = None
    url: str | None = None
    env: Pairs = ()
    env_from: tuple[str, ...] = ()
    cwd: str | None = None
    headers: Pairs = ()
    cacert: str | None = None
    header_env: Pairs = ()
    over_stdio: bool = False
    was: str | None = None
    listen: tuple[str, int] | None = None
    allow_remote: bool = False
    head_timeout: float | None = None
    auth: bool = False
    max_body: int | None = None
    workers: int | None = None
    note: str | None = None
    redact_keys: tuple[str, ...] = ()
    redact_paths: tuple[str, ...] = ()
    redact_values: tuple[str, ...] = ()
    redact_with: tuple[str, ...] = ()
    of_files: tuple[Pairs, ...] = ()
    of_processes: tuple[Pairs, ...] = ()
    of_test: RecorderEnvironment | None = None
    max_decoded: int | None = None
    no_redact: bool = False
    lock: str | None = None
    session: str = "latest"
    ignore: tuple[str, ...] = ()
    match_on: tuple[str, ...] = ()
    normalize: tuple[str, ...] = ()
    match: tuple[str, ...] = ()
    repeats: Repeats | None = None
    order: str = "arrival"
    unanswered: Unanswered = "error"
    speed: float = 0.0
    faults: tuple[str, ...] = ()
    seed: int = 0
    strict: bool = False
    fail_on: str | None = None
    report: str | None = None
    replay_prefix: bool = False
    new_times: bool = False
    in_place_of: str | None = None
    label: str | None = None
    run: str | None = None
    quiet: bool = False


def is_given(row: Option, values: OptionValues) -> bool:
    """Return whether an option differs from its default."""
    return bool(getattr(values, row.name) != getattr(OptionValues(), row.name))


def words_for(rows: Iterable[Option], values: OptionValues) -> list[str]:
    """Return the words of a command line for these values, without defaults."""
    found: list[str] = []
    for row in rows:
        value = getattr(values, row.name)
        if value and value != row.default:
            for one in value if row.multiple else (value,):
                text = str(one) if row.join is None else row.join.join(map(str, one))
                found += [row.flag] if row.kind == "flag" else [row.flag, text]
    return found


def known_variables(values: OptionValues) -> Pairs:
    """Return the variables of the server, other processes and files, whose secret values are redacted, too."""
    several = *values.of_files, *values.of_processes, values.of_test.secrets if values.of_test else ()
    return (*values.env, *(pair for pairs in several for pair in pairs))


OUTPUT = Option(
    "output", "--output", "The cassette. Default: cassettes/NAME.db in a project, else in your data directory; NAME "
    "comes from the command or the URL.", "FILE", "path", short="-o",
)  # fmt: skip
FOR_CLIENT = Option(
    "of_client", "--for", "The client and server, as mcp-tape wrap writes them: the cassette is CLIENT/SERVER.db in "
    "your data directory.", "CLIENT/SERVER",
)  # fmt: skip
ORIGINAL_ENTRY = Option(
    "was", "--was", "The original entry of a client, for mcp-tape wrap --undo.", "TEXT", hidden=True
)
ROTATION = (
    Option("rotate", "--rotate", "Continue in another cassette (FILE-2.db, FILE-3.db …) once this one has reached this "
           "size and no exchange is open, or at three times the size. Default with --for: 50M.", "SIZE",
           parse="values:parse_size"),
    Option("keep", "--keep", "With --rotate, keep this many cassettes and remove older ones; with --on-rotate, only "
           "those that its command has processed. Default: keep all; with --for, 20.", "N", parse="values:parse_count"),
)  # fmt: skip
IN_PRODUCTION = (
    Option("sample", "--sample", metavar="N%", check="record.production.sampling:parse_share", help="Record this "
           "share of the sessions, chosen at random when each begins. Nothing of the others is kept."),
    Option("sample_seed", "--sample-seed", metavar="TEXT", hidden=True, help="The seed of the random choice."),
    Option("bodies", "--bodies", kind=("full", "hash", "none"), default="full", help="Store message "
           "contents in full; as a hash of each value, so that recordings still compare; or as sizes only."),
    Option("on_rotate", "--on-rotate", metavar="CMD", check="record.production.hooks:parse", help="With --rotate, run "
           "this command for each finished cassette; {} is its path. No shell is used."),
    Option("hook_timeout", "--hook-timeout", metavar="SECONDS", kind="seconds", help="With --on-rotate, the "
           "time limit of one run, and of all runs at the end. Default: 60."),
    Option("otlp", "--otlp", metavar="URL", check="transports.http.addresses:check_url", help="Send a span for each "
           "finished call to this OpenTelemetry collector. Spans are dropped if it cannot keep up."),
)  # fmt: skip
MODE = Option(
    "mode", "--mode", "none: only replay. once: record if there is nothing to replay. new_episodes: record misses. "
    "all: always record. rewrite: record again, and replace the cassette if nothing failed.",
    kind=MODES, default="once", keyword="mode",
)  # fmt: skip
CONFIG = Option(
    "config", "--config", "Run a program with every server of this configuration (mcpServers, or VS Code's servers) "
    "replaced by its tape. {config} in the command, and MCP_TAPE_CONFIG, name the changed copy.", "FILE", "file",
)  # fmt: skip
URL = Option(
    "url", "--url", "Use the HTTP server at this URL instead of a command.", "URL",
    keyword="url", check="transports.http.addresses:check_url",
)  # fmt: skip
UPSTREAM = (
    Option("headers", "--header", "Send this header to the server with every request, e.g. 'Authorization: Bearer …'.",
           "'K: V'", multiple=True, keyword="headers", parse="values:header", join=": ", counts="url"),
    Option("cacert", "--cacert", "Trust only this certificate authority.", "FILE", "file",
           keyword="cacert", check="values:check_certificates", counts="url"),
)  # fmt: skip
HEADER_ENV = Option(
    "header_env", "--header-env", "Send this header with the value of the environment variable of that name, or of "
    "VARIABLE. This keeps a token off the command line.", "NAME[=VARIABLE]", multiple=True,
    parse="values:header_of_variable", join="=", counts="url",
)  # fmt: skip
OVER_STDIO = Option(
    "over_stdio", "--stdio", "With --url, talk to the client on stdin and stdout, for clients that start servers.",
    kind="flag", counts="url",
)  # fmt: skip
CWD = Option("cwd", "--cwd", "Start the server in this directory.", "DIR", "path", keyword="cwd", counts="command")
AROUND = (
    Option("env", "--env", "Set this variable for the server. Its value is not stored; under a secret name it "
           "is hidden in messages too.", "NAME=VALUE", multiple=True, keyword="env", parse="values:variable", join="=",
           counts="command"),
    Option("env_from", "--env-from", "Pass the server this variable from a parent process, if the client has not "
           "passed it on. Linux only.", "NAME", multiple=True, keyword="env_from",
           check="values:check_variable", noun="name of a variable", counts="command"),
    CWD,
)  # fmt: skip
LISTEN = Option(
    "listen", "--listen", "Serve HTTP here; port 0 picks a free one. The URL is printed on stdout.", "HOST:PORT",
    parse="transports.http.addresses:host_and_port", join=":", counts="url",
)  # fmt: skip
LISTENING = (
    LISTEN,
    Option("allow_remote", "--allow-remote", kind="flag", help="Allow --listen at an address that other machines can "
           "reach."),
    Option("head_timeout", "--head-timeout", "The time limit for the head of an HTTP request. Default: 30.",
           "SECONDS", "seconds", counts="listening"),
)  # fmt: skip
MAX_BODY = Option(
    "max_body", "--max-body", metavar="SIZE", parse="values:parse_size", counts="listening", help="Refuse larger "
    "HTTP requests to a replay with status 413, e.g. 800k or 1G. Default: 64M.",
)  # fmt: skip
AUTH = Option(
    "auth", "--auth", "Let in only clients that log in, at an authorization server that the replay makes up.",
    kind="flag", default=False, keyword="auth", counts="listening",
)  # fmt: skip
WORKERS = Option(
    "workers", "--workers", metavar="N", parse="values:parse_count", counts="listening", help="With --listen, serve "
    "clients with N processes at one address. A session stays with its process.",
)  # fmt: skip
NOTE = Option("note", "--note", "A remark, stored with the session.", "TEXT", keyword="note")
REDACT = (
    Option("redact_keys", "--redact-key", "Also hide strings under this key.", "KEY",
           multiple=True, keyword="redact_keys"),
    Option("redact_paths", "--redact-path", "Also hide the value at this path, e.g. '$.params.arguments.pin'.",
           "JSONPATH", multiple=True, keyword="redact_paths", check=JSON_PATH),
    Option("redact_values", "--redact-value", "Also hide text that this regular expression matches.", "REGEX",
           multiple=True, keyword="redact_values", check="values:check_pattern", noun="regular expression"),
    Option("redact_with", "--redact-with", "Also hide what this Python function removes from each text.",
           "MODULE:FUNCTION", multiple=True, keyword="redactions", check="values:named_function"),
)  # fmt: skip
SECRET_SOURCES = (
    Option("of_files", "--env-file", "Also hide the values of secret variables in this .env file.", "FILE",
           multiple=True, parse="redaction.environment:read_env_file"),
    Option("of_processes", "--redact-env-from", "Also hide the values of secret variables of other processes: parents "
           "(those that started mcp-tape) or pid:N. Linux only.", "WHO",
           multiple=True, parse="transports.environment_handover:from_process"),
)  # fmt: skip
NO_REDACT = Option(
    "no_redact", "--no-redact", "Store secrets. The cassette is then a secret itself.", kind="flag", keyword="redact"
)
RECORDING = (
    NOTE,
    *REDACT,
    *SECRET_SOURCES,
    Option("of_test", "--secrets-from", "The socket at which a test passes secrets and variables.", "SOCKET",
           parse="transports.environment_handover:ask_test", hidden=True),
    Option("max_decoded", "--max-decoded", "Do not store an HTTP body that is larger than this when decompressed. "
           " [default: 64M]", "SIZE", parse="values:parse_size"),
    NO_REDACT,
)  # fmt: skip
CHOOSING = (  # what plays, and how it is matched
    Option("session", "--session", "latest, all or a number. latest: the newest session that is not a probe, and those "
           "that extend it.", default="latest", keyword="session", check="values:check_session"),
    Option("ignore", "--ignore", "If no recording is equal, ignore this value, e.g. '$.params.arguments.now', or "
           "'tools/call:search=$.params.arguments.repo' for one tool.", "[TARGET=]JSONPATH",
           multiple=True, keyword="ignore", check=f"{MATCHING}:check_path"),
    Option("match_on", "--match-on", "If no recording is equal, compare only these values, e.g. '$.params.name'.",
           "[TARGET=]JSONPATH,...", keyword="match_on", parse="wire.jsonpath:split_paths",
           check=f"{MATCHING}:check_path", functions="rules", join=","),
    Option("normalize", "--normalize", "Then allow these to differ: paths (temporary, home), times, uuids, ports, "
           "case, space, numbers:TOLERANCE, or values that a Python function (MODULE:FUNCTION) makes equal. Answers "
           "get the live paths, uuids and ports.", "[TARGET=]NAME",
           multiple=True, keyword="normalize", check=f"{MATCHING}:check_normalizer", functions="normalizers"),
    Option("match", "--match", "nearest: then answer a reworded question to the same tool, if its text is at least N "
           "similar, from 0 to 1 (default 0.9). Default: exact.",
           "[TARGET=]nearest[:N]",
           multiple=True, keyword="match", check=f"{MATCHING}:check_manner", may_be_one=True),
    Option("repeats", "--repeats", "When a request comes more often than recorded: a miss, the last answer again, or "
           "start over. Default: error; cycle for clients of the modern era over HTTP, which share one tape.",
           kind=("error", "last", "cycle"), keyword="repeats"),
)  # fmt: skip
REPLAYING = (
    *CHOOSING,
    Option("order", "--order", "Answer concurrent calls as they arrive, or in the recorded order.",
           kind=("arrival", "recorded"), default="arrival", keyword="order"),
    Option("unanswered", "--unanswered", "What a call gets if the recording has no answer to it: an error; "
           "nothing; or, if the server ended during the call, the end of the server with its exit code.",
           kind=("error", "silent", "exit"), default="error", keyword="unanswered"),
    Option("speed", "--speed", "0: answer at once. 1: as slow as recorded. 2: twice as fast.",
           kind="number", default=0.0, keyword="speed"),
    Option("faults", "--fault", "Break an answer, e.g. 'tools/call:search@2=error:-32000'.", "TARGET=FAULT",
           multiple=True, keyword="faults", check="replay.faults:parse_fault", noun="fault", functions="choosers"),
    Option("seed", "--seed", "The seed of faults that strike at random.", kind="integer", default=0, keyword="seed"),
    Option("strict", "--strict", "Exit with 1, too, if a recorded request was not made, an HTTP request was refused, "
           "or a fault struck nothing.", kind="flag"),
    Option("fail_on", "--fail-on", "Exit with 1, too, if an answer was inexact.", kind=("inexact",)),
    Option("report", "--report", "Append misses and other events to this file, as JSON lines.", "FILE",
           check="values:check_appendable"),
)  # fmt: skip
LIVE = (
    Option("replay_prefix", "--replay-prefix", "new_episodes: before a miss goes to the live server, repeat the calls "
           "that the tape has answered so far. For servers with state.",
           kind="flag", default=False, keyword="replay_prefix"),
    Option("new_times", "--new-times", "rewrite: replace the cassette even if only times have changed; in text, give "
           "every line its new time.", kind="flag", default=False, keyword="new_times"),
)  # fmt: skip
IN_PLACE_OF = Option("in_place_of", "--in-place-of", "The name of FILE in reports.", "PATH", hidden=True)
LABEL = Option(
    "label", "--server", "The server's name, if a cassette has several: record under it, replay only its sessions.",
    "NAME", check="values:check_label",
)  # fmt: skip
COMMON = (
    LABEL,
    Option("run", "--run", "Commands with the same ID are one run: recorded together, replayed in that order. Give "
           "each run a new ID. Default: $MCP_TAPE_RUN; for use and replay, else the parent process.", "ID"),
    Option("quiet", "--quiet", "Print nothing unless something is wrong.", kind="flag", short="-q"),
)  # fmt: skip

WEB = (URL, *UPSTREAM)
OF_SERVER = (*AROUND, *WEB, HEADER_ENV, OVER_STDIO, ORIGINAL_ENTRY, *LISTENING)
RECORD = (OUTPUT, FOR_CLIENT, *ROTATION, *OF_SERVER, *RECORDING, *IN_PRODUCTION, *COMMON)
LOCK = Option(
    "lock", "--lock", "If FILE holds stubs: take the handshake, lists and schemas from this lock.", "LOCK", "path",
)  # fmt: skip
REPLAY = (LOCK, *REPLAYING, *REDACT, *LISTENING, AUTH, MAX_BODY, WORKERS, *COMMON)
USE = (MODE, CONFIG, *AROUND, *WEB, *LISTENING, AUTH, MAX_BODY, *REPLAYING, *LIVE, IN_PLACE_OF, *RECORDING, *COMMON)

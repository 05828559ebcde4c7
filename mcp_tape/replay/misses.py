"""Reports of misses and of inexact answers: the nearest recording, the differences, and the remedies."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from ..cassette.lookup.messages import Position, RecordedMessage
from ..redaction.diagnostics import DiagnosticRedactor
from ..wire import channels, jsontext, match, protocol
from ..wire.frames import Message
from ..wire.jsonpath import path_text
from ..wire.jsontext import Path
from .selection import Selection
from .sends import UNANSWERED

if TYPE_CHECKING:
    from .finder import RungMatch
    from .matching.ladder import MatchingPlan
    from .sends import ClientCall

_NEAREST = 3
_LOOKED_AT = 300  # most recordings compared: a report must not take seconds
_READ = 8 << 20  # most bytes of them read, for the same reason
_SHOWN_PATHS = 8
_SHOWN_TEXT = 120
_RUNGS = {
    "ignore": "equal except for ignored parts",
    "match_on": "equal in the parts that count",
    "normalize": "equal once normalized",
}
_TO_DO = "\n  what to do:"
_OTHER_ERA = (
    f"this tape is of the modern era ({protocol.MODERN_VERSION}, no handshake), and the client sent "
    "initialize; use a client that speaks it, or record again with this one"
)


class Advice(NamedTuple):
    """A remedy for a miss: an option with its value, or `show`. `why` describes when to use it."""

    why: str
    what: Literal["session", "ignore", "normalize", "match", "repeats", "mode", "show"]
    value: str = ""


class MissReport(NamedTuple):
    headline: str
    text: str
    data: dict[str, Any]
    advice: tuple[Advice, ...] = ()


class _NearRecording(NamedTuple):
    distance: tuple[bool, int]
    recorded: RecordedMessage
    played: bool
    asked: Any
    differing: list[tuple[Path, Any, Any]]


class RequestDifference(NamedTuple):
    """A difference as shown in reports: redacted first, then cut."""

    path: str
    recorded: str
    live: str


_Shown = tuple[_NearRecording, list[RequestDifference]]


def legacy_handshake(selection: Selection, asked: Message) -> str:
    """The result of `initialize` for a legacy client, made from the facts on a modern tape.

    The revision is the client's. Declares only the capabilities that a legacy client can use with this tape: legacy
    subscriptions and log levels are requests that the modern era does not have.
    https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle#initialization
    """
    known = _discovery(selection)
    offered = protocol.member(asked.body.get("params"), "protocolVersion")
    names = selection.names(selection.sessions[0])
    server = known.get("serverInfo") or protocol.member(known.get("_meta"), protocol.META_SERVER)
    result = {
        "protocolVersion": offered if offered in protocol.LEGACY_VERSIONS else protocol.LAST_LEGACY_VERSION,
        "capabilities": protocol.legacy_capabilities(known.get("capabilities"), selection.has_method),
        "serverInfo": server or {"name": names.server_name or "", "version": names.server_version or ""},
    }
    return jsontext.compact_text(result | {key: known[key] for key in ("instructions",) if key in known})


def _discovery(selection: Selection) -> dict[str, Any]:
    """The recorded result of `server/discover`, if any."""
    found = selection.newest(protocol.DISCOVER)
    answer = selection.answer(found) if found else None
    result = selection.message(answer).body.get("result") if answer else None
    return result if isinstance(result, dict) else {}


def report_miss(
    selection: Selection,
    taken: set[Position],
    message: Message,
    known: bool,
    plan: MatchingPlan | None,
    contradiction: Callable[[Message, RecordedMessage], str | None],
    discreet: DiagnosticRedactor,
    found: RecordedMessage | None = None,
) -> MissReport:
    """Report why a live request has no answer on the tape. Secrets are redacted.

    `found`: the recorded request, if it has an answer that the client's older revision can't express.
    """
    try:
        if found is not None:
            return _report_newer_answer(selection, message, found, discreet)
        return _build_report(selection, taken, message, known, plan, contradiction, discreet)
    except Exception:  # the cassette is untrusted, and writing a report must not fail the request
        return _short_report(selection, message, discreet)


def _short_report(selection: Selection, message: Message, discreet: DiagnosticRedactor) -> MissReport:
    """A report for a tape whose recordings cannot be compared."""
    call = discreet.call(message)
    headline = f"{call} is not on the tape"
    why = f"  {headline}; the nearest request cannot be determined\n    mcp-tape check {shlex.quote(selection.path)}"
    return MissReport(headline, f"miss: {call}\n{why}", {"cassette": selection.path, "nearest": []})


def _build_report(
    selection: Selection,
    taken: set[Position],
    message: Message,
    known: bool,
    plan: MatchingPlan | None,
    contradiction: Callable[[Message, RecordedMessage], str | None],
    discreet: DiagnosticRedactor,
) -> MissReport:
    call = discreet.call(message)
    if not known:
        method = discreet.remark(message.method or "")
        headline = _unknown_method(selection, method)
        advice = _recording_advice(selection, message, selection.sessions[0])
        text = add_advice(f"miss: {call}\n  {headline}", advice, _command_phraser(selection))
        return MissReport(headline, text, {"cassette": selection.path, "method": method}, advice)
    near = _show_nearest(_nearest_recordings(selection, taken, message, plan), message, discreet)
    contradicted = contradiction(message, near[0][0].recorded) if near and plan is not None else None
    is_played_out = near and not near[0][0].differing and near[0][0].played and not contradicted
    headline = f"{call} is played out" if is_played_out else f"{call} is not on the tape with these params"
    if message.method == protocol.INITIALIZE and selection.is_modern(selection.sessions[0]):
        headline = _OTHER_ERA
    lines = [f"miss: {call}", f"  {headline}", f"  {selection.path}, played so far: {len(taken)}"]
    if contradicted:
        lines.append(f"  {discreet.remark(contradicted)}")
    lines += [line for one in near for line in _describe_nearest(selection, one, discreet)]
    elsewhere = _session_elsewhere(selection, message)
    if elsewhere is not None and _is_of_other_era(selection, elsewhere):
        lines.append(f"  session {elsewhere} has it, but is of the other era: its answers are not for this client")
        elsewhere = None
    session = elsewhere or (near[0][0].recorded.session if near else selection.sessions[0])
    record = _recording_advice(selection, message, session)
    is_bent = contradicted and not near[0][0].differing  # no option would help
    advice = record if is_bent else _advice(selection, message, near, plan, elsewhere, record, discreet)
    data = {"cassette": selection.path, "call": call, "nearest": [_as_data(one) for one in near]}
    return MissReport(headline, add_advice("\n".join(lines), advice, _command_phraser(selection)), data, advice)


def _report_newer_answer(
    selection: Selection, message: Message, recorded: RecordedMessage, discreet: DiagnosticRedactor
) -> MissReport:
    kind = selection.modern_result(recorded)
    headline = f"the recorded answer is of the kind {kind}, which the client's older revision of MCP does not have"
    return _report_found(selection, message, recorded, headline, discreet)


def report_unanswered(
    selection: Selection, message: Message, recorded: RecordedMessage, discreet: DiagnosticRedactor
) -> MissReport:
    """Report a request that is on the tape without its answer."""
    return _report_found(selection, message, recorded, _why_unanswered(selection, recorded), discreet)


def _report_found(
    selection: Selection, message: Message, recorded: RecordedMessage, headline: str, discreet: DiagnosticRedactor
) -> MissReport:
    """Report a request that is on the tape without a usable answer."""
    call = discreet.call(message)
    advice = (*_rewrite_advice(selection), _show_advice(selection, recorded.session))
    why = f"miss: {call}\n  {headline}: {selection.place(recorded)} in {selection.path}"
    data = {"cassette": selection.path, "call": call, "session": recorded.session, "seq": recorded.seq}
    return MissReport(headline, add_advice(why, advice, _command_phraser(selection)), data, advice)


def _why_unanswered(selection: Selection, recorded: RecordedMessage) -> str:
    key = _why_unanswered, recorded.session, recorded.seq  # all calls of a batch have one exchange
    known: tuple[set[str | None], str] | None = selection.cache.get(key)
    if known is None:
        noise = (row for row in selection.of_exchange(recorded) if row.kind == "noise")
        known = {selection.broken_id(row) for row in noise}, _describe_ending(selection, recorded)
        selection.cache.put(key, known)
    return "the recorded answer is not valid JSON" if recorded.rpc_id in known[0] else known[1]


def _describe_ending(selection: Selection, recorded: RecordedMessage) -> str:
    by, code = selection.ending(recorded)
    if by == "server":
        how = "closed the connection" if code is None else f"exited with code {code}"
        return f"the recorded server {how} before it answered"
    if not selection.is_last(recorded):
        return "the recorded server never answered"
    return UNANSWERED if by is None else "the recorded client left before the answer"


def add_advice(text: str, advice: Iterable[Advice], words: Callable[[Advice], str]) -> str:
    """Return a miss report with its advice, phrased by `words`: a command line, or Python."""
    lines = [f"\n    # {each.why}\n    {words(each)}" for each in advice]
    return text.partition(_TO_DO)[0] + (_TO_DO + "".join(lines) if lines else "")


def as_argument(advice: Advice) -> str:
    """Return advice as an argument of a Python function."""
    value = [advice.value] if advice.what in ("ignore", "normalize") else advice.value
    return f"{advice.what}={jsontext.compact_text(value)}"


def _unknown_method(selection: Selection, method: str) -> str:
    if method == protocol.INITIALIZE and selection.has_method(protocol.DISCOVER):
        return f"Method not found: {_OTHER_ERA}"
    return f"Method not found: no session on {selection.path} has {method}"


def _nearest_recordings(
    selection: Selection, taken: set[Position], message: Message, plan: MatchingPlan | None
) -> list[_NearRecording]:
    live = match.request_identity(message.method or "", message.body.get("params"))
    near: list[_NearRecording] = []
    for row, asked in _compared_recordings(selection, message):
        differing = list(match.differences(asked, live, ("params",)))
        played = row.place in taken
        if plan is not None:
            differing = [found for found in differing if _differs(plan, played, *found)]
        near.append(_NearRecording((row.name != message.name, len(differing)), row, played, asked, differing))
    # At equal distance, unplayed recordings come first.
    return sorted(near, key=lambda one: (*one.distance, one.played))[:_NEAREST]


def _differs(plan: MatchingPlan, played: bool, path: Path, recorded: Any, live: Any) -> bool:
    """Return whether two values differ in a part that counts. For a played recording, normalize them first."""
    if plan.counts is not None and not plan.counts(path):
        return False
    if not played or plan.form is None or any(map(match.is_absent, (recorded, live))):
        return True
    return plan.form.pair_leaves(recorded, live, str(path[-1])) is None


def _compared_recordings(selection: Selection, message: Message) -> list[tuple[RecordedMessage, Any]]:
    """The recordings to compare, each with its identifying params. Cached: misses rarely come alone."""
    key = _compared_recordings, message.method, message.name
    found: list[tuple[RecordedMessage, Any]] | None = selection.cache.get(key)
    if found is None:
        found, read = [], 0
        for row in _requests_like(selection, message):
            whole = selection.frame_text(row)
            read += len(whole.text)
            if read > _READ and found:
                break
            found.append((row, match.request_identity(row.method or "", selection.message(row).body.get("params"))))
        selection.cache.put(key, found)
    return found


def _requests_like(selection: Selection, message: Message) -> list[RecordedMessage]:
    """The recorded requests with the same method, the same name first."""
    found: list[RecordedMessage] = []
    for is_same in (True, False):
        for session in selection.sessions:
            left = _LOOKED_AT - len(found)
            rows = selection.of_name(session, message.method or "", message.name, is_same, left)
            found += filter(selection.is_on_tape, rows)
    return found


def _session_elsewhere(selection: Selection, message: Message) -> int | None:
    """The newest session that is not playing and has a request with the same key."""
    playing = set(selection.sessions)
    others = [session for session in selection.all_sessions() if session not in playing]
    key = match.request_key(message.method or "", message.body.get("params")) if others else b""
    return next((session for session in others if selection.has_key(session, key)), None)


def _is_of_other_era(selection: Selection, session: int) -> bool:
    """Return whether a session is of another era than the playing one."""
    first = selection.sessions[0]
    if selection.is_legacy(first):
        return selection.is_modern(session)
    return selection.is_modern(first) and selection.is_legacy(session)


def _show_nearest(near: list[_NearRecording], message: Message, discreet: DiagnosticRedactor) -> list[_Shown]:
    method = message.method or ""
    live = match.request_identity(method, message.body.get("params"))
    return [(one, show_differences(method, one.asked, live, one.differing[:_SHOWN_PATHS], discreet)) for one in near]


def show_differences(
    method: str, recorded: Any, live: Any, differing: Iterable[tuple[Path, Any, Any]], discreet: DiagnosticRedactor
) -> list[RequestDifference]:
    """Return the differences between two requests for display: redacted, and cut."""
    then, now = _hidden_request(method, recorded, discreet), _hidden_request(method, live, discreet)
    return [
        RequestDifference(
            path_text([discreet.text(step) if isinstance(step, str) else step for step in path]),
            "nothing" if match.is_absent(old) else _cut(_value_at(then, path), discreet),
            "nothing" if match.is_absent(new) else _cut(_value_at(now, path), discreet),
        )
        for path, old, new in differing
    ]


def _hidden_request(method: str | None, asked: Any, discreet: DiagnosticRedactor) -> Any:
    """A redacted request. It is built whole, as redaction rules may depend on a value's path."""
    return discreet.document({"jsonrpc": "2.0", "method": method, "params": asked})


def _value_at(hidden: Any, path: Path) -> Any:
    """The value at a path, or the placeholder that replaced a value around it."""
    for step in path:
        if isinstance(hidden, str):
            break
        hidden = hidden[step]
    return hidden


def _describe_nearest(selection: Selection, shown: _Shown, discreet: DiagnosticRedactor) -> list[str]:
    one, differing = shown
    row = one.recorded
    played = ", already played" if one.played else ""
    lines = [f"  nearest: {selection.place(row)} {discreet.call(row)}{played}"]
    lines += [f"    {difference_line(found)}" for found in differing]
    if len(one.differing) > _SHOWN_PATHS:
        lines.append(f"    and {len(one.differing) - _SHOWN_PATHS} more differences")
    answer = selection.answer(row)
    if answer is not None:
        lines.append(f"    would have answered: {_answer_line(selection, answer, discreet)}")
    return lines


def difference_line(found: RequestDifference) -> str:
    return f"{found.path}  recorded {found.recorded}, live {found.live}"


def _answer_line(selection: Selection, answer: RecordedMessage, discreet: DiagnosticRedactor) -> str:
    body = selection.message(answer).body
    if not body:  # a refusal in plain text
        return _cut(selection.text(answer).decode("utf-8", "replace"), discreet)
    hidden = discreet.document(body)
    return _cut(hidden.get("error", hidden.get("result")) if isinstance(hidden, dict) else hidden, discreet)


_NAME = "$.params.name"  # never advise to ignore this: tools would answer for each other
_AGAIN = Advice("to record it again", "mode", "rewrite")
_ALL_AGAIN = Advice("to record everything again, as this tool may change other answers", "mode", "rewrite")
_MISSING = Advice("to record the missing call", "mode", "new_episodes")


def _recording_advice(selection: Selection, message: Message, session: int) -> tuple[Advice, ...]:
    """Advise how to record the call. A tool that writes may change other answers, which are then out of date."""
    again = _rewrite_advice(selection, _ALL_AGAIN) if may_write(selection, message) else ()
    missing = (_MISSING,) if selection.is_writable else ()
    return *again, *missing, _show_advice(selection, session)


def _rewrite_advice(selection: Selection, advice: Advice = _AGAIN) -> tuple[Advice, ...]:
    """Advise to record everything again, unless that might replace another server: one without a name is ambiguous."""
    own = selection.names(selection.sessions[0]).label
    return (advice,) if selection.is_writable and (own is not None or len(selection.labels) < 2) else ()


def _show_advice(selection: Selection, session: int) -> Advice:
    return Advice("to see the recorded calls", "show", str(session) if selection.is_of_several() else "")


def _advice(
    selection: Selection,
    message: Message,
    near: list[_Shown],
    plan: MatchingPlan | None,
    elsewhere: int | None,
    record: tuple[Advice, ...],
    discreet: DiagnosticRedactor,
) -> tuple[Advice, ...]:
    if elsewhere is not None:
        if len(selection.labels) > 1 and "--server" not in selection.given:
            return Advice(f"session {elsewhere} has it: to play that", "session", str(elsewhere)), *record
        return Advice(f"session {elsewhere} has it: to play every session", "session", "all"), *record
    if near and near[0][1]:
        return *_rung_advice(selection, message, plan, *near[0], discreet), *record
    return (Advice("to repeat the last answer", "repeats", "last"), *record) if near else record


def _rung_advice(
    selection: Selection,
    message: Message,
    plan: MatchingPlan | None,
    near: _NearRecording,
    differing: list[RequestDifference],
    discreet: DiagnosticRedactor,
) -> list[Advice]:
    from .matching.ladder import rungs

    paths = [found.path for found in differing]
    if _NAME in paths or len(near.differing) > len(paths):
        return []
    return [Advice(*rung) for rung in rungs(selection, message, plan, near.asked, near.differing, paths, discreet)]


def may_write(selection: Selection, message: Message) -> bool:
    """Return whether a call may write: no recorded `tools/list` marks its tool as read-only."""
    if message.method != protocol.CALL:
        return False
    readers: set[str] | None = selection.cache.get(may_write)
    if readers is None:
        answers = (selection.answer(row) for row in selection.requests(protocol.TOOLS))
        bodies = (selection.message(answer).body for answer in answers if answer is not None)
        readers = {name for body in bodies for name in protocol.tools_that_read(body)}
        selection.cache.put(may_write, readers)
    return message.name not in readers


def _command_phraser(selection: Selection) -> Callable[[Advice], str]:
    """Return a function that phrases advice as a command line."""
    is_stdio = selection.controls.transport(selection.sessions[0]) == channels.STDIO

    def words(advice: Advice) -> str:
        if advice.what == "show":
            return show_command(selection.path, advice)
        given = _replay_options(selection, advice)
        if advice.what == "mode":
            server = ["--", "SERVER"] if is_stdio else ["--url", "URL"]
            return shlex.join(["mcp-tape", "use", selection.path, "--mode", advice.value, *given, *server])
        return shlex.join(["mcp-tape", "replay", selection.path, *given, f"--{advice.what}", advice.value])

    return words


def _replay_options(selection: Selection, advice: Advice) -> list[str]:
    """Return the options that a command needs to play and match the same as this replay."""
    pairs = list(zip(selection.given[::2], selection.given[1::2], strict=True))
    instead = f"--{advice.what}" if advice.what in ("session", "repeats") else None
    given = [word for pair in pairs if pair[0] != instead for word in pair]
    if advice.what == "mode" and "--server" not in given and len(selection.labels) > 1:
        first = selection.sessions[0]
        label = selection.names(first).label
        given += ["--server", label] if label is not None else []
        given += ["--session", str(first)] if label is None and "--session" not in given else []
    return given


def show_command(path: str, advice: Advice) -> str:
    """Return the `mcp-tape show` command for advice."""
    return shlex.join(["mcp-tape", "show", path, *(("--session", advice.value) if advice.value else ())])


def _as_data(shown: _Shown) -> dict[str, Any]:
    one, differing = shown
    rows = [found._asdict() for found in differing]
    return {"session": one.recorded.session, "seq": one.recorded.seq, "already_played": one.played, "differing": rows}


def _cut(value: Any, discreet: DiagnosticRedactor) -> str:
    """A redacted value as text. Also redacts strings that a recording leaves alone, such as a tool's name."""
    text = discreet.text(jsontext.compact_text(value))
    return text if len(text) <= _SHOWN_TEXT else text[:_SHOWN_TEXT] + "…"


def describe_inexact(
    selection: Selection, call: ClientCall, bent: RungMatch, discreet: DiagnosticRedactor
) -> tuple[str, tuple[RequestDifference, ...]]:
    """Describe an answer that a looser rung found, and how its request differs. Secrets are redacted."""
    recorded = call.recorded
    assert recorded is not None
    method, now = call.message.method or "", call.message.body.get("params")
    then = selection.message(recorded).body.get("params")
    one, other = (match.request_identity(method, params) for params in (then, now))
    differing = list(match.differences(one, other, ("params",)))
    seen = tuple(show_differences(method, one, other, differing[:_SHOWN_PATHS], discreet))
    how = _RUNGS.get(bent.rung) or f"the nearest ({bent.similarity:.2f})"
    lines = [
        f"{discreet.call(call.message)} was answered by {selection.place(recorded)}, {how}",
        *map(difference_line, seen),
    ]
    if len(differing) > _SHOWN_PATHS:
        lines.append(f"and {len(differing) - _SHOWN_PATHS} more differences")
    return "\n  ".join(lines), seen

"""Faults and stand-ins: deliberate answers other than the recorded ones, to break a client or to suit a test.

Faults take actions and return actions; chance comes from a seed.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import TapeError
from ..wire import frames, jsontext, protocol, rewrite
from .deck import Deck
from .matching.targets import TARGET
from .report import ReplayEvent
from .selection import Selection
from .sends import NO_HEADERS, Action, Challenge, ClientCall, Hangup, Refuse, Reset, Send, make_answer

if TYPE_CHECKING:
    from .sends import Headers

_LISTED = 8  # names listed for a misspelt target
_NOISE = b"this line is noise, not JSON-RPC\n"
# The argument of each kind, after the colon: a number, a text or none.
_TAKES = {
    "error": "a code, as in error:-32000", "tool-error": "", "delay": "milliseconds, as in delay:250", "hang": "",
    "drop": "", "duplicate": "", "malformed": "", "truncate": "bytes, as in truncate:40", "noise": "",
    "disconnect": "", "exit": "an exit code, as in exit:3",
    "http": "a status, as in http:503", "reset": "",
    "token-expired": "", "refresh-fails": "", "insufficient-scope": "a scope, as in insufficient-scope:files:write",
}  # fmt: skip
ONLY_HTTP = ("http", "reset")
ONLY_LOGIN = ("token-expired", "refresh-fails", "insufficient-scope")
# The call never reached the server, so the tape still has its answer.
_UNREACHED = ("error", "hang", "disconnect", "exit", *ONLY_HTTP, *ONLY_LOGIN)
_SCOPES = r"[!#-\[\]-~]+(?: [!#-\[\]-~]+)*"  # https://www.rfc-editor.org/rfc/rfc6749#section-3.3
_SPEC = re.compile(
    rf"{TARGET}(?:@(?P<nth>\d+))?="
    r"(?P<kind>[a-z-]+)(?::(?P<value>.*?))?(?::(?P<chance>\d+(?:\.\d+)?)%)?"
)


class Fault(NamedTuple):
    """A kind of failure, and the calls whose answers it breaks."""

    source: str
    method: str
    name: str | None
    nth: int | None
    kind: str
    value: str
    chance: float


def parse_fault(source: str) -> Fault:
    """Parse `TARGET=FAULT`, as in `tools/call:search@2=error:-32000:30%`. Raises ValueError."""
    found = _SPEC.fullmatch(source)
    if found is None:
        raise ValueError(f"{source!r} is not a fault: write TARGET=FAULT, as in 'tools/call:search@2=error:-32000'")
    kind, value, chance = found["kind"], found["value"] or "", found["chance"]
    if kind not in _TAKES:
        raise ValueError(f"there is no fault {kind!r}: choose one of {', '.join(_TAKES)}")
    if chance is None and re.fullmatch(r"\d+(?:\.\d+)?%", value):
        value, chance = "", value[:-1]
    if _TAKES[kind] and not re.fullmatch(_SCOPES if kind == "insufficient-scope" else r"-?\d+", value):
        raise ValueError(f"{source!r}: {kind} takes {_TAKES[kind]}")
    if kind == "http" and not 200 <= int(value) <= 599:
        raise ValueError(f"{source!r}: {value} is not an HTTP status that a server could end a request with")
    nth = int(found["nth"]) if found["nth"] else None
    return Fault(source, found["method"], found["name"], nth, kind, value, float(chance or 100) / 100)


Chooser = Callable[[dict[str, Any]], str | None]  # takes a live request, returns its fault, as in "delay:250"


def describe_aimless(fault: Fault, selection: Selection) -> str | None:
    """Describe why a fault matches nothing on the tape; None if it does."""
    if not selection.has_method(fault.method):
        there = {row.method or "" for row in selection.all_requests()}
        return f"no session has {fault.method}; there is {_list_names(there)}"
    sessions = selection.all_sessions()
    if fault.name is None or any(selection.of_name(one, fault.method, fault.name, True, 1) for one in sessions):
        return None
    there = {row.name or "" for row in selection.requests(fault.method)}
    return f"no session has {fault.method} {fault.name}; there is {_list_names(there)}"


def _list_names(names: Iterable[str]) -> str:
    every = sorted(names)
    return ", ".join(every[:_LISTED] + ([f"and {len(every) - _LISTED} more"] if len(every) > _LISTED else []))


class FaultyPlayer:
    """A deck with faults."""

    def __init__(
        self,
        faults: Sequence[Fault],
        seed: int,
        functions: Sequence[Chooser] = (),
        struck: set[str] | None = None,
        covers: Callable[[str], bool] = lambda scope: False,
    ) -> None:
        """`struck`: the sources of faults that have broken an answer of any deck.

        `covers`: whether the client's token covers a scope.
        """
        self._covers = covers
        self._faults = faults
        self._struck = set[str]() if struck is None else struck
        self._functions = functions
        self._seed = seed
        self._seen = [0] * len(faults)
        self._planned: dict[ClientCall, Fault] = {}
        self._later: list[tuple[float, int, Send]] = []
        self._numbers = count()
        self._deck: Deck  # once it is attached
        self._report: Callable[[ReplayEvent], None] = lambda fact: None

    def attach(self, deck: Deck) -> None:
        self._deck = deck

    def listen(self, report: Callable[[ReplayEvent], None]) -> Callable[[ReplayEvent], None]:
        """Return a report function that plans faults for each call and passes the event on."""
        self._report = report

        def hear(fact: ReplayEvent) -> None:
            if fact.what == "played" and fact.call is not None:
                self._plan(fact.call)
            report(fact)

        return hear

    def receive(
        self,
        text: bytes,
        channel: str,
        now: float,
        parsed: frames.Parsed | None = None,
        headers: Headers = NO_HEADERS,
    ) -> None:
        self._deck.receive(text, channel, now, parsed, headers)

    def due(self, now: float) -> Sequence[Action]:
        out: list[Action] = []
        while self._later and self._later[0][0] <= now:
            out.append(heapq.heappop(self._later)[-1])
        for action in self._deck.due_one_by_one(now):
            out += self._break(action, now) if isinstance(action, Send) else [action]
        return self._deck.join_batches(out)

    def leave(self, now: float) -> None:
        self._deck.leave(now)

    def abandon(self, channel: str) -> None:
        self._deck.abandon(channel)

    def next_at(self) -> float | None:
        times = [at for at in (self._deck.next_at(), self._later[0][0] if self._later else None) if at is not None]
        return min(times, default=None)

    def _plan(self, call: ClientCall) -> None:
        message = call.message
        for number, fault in enumerate(self._faults):
            if fault.method != message.method or fault.name not in (None, message.name):
                continue
            self._seen[number] += 1
            if fault.nth in (None, self._seen[number]) and self._strikes(number, fault):
                self._planned.setdefault(call, fault)
        for function in self._functions:
            chosen = function(message.body)
            if chosen is not None:
                self._planned.setdefault(call, parse_fault(f"{message.method}={chosen}"))
        if call in self._planned and self._planned[call].kind in _UNREACHED:
            self._deck.give_back(call)

    def _strikes(self, number: int, fault: Fault) -> bool:
        if fault.kind == "insufficient-scope" and self._covers(fault.value):
            return False
        throw = sha256(f"{self._seed} {number} {self._seen[number]}".encode()).digest()[:4]
        return int.from_bytes(throw, "big") / 2**32 < fault.chance

    def _break(self, send: Send, now: float) -> list[Action]:
        fault = self._planned.get(send.call) if send.call is not None else None
        if fault is None or (not send.answers and fault.kind != "hang"):
            return [send]
        assert send.call is not None
        if fault.kind != "refresh-fails":  # which has yet to break a refresh
            self._struck.add(fault.source)
        if send.answers:
            del self._planned[send.call]
            self._report(ReplayEvent("note", f"fault {fault.source}", send.call))
        return self._apply(fault, send, send.call, now)

    def _apply(self, fault: Fault, send: Send, call: ClientCall, now: float) -> list[Action]:
        match fault.kind:
            case "error":
                error = rewrite.error(int(fault.value), f"fault: {fault.source}")
                return [_substitute(send, make_answer(call, "error", error))]
            case "tool-error":
                text = fault.value or f"fault: {fault.source}"
                return [_substitute(send, make_answer(call, "result", rewrite.tool_error(text, call.message.body)))]
            case "delay":
                heapq.heappush(self._later, (now + int(fault.value) / 1000, next(self._numbers), send))
                return []
            case "duplicate":
                return [send, send]
            case "malformed":
                return [_separate(send, send.text.rstrip()[:-1] + b"\n")]
            case "truncate":
                return [_separate(send, send.text[: int(fault.value)]), Hangup(0, call)]
            case "noise":
                return [Send(_NOISE, send.channel), send]
            case "disconnect":
                return [Hangup(0, call, send)]
            case "exit":
                return [Hangup(int(fault.value))]
            case "http":
                return [Refuse(int(fault.value), call)]
            case "reset":
                return [Reset(call, send)]
            case "token-expired" | "refresh-fails" | "insufficient-scope":
                return [Challenge(call, fault.kind, fault.value, fault.source)]
        return []  # hang, drop


def _substitute(send: Send, other: Send) -> Send:
    """Replace an answer, keeping its place in a batch."""
    in_batch = send.recorded is not None and send.recorded.frame_kind == "batch"
    return other._replace(recorded=send.recorded) if in_batch else other


def _separate(send: Send, text: bytes) -> Send:
    """Replace the text with a broken one, outside its batch: it would break the whole batch."""
    recorded = send.recorded
    return send._replace(text=text, recorded=recorded and recorded._replace(frame_kind="message"))


# -- stand-ins

Function = Callable[..., Any]


class StandIns:
    """Python functions that answer instead of the tape. The newest that fits a call wins.

    `schemas` returns the output schemas of tools, by name.
    """

    def __init__(self, schemas: Callable[[], dict[str, Any]] = dict) -> None:
        self._all: list[tuple[str, str | None, Function]] = []  # by method and name
        self._find_schemas = schemas
        self._schemas: dict[str, Any] | None = None

    def add(self, method: str, name: str | None, function: Function) -> None:
        import inspect  # imported late: most replays have no stand-ins

        if inspect.iscoroutinefunction(function):
            raise TapeError(f"{function!r} is asynchronous: only a plain function can answer for the tape")
        self._all.insert(0, (method, name, function))

    def answer(self, call: ClientCall) -> Send | None:
        """Return the answer to a call, if a function stands in for it."""
        message = call.message
        for method, name, function in self._all:
            if method == message.method and name in (None, message.name):
                return self._call_function(call, function)
        return None

    def _call_function(self, call: ClientCall, function: Function) -> Send:
        params = call.message.body.get("params")
        is_tool = call.message.method == protocol.CALL
        try:
            if is_tool:
                returned = function(**(protocol.member(params, "arguments") or {}))
                return _result_answer(call, _tool_result(returned, self._schema(call.message.name)))
            return _result_answer(call, function(params))
        except Exception as error:  # the client gets it as an error response
            why = str(error) or type(error).__name__
        if is_tool:
            return _result_answer(call, _text_result(why) | {"isError": True})
        return make_answer(call, "error", rewrite.error(protocol.INTERNAL_ERROR, why))

    def _schema(self, tool: str | None) -> Any:
        if self._schemas is None:
            self._schemas = self._find_schemas()
        return self._schemas.get(tool or "")


def _result_answer(call: ClientCall, result: Any) -> Send:
    if isinstance(result, dict) and protocol.is_modern(call.message.body):
        result = {"resultType": "complete"} | result
    return make_answer(call, "result", jsontext.dumps(result))


def _text_result(text: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}]}


def _tool_result(returned: Any, schema: Any) -> dict[str, Any]:
    """A whole result, made from a text or a value. Clients check it against the tool's output schema."""
    if isinstance(returned, dict) and "content" in returned:
        return returned
    result = _text_result(returned if isinstance(returned, str) else jsontext.dumps(returned))
    if schema is None:
        return result
    # SDK servers wrap a return value that is not an object in an object with the single member "result".
    is_wrapped = set(protocol.member(schema, "properties") or ()) == {"result"}
    if is_wrapped and not (isinstance(returned, dict) and "result" in returned):
        return result | {"structuredContent": {"result": returned}}
    return result | ({"structuredContent": returned} if isinstance(returned, dict) else {})


def output_schemas(lists: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Return the output schemas of tools, by name, from `tools/list` answers."""
    found: dict[str, Any] = {}
    for answer in lists:
        tools = protocol.member(answer.get("result"), "tools")
        for tool in tools if isinstance(tools, list) else ():
            name, schema = protocol.member(tool, "name"), protocol.member(tool, "outputSchema")
            if isinstance(name, str) and schema is not None:
                found[name] = schema
    return found

"""Calls from a script: the recorded client plays them at a live server, to record it.

The script is a recording with empty answers: a handshake, the lists, and the calls in their order. The client leaves
out the lists that the live server does not declare.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from .. import __version__
from ..cassette.lookup.messages import RecordedMessage
from ..cassette.reader import Cassette
from ..errors import TapeError
from ..replay.matching.targets import split
from ..wire import jsontext, protocol
from ..wire.frames import Message
from .plan import PlayPlan, VerifyOptions, VerifyTarget, plan_sessions
from .play import Play, connect_through_recorder
from .play_findings import Failure, SkippedRequest
from .recorded_client import RecordedClient

_SHAPE = 'a line is e.g. {"tool": "search", "arguments": {"q": "x"}}'
_INFO = {"name": "mcp-tape", "version": __version__}
_KINDS = {kind.method: kind for kind in protocol.KINDS}
_REQUESTS = frozenset({
    protocol.PING, protocol.CALL, protocol.GET_PROMPT, protocol.READ, protocol.SUBSCRIBE, protocol.UNSUBSCRIBE,
    protocol.SET_LEVEL, protocol.COMPLETE, protocol.SKILL, protocol.DIRECTORY, *_KINDS,
})  # fmt: skip


class ScriptError(TapeError):
    """A call that cannot be understood; nothing was started."""

    exit_code = 2


class ScriptedCall(NamedTuple):
    """A request to make."""

    method: str
    params: dict[str, Any]


class CallsOutcome(NamedTuple):
    """The number of calls, of answers and of errors; and the server's failures."""

    made: int
    answered: int
    errors: int
    failures: tuple[Failure, ...]


def parse_call(source: str) -> ScriptedCall:
    """Parse `TOOL=ARGUMENTS`, `METHOD=PARAMS` or `METHOD:NAME=ARGUMENTS`. The value is JSON, and may be absent."""
    head, equals, text = source.partition("=")
    given = _object(text, source) if equals else {}
    target, _ = split(f"{head}=")
    if target.name is not None and protocol.is_addressed(target.method or ""):
        return ScriptedCall(str(target.method), {"name": target.name} | ({"arguments": given} if equals else {}))
    if head in _REQUESTS:
        return ScriptedCall(head, given)
    if not head:
        raise ScriptError(f'{source!r} names no tool; write TOOL={{"argument": 1}} or METHOD={{…}}')
    return ScriptedCall(protocol.CALL, {"name": head, "arguments": given})


def _object(text: str, source: str) -> dict[str, Any]:
    try:
        value = jsontext.loads(text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise ScriptError(f'{source!r}: the value after = must be a JSON object, as in search={{"q": "x"}}')
    return value


def read_calls(path: str) -> list[ScriptedCall]:
    """Read a file of calls: JSON lines, each with a tool and its arguments, or a method and its params."""
    try:
        with open(path, encoding="utf-8-sig") as lines:
            return [_line(line, f"{path}, line {number}") for number, line in enumerate(lines, 1) if line.strip()]
    except OSError as error:
        raise ScriptError(f"cannot read {path}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise ScriptError(f"cannot read {path}: it is not UTF-8") from None


def _line(line: str, where: str) -> ScriptedCall:
    try:
        value = jsontext.loads(line)
    except (ValueError, RecursionError) as error:
        raise ScriptError(f"{where} is not JSON: {error}; {_SHAPE}") from None
    tool, method = protocol.member(value, "tool"), protocol.member(value, "method")
    given = protocol.member(value, "params" if tool is None else "arguments")
    if isinstance(tool, str) == isinstance(method, str) or not isinstance(given, dict | None):
        example = '{"tool": "search", "arguments": {"q": "x"}} or {"method": "resources/read", "params": {"uri": "…"}}'
        raise ScriptError(f"{where} is not a call; write {example}")
    if isinstance(tool, str):
        return ScriptedCall(protocol.CALL, {"name": tool, "arguments": given or {}})
    return ScriptedCall(str(method), given or {})


def record_calls(
    calls: Iterable[ScriptedCall], server: VerifyTarget, options: VerifyOptions, path: str
) -> CallsOutcome:
    """Make calls at a live server, and record them into a cassette. Raises ServerError if it can't be started."""
    calls = list(calls)
    with tempfile.TemporaryDirectory(prefix="mcp-tape-calls-") as directory:
        done, is_refused = _play_script(calls, None, server, options, path, directory)
        if is_refused:  # by a server of the modern era
            done, _ = _play_script(calls, protocol.MODERN_VERSION, server, options, path, directory)
    return done


def _play_script(
    calls: list[ScriptedCall],
    modern: str | None,
    server: VerifyTarget,
    options: VerifyOptions,
    path: str,
    directory: str,
) -> tuple[CallsOutcome, bool]:
    """Play a script; return also whether the server refused the handshake."""
    script = os.path.join(directory, f"{'modern' if modern else 'legacy'}.jsonl")
    with open(script, "w", encoding="utf-8") as file:
        file.writelines(f"{json.dumps(line)}\n" for line in _script(calls, modern))
    (plan,) = plan_sessions(script, options)
    with Cassette(script) as cassette:
        client = ScriptedClient(cassette, plan, options, os.environ)
        with connect_through_recorder(server, plan, options, path, listen=True, late=False) as connection:
            failures = Play(client, connection, options, lambda done, of: None).play()
    return CallsOutcome(len(calls), client.answered_calls, client.errors, tuple(failures)), client.is_refused


def _script(calls: list[ScriptedCall], modern: str | None) -> Iterator[dict[str, Any]]:
    """The lines of a text cassette: each request has an answer, for which the client waits."""
    meta = protocol.client_meta(modern, _INFO, {}) if modern else {}
    hello = {"protocolVersion": protocol.LAST_LEGACY_VERSION, "capabilities": {}, "clientInfo": _INFO}
    greeting = ScriptedCall(protocol.DISCOVER, {}) if modern else ScriptedCall(protocol.INITIALIZE, hello)
    lists = [ScriptedCall(kind.method, {}) for kind in protocol.KINDS]
    for number, (method, params) in enumerate([greeting, *lists, *calls]):
        body = {"jsonrpc": "2.0", "id": number, "method": method, "params": params | meta}
        yield {"sender": "client", "message": body}
        yield {"sender": "server", "message": {"jsonrpc": "2.0", "id": number, "result": {}}}
        if method == protocol.INITIALIZE:
            yield {"sender": "client", "message": {"jsonrpc": "2.0", "method": protocol.INITIALIZED}}


class ScriptedClient(RecordedClient):
    """The client of a script."""

    def __init__(self, cassette: Cassette, plan: PlayPlan, options: VerifyOptions, environ: Mapping[str, str]) -> None:
        super().__init__(cassette, plan, options, environ)
        self._capabilities: Any = {}
        self.is_refused = False
        self.answered_calls = 0
        self.errors = 0

    def _hear(self, row: RecordedMessage, answer: Message) -> None:
        super()._hear(row, answer)
        result = answer.body.get("result")
        if row.method in protocol.INTRODUCTIONS:
            self.is_refused = result is None
            self._capabilities = protocol.member(result, "capabilities") or {}
        elif not self._is_ours(row):
            self.answered_calls += 1
            self.errors += result is None or protocol.result_status(result) == "tool-error"

    def _skip_reason(self, row: RecordedMessage) -> SkippedRequest | None:
        kind = _KINDS.get(row.method or "") if self._is_ours(row) else None
        if self.is_refused or (kind is not None and not protocol.declares(self._capabilities, kind)):
            return SkippedRequest(row.method or "", "the server does not declare it", False)
        return super()._skip_reason(row)

    def _is_ours(self, row: RecordedMessage) -> bool:
        """Return whether a request is one of those before the calls. Further pages of lists have other ids."""
        number = row.rpc_id or ""
        return not number.isdigit() or int(number) <= len(_KINDS)

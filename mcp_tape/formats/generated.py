"""Tests made from a recording: one for each tool call, against the cassette, expecting the recorded answer.

They are made once, for you to read, change and keep. Recorded text occurs in them only as literals, and in test names
as letters, digits and underscores. A call that an SDK cannot make on its own with the recorded outcome gets no test; a
comment gives the reason.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from ..cassette.query.recorded_requests import Reply
from ..wire import jsontext, protocol
from .timed_calls import TimedCall

_WIDTH = 100
_OF_CALLS = {"name", "arguments", "_meta"}
_EXACT = 2**53 - 1  # Number.MAX_SAFE_INTEGER
_HALVES = re.compile("[\ud800-\udfff]")
_OF_RESULTS, _OF_ERRORS = ("content", "structuredContent", "isError"), ("code", "message")
_PYTHON_HEAD = '''"""Calls of {server}, as recorded in {cassette}.

Made by mcp-tape convert, and yours to change.
"""

import asyncio
from pathlib import Path

from mcp import Client, MCPError, types

from mcp_tape import use_cassette

CASSETTE = Path(__file__).parent / {path}


def call(name, arguments, times=1):
    """The outcome of a recorded call, as JSON: a result or an error; after several times, the last."""

    # Not by client.call_tool: it lists tools as well, to check the result, and they may not be on the tape.
    request = types.CallToolRequest(params=types.CallToolRequestParams(name=name, arguments=arguments))

    async def calls():
        with use_cassette(CASSETTE, "none", session={session}) as tape:
            async with Client(tape.streams(), read_timeout_seconds=30) as client:
                for _ in range(times):
                    try:
                        outcome = await client.session.send_request(request, types.CallToolResult)
                    except MCPError as failure:
                        outcome = failure.error
        return outcome.model_dump(mode="json", by_alias=True, exclude_unset=True)

    return asyncio.run(calls())
'''
_VITEST_HEAD = """// Calls of {server}, as recorded in {cassette}.
// Made by mcp-tape convert, and yours to change.

import {{ fileURLToPath }} from "node:url";
import {{ Client }} from "@modelcontextprotocol/sdk/client/index.js";
import {{ StdioClientTransport }} from "@modelcontextprotocol/sdk/client/stdio.js";
import {{ expect, test, vi }} from "vitest";

vi.setConfig({{ testTimeout: 30_000 }});

const cassette = fileURLToPath(new URL({path}, import.meta.url));

/** The last result of a recorded call. */
async function call(name, args, times = 1) {{
  const client = new Client({{ name: "vitest", version: "1.0" }});
  const replay = ["replay", cassette, "--session", {session}, "--quiet"];
  await client.connect(new StdioClientTransport({{ command: "mcp-tape", args: replay }}));
  try {{
    let result;
    for (let made = 0; made < times; made++) {{
      result = await client.callTool({{ name, arguments: args }});
    }}
    return result;
  }} finally {{
    await client.close();
  }}
}}
"""
_NOTHING = '\ntest.todo("a call that can be made by itself");\n'  # a file without any test fails


class CaseSource(NamedTuple):
    """The source of the tests. `replies`: how its calls were answered; `is_kept`: which of them get a test."""

    server: str
    path: str
    session: int
    replies: Mapping[tuple[int | None, str | None], Reply]
    is_kept: Callable[[TimedCall], bool] = lambda _: True


class GeneratedTests(NamedTuple):
    """A file of tests, and the reasons why some calls have none."""

    text: str
    tests: int
    left_out: list[str]


class _Case(NamedTuple):
    name: str
    tool: str
    arguments: Any
    times: int  # how often this call was made, including this time
    result: Any
    error: Any


def pytest(found: Iterable[TimedCall], tape: CaseSource) -> GeneratedTests:
    cases, left_out = _cases(found, tape, lambda _: None)
    path = _quote(tape.path)
    head = _PYTHON_HEAD.format(
        server=_comment(tape.server), cassette=_comment(tape.path), path=path, session=tape.session
    )
    tests = "".join(f"\n\n{test}" for test in map(_python, cases))
    return GeneratedTests(head + tests + _remarks("\n\n", "#", left_out), len(cases), left_out)


def vitest(found: Iterable[TimedCall], tape: CaseSource) -> GeneratedTests:
    cases, left_out = _cases(found, tape, _inexact)
    relative = _script(tape.path if tape.path.startswith("/") else f"./{tape.path}")
    head = _VITEST_HEAD.format(
        server=_comment(tape.server), cassette=_comment(tape.path), path=relative, session=_script(str(tape.session))
    )
    tests = "".join(f"\n{test}" for test in map(_javascript, cases)) or _NOTHING
    return GeneratedTests(head + tests + _remarks("\n", "//", left_out), len(cases), left_out)


def _remarks(space: str, mark: str, left_out: list[str]) -> str:
    lines = [f"{mark} No test was made of {_comment(why)}.\n" for why in left_out]
    return "".join([space, *lines]) if lines else ""


def _cases(
    found: Iterable[TimedCall], tape: CaseSource, unsayable: Callable[[Any], str | None]
) -> tuple[list[_Case], list[str]]:
    """Return a case for each call that can be repeated, and the reasons for the others.

    `unsayable` returns why arguments cannot be sent.
    """
    cases: list[_Case] = []
    left_out: list[str] = []
    names: dict[str, int] = {}
    times: dict[bytes, int] = {}
    unmade: set[bytes] = set()
    for call in found:
        exchange = call.exchange
        if exchange.method != protocol.CALL or exchange.sender != "client" or exchange.name is None:
            continue
        arguments = protocol.member(exchange.params, "arguments") or {}
        key = jsontext.canonical_bytes([exchange.name, arguments])
        times[key] = times.get(key, 0) + 1
        why = _hindrance(call, arguments, tape.replies.get((exchange.seq, exchange.id))) or unsayable(arguments)
        why = why or ("the same call before it got none" if key in unmade else None)
        if why is not None:
            unmade.add(key)
        if not tape.is_kept(call):
            continue
        if why is not None:
            left_out.append(f"#{exchange.seq} {exchange.name}: {why}")
            continue
        base = re.sub(r"\W+", "_", exchange.name, flags=re.ASCII).strip("_").lower() or "tool"
        names[base] = names.get(base, 0) + 1
        name = base if names[base] == 1 else f"{base}_{names[base]}"
        cases.append(_Case(name, exchange.name, arguments, times[key], exchange.result, exchange.error))
    return cases, left_out


def _hindrance(call: TimedCall, arguments: Any, reply: Reply | None) -> str | None:
    """Return why no SDK can make a call on its own with the recorded outcome."""
    exchange = call.exchange
    more = sorted(set(exchange.params) - _OF_CALLS) if isinstance(exchange.params, dict) else []
    kind = protocol.modern_result(exchange.result)
    is_result = isinstance(protocol.member(exchange.result, "content"), list)
    is_error = type(protocol.member(exchange.error, "code")) is int
    reasons = {
        "it was not answered": call.status == "unanswered",
        f"its answer is of the kind {kind}": kind is not None,
        f"it was sent with {', '.join(more)}": more,
        "its answer is neither the result of a tool nor an error": not is_result and not is_error,
        "its arguments are not an object": not isinstance(arguments, dict),
        "its answer came in a batch, which SDKs do not read": reply and reply.in_batch,
        "its answer is not UTF-8": reply and not reply.is_text,
        "its answer waited for another message of the client, such as a cancellation": reply and reply.after_more,
    }
    outcomes = [arguments, exchange.result, exchange.error]
    return next((why for why, holds in reasons.items() if holds), None) or _unwritable(outcomes)


def _unwritable(values: list[Any]) -> str | None:
    """Return why values cannot be sent or read by every SDK, or written as a literal."""
    try:
        text = json.dumps(values, ensure_ascii=False, allow_nan=False)
    except ValueError:
        return "it has a number that is out of bounds"
    return "it has half of a character, which SDKs do not send or read" if _HALVES.search(text) else None


def _inexact(arguments: Any) -> str | None:
    """Return why JavaScript, where every number is a double, cannot send some arguments."""
    if isinstance(arguments, (dict, list)):
        values = arguments.values() if isinstance(arguments, dict) else arguments
        return next(filter(None, map(_inexact, values)), None)
    is_exact = type(arguments) is not int or abs(arguments) <= _EXACT
    return None if is_exact else "it has a number that JavaScript cannot send"


def _python(case: _Case) -> str:
    again = f", times={case.times}" if case.times > 1 else ""
    outcome = "result" if case.error is None else "error"
    lines = [f"{outcome} = call({_literal(case.tool)}, {_literal(case.arguments, 4)}{again})"]
    for key, value in _asserted_members(case):
        lines.append(f'assert {outcome}["{key}"] {"is" if isinstance(value, bool) else "=="} {_literal(value, 4)}')
    return f"def test_{case.name}():\n" + "".join(f"    {line}\n" for line in lines)


def _javascript(case: _Case) -> str:
    called = f"call({_script(case.tool)}, {_script(case.arguments)}{f', {case.times}' if case.times > 1 else ''})"
    if case.error is not None:
        code = protocol.member(case.error, "code")
        body = [f"await expect({called}).rejects.toMatchObject({{ code: {_script(code)} }});"]
    else:
        body = [f"const result = await {called};"]
        body += [f"expect(result.{key}).toEqual({_script(value, 2)});" for key, value in _asserted_members(case)]
    return f"test({_script(case.name)}, async () => {{\n" + "".join(f"  {line}\n" for line in body) + "});\n"


def _asserted_members(case: _Case) -> Iterator[tuple[str, Any]]:
    """Yield the members of a result or an error that the tests assert."""
    outcome, members = (case.result, _OF_RESULTS) if case.error is None else (case.error, _OF_ERRORS)
    for key in members:
        value = protocol.member(outcome, key)
        if value is not None:
            yield key, value


def _literal(value: Any, indent: int = 0) -> str:
    """A JSON value as Python source: on one line if it fits, else laid out as formatters do."""
    if isinstance(value, str):
        return _quote(value)
    if not isinstance(value, (dict, list)):
        return repr(value)
    inner = indent + 4
    parts = [
        f"{_quote(key)}: {_literal(value[key], inner)}" if isinstance(value, dict) else _literal(key, inner)
        for key in value
    ]
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    short = f"{opening}{', '.join(parts)}{closing}"
    if indent + len(short) <= _WIDTH and "\n" not in short:
        return short
    space = " " * inner
    return "\n".join([opening, *(f"{space}{part}," for part in parts), " " * indent + closing])


def _quote(text: str) -> str:
    """A string literal with the same meaning in Python and JavaScript; lone surrogates are escaped."""
    quoted = json.dumps(text, ensure_ascii=False).replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    return "".join(f"\\u{ord(one):04x}" if "\ud800" <= one <= "\udfff" else one for one in quoted)


def _script(value: Any, indent: int = 0) -> str:
    """A JSON value as JavaScript source."""
    if isinstance(value, str):
        return _quote(value)
    short = json.dumps(value, ensure_ascii=False)
    text = short if len(short) <= _WIDTH - 20 else json.dumps(value, ensure_ascii=False, indent=2)
    lines = text.replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    return lines.replace("\n", "\n" + " " * indent)


def _comment(text: str) -> str:
    """Text that cannot end the comment or string around it."""
    return re.sub(r"[^\w .,:/@()+#-]", "?", text, flags=re.ASCII)

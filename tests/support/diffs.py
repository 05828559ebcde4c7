"""Short conversations, recorded, and the differences that diff finds between two of them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from mcp_tape.cassette.reader import Cassette
from mcp_tape.compare.changes import Change
from mcp_tape.compare.judging import Comparison, JudgingSettings
from mcp_tape.compare.surface import SurfaceAnswer
from mcp_tape.compare.versions import PARTS, ComparisonPart, Version, compare, listed_version, recorded_version
from tests.support.decks import Said, make_cassette

Body = dict[str, Any]
Step = Callable[[int], list[Said]]  # takes a free id, returns messages
Talk = Sequence[Step]
DEFAULT = JudgingSettings()
_NOTHING: Any = object()
# Hundreds of small cassettes: use memory in place of a disk, if there is a file system for that.
_QUICK = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


class Case(NamedTuple):
    """Two conversations, and whether a rule finds a change between them."""

    rule: str
    old: Talk
    new: Talk
    expected: bool
    settings: JudgingSettings = DEFAULT


# Messages -----------------------------------------------------------------------------------------------


def text_of(**message: Any) -> str:
    return json.dumps({"jsonrpc": "2.0", **message})


def said(*texts: Said) -> Step:
    """These messages."""
    return lambda _: list(texts)


def told(method: str, **params: Any) -> str:
    """A notification."""
    return text_of(method=method, params=params)


def exchange(
    method: str, params: Any = None, result: Any = _NOTHING, error: Body | None = None, beside: Iterable[Said] = ()
) -> Step:
    """A request, messages beside it, and its answer; no answer without a result or an error."""

    def step(rpc_id: int) -> list[Said]:
        asked = text_of(id=rpc_id, method=method, **({} if params is None else {"params": params}))
        said: list[Said] = [("client", asked), *beside]
        if error is not None:
            said.append(("server", text_of(id=rpc_id, error=error)))
        elif result is not _NOTHING:
            said.append(("server", text_of(id=rpc_id, result=result)))
        return said

    return step


def hello(offered: str = "2025-11-25", client: Mapping[str, Any] = {}, **result: Any) -> Step:
    """The handshake of the legacy era. `client`: the client's capabilities."""
    known = {"protocolVersion": offered, "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1.0"}}
    return exchange("initialize", {"protocolVersion": offered, "capabilities": client}, known | result)


def discovered(**result: Any) -> Step:
    """The discovery of the modern era."""
    info = {"io.modelcontextprotocol/serverInfo": {"name": "s", "version": "1.0"}}
    known = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, "_meta": info}
    return exchange("server/discover", {}, known | result)


def listing(method: str, *items: Any, cursor: str | None = None, **more: Any) -> Step:
    """A list, or a page of it."""
    last = method.split("/")[-2]
    member = "resourceTemplates" if last == "templates" else last
    return exchange(method, {} if cursor is None else {"cursor": cursor}, {member: list(items), **more})


def tool(name: Any = "t", **members: Any) -> Body:
    return {"name": name, "inputSchema": {"type": "object"}} | members


def tools(*items: Any, **more: Any) -> Talk:
    """A server with tools."""
    return [hello(), listing("tools/list", *items, **more)]


def call(
    name: str = "t", result: Any = None, error: Body | None = None, beside: Iterable[Said] = (), **given: Any
) -> Step:
    """A tool call; its default answer is ok."""
    answer = {"content": [{"type": "text", "text": "ok"}]} if result is None and error is None else result
    return exchange("tools/call", {"name": name, "arguments": given}, answer, error, beside)


def gave(value: Any, **given: Any) -> Step:
    """A call that returns structured content."""
    return call(result={"content": [], "structuredContent": value}, **given)


def wrote(text: str, **given: Any) -> Step:
    """A call that returns a text."""
    return call(result={"content": [{"type": "text", "text": text}]}, **given)


def refused(code: Any = -32000, message: str = "no") -> Step:
    """A call that is answered with an error."""
    return call(error={"code": code, "message": message})


SAMPLING: Said = ("server", text_of(id=1, method="sampling/createMessage", params={}))
SAMPLED: Said = ("client", text_of(id=1, result={}))


# Changes ------------------------------------------------------------------------------------------------


def taped(path: Path, *talks: Talk, **facts: Any) -> Path:
    """A cassette with one session per talk."""
    texts = ([said for at, step in enumerate(talk, 1) for said in step(at)] for talk in talks)
    return make_cassette(path, *texts, **facts)


def compare_cassettes(
    old: str, new: str, settings: JudgingSettings = DEFAULT, parts: Sequence[ComparisonPart] = PARTS
) -> Comparison:
    """Compare the sessions that two cassettes would play."""
    with Cassette(old) as one, Cassette(new) as other:
        before, after = (recorded_version(cassette, "latest", settings.ignore_paths) for cassette in (one, other))
        return compare(before, after, settings, parts)


def compared(
    old: Talk, new: Talk, settings: JudgingSettings = DEFAULT, parts: Sequence[ComparisonPart] = PARTS
) -> Comparison:
    with TemporaryDirectory(dir=_QUICK) as directory:
        one, other = taped(Path(directory, "old.db"), old), taped(Path(directory, "new.db"), new)
        return compare_cassettes(str(one), str(other), settings, parts)


def surveyed(talk: Talk) -> Version:
    """A server that was asked these questions, without a recording."""
    asked = [[json.loads(said[1]) for said in step(at)] for at, step in enumerate(talk, 1)]
    answers = [SurfaceAnswer((0, at), one["method"], one["params"], body) for at, (one, body) in enumerate(asked, 1)]
    return listed_version(answers, "live")


def compared_both_ways(old: Talk, new: Talk) -> tuple[Comparison, Comparison]:
    """Compare the surfaces only, in both directions, for tests that nothing crashes."""
    one, other = surveyed(old), surveyed(new)
    return compare(one, other, parts=["surface"]), compare(other, one, parts=["surface"])


def changes(old: Talk, new: Talk, rule: str, settings: JudgingSettings = DEFAULT) -> list[Change]:
    """The changes that a rule found."""
    return [change for change in compared(old, new, settings).changes if change.rule == rule]


def rules(old: Talk, new: Talk, settings: JudgingSettings = DEFAULT) -> list[str]:
    """The rules that found changes, worst first."""
    return [change.rule for change in compared(old, new, settings).changes]


def expect(case: Case) -> None:
    found = rules(case.old, case.new, case.settings)
    assert (case.rule in found) is case.expected, found


def name_of(case: Case) -> str:
    """The id of a case in pytest."""
    return f"{case.rule}{'' if case.expected else '-not'}"

"""The corpus of secrets and look-alikes, through the real recorder: no secret reaches the disk."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from mcp_tape.redaction import shapes
from tests.support.running import WAIT, python, receive_line, record, send, started, until

CORPUS = Path(__file__).parents[2] / "corpus"
# Plays a script and waits until each line has arrived, so that the recorded order is certain.
SERVER = """
import json, sys
script, arrived = open(sys.argv[1]), open(sys.argv[2], "rb")
for who, line in json.load(script):
    if who == "client":
        sys.stdin.buffer.readline()
    else:
        out = sys.stdout.buffer if who == "server" else sys.stderr.buffer
        out.write(bytes.fromhex(line))
        out.flush()
        arrived.read(1)
sys.stdin.buffer.read()
"""
LAST = '{"jsonrpc":"2.0","method":"notifications/the-last-line"}'
Lines = list[tuple[str, bytes]]


class Entry(NamedTuple):
    """One case: lines on the wire, words of the command, variables; and the secrets in them."""

    about: str
    secrets: list[str]
    lines: Lines
    command: list[str]
    environ: dict[str, str]


def entries(name: str) -> list[Entry]:
    return [entry(json.loads(line)) for line in (CORPUS / name).read_text().splitlines()]


def entry(case: dict[str, Any]) -> Entry:
    """The file has tokens in pieces, so that no scanner takes them for real ones."""
    secret = "".join(case.get("secret", []))
    return Entry(
        case["about"],
        [secret, *map("".join, case.get("also", []))] if secret else [],
        [(who, wire(content, secret)) for who, content in case["lines"]],
        [expand(word, secret) for word in case.get("command", [])],
        {key: expand(value, secret) for key, value in case.get("env", {}).items()},
    )


def wire(content: Any, secret: str) -> bytes:
    whole = expand(content, secret)
    text = whole if isinstance(whole, str) else json.dumps(whole, ensure_ascii=False)
    return text.encode("utf-8", "surrogateescape") + b"\n"


def expand(value: Any, secret: str) -> Any:
    """`§` is the secret, `§u§` and so on a spelling of it; `$…` builds values that would be hard to read as data."""
    if isinstance(value, str):
        for how, spelling in SPELLINGS.items():
            value = value.replace(f"§{how}§", spelling(secret))
        return value.replace("§", secret)
    if isinstance(value, list):
        return [expand(item, secret) for item in value]
    if not isinstance(value, dict):
        return value
    for name, build in BUILD.items():
        if name in value:
            return build(expand(value[name], secret), value)
    return {key: expand(item, secret) for key, item in value.items()}


SPELLINGS = {
    "u": lambda secret: "".join(f"\\u{ord(c):04x}" for c in secret),
    "s": lambda secret: secret.replace("/", "\\/"),
    "j": lambda secret: json.dumps(secret, ensure_ascii=False)[1:-1],
    "a": lambda secret: json.dumps(secret)[1:-1],
    "p": lambda secret: "".join(c if c.isalnum() else f"%{ord(c):02X}" for c in secret),
}
BUILD = {
    "$json": lambda inner, _: json.dumps(inner, ensure_ascii=False),
    "$cat": lambda parts, _: "".join(parts),
    "$raw": lambda parts, _: "".join(parts),
    "$text": lambda text, _: result({"content": [{"type": "text", "text": text}]}),
    "$structured": lambda inner, _: result({"content": [], "structuredContent": inner}),
    "$call": lambda arguments, case: {
        "jsonrpc": "2.0", "id": 2, "method": "tools/call",
        "params": {"name": case.get("name", "echo"), "arguments": arguments},
    },
}  # fmt: skip


def result(value: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 2, "result": value}


SECRETS = entries("secrets.jsonl")
LOOKALIKES = entries("lookalikes.jsonl")


class Recording(NamedTuple):
    meanwhile: bytes  # all files of the cassette's directory, during the recording
    afterwards: bytes
    texts: list[bytes]  # of the frames, in order
    command: list[str]
    tables: str
    through: Lines  # received by the other side


def recorded(directory: Path, corpus: list[Entry], *options: str) -> Recording:
    lines = [line for case in corpus for line in case.lines] + [("server", LAST.encode() + b"\n")]
    words = [word for case in corpus for word in case.command]
    environ = {name: value for case in corpus for name, value in case.environ.items()}
    script, arrived, tape = directory / "script.json", directory / "arrived", directory / "tape" / "corpus.db"
    os.mkfifo(arrived)
    script.write_text(json.dumps([(who, line.hex()) for who, line in lines]))
    tape.parent.mkdir()
    command = record(tape, [*python(SERVER), str(script), str(arrived), *words], "-q", *options)
    with started(command, env=environ) as process, opened(arrived) as arrivals:
        assert process.stdin and process.stdout and process.stderr
        through: Lines = []
        pipes = {"server": process.stdout, "stderr": process.stderr}
        for who, line in lines:
            if who == "client":
                send(process.stdin, line)
            else:
                through.append((who, receive_line(pipes[who])))
                os.write(arrivals, b".")
        until(lambda: LAST.encode() in everything(tape.parent), "the last line on the tape")
        meanwhile = everything(tape.parent)
        process.stdin.close()
        assert process.wait(WAIT) == 0
        assert process.stderr.read() == b""
    return Recording(meanwhile, everything(tape.parent), *stored(tape), through)


@contextlib.contextmanager
def opened(fifo: Path) -> Iterator[int]:
    """Open both ways, so that nothing waits for a missing reader."""
    descriptor = os.open(fifo, os.O_RDWR)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def everything(directory: Path) -> bytes:
    return b"\0".join(path.read_bytes() for path in sorted(directory.rglob("*")) if path.is_file())


def stored(tape: Path) -> tuple[list[bytes], list[str], str]:
    with contextlib.closing(sqlite3.connect(tape)) as database:
        rows = database.execute(
            "SELECT coalesce(text, data) FROM frames WHERE kind != 'control' ORDER BY seq"
        ).fetchall()
        texts = [text if isinstance(text, bytes) else text.encode() for (text,) in rows]
        (target,) = database.execute("SELECT target FROM sessions").fetchone()
        return texts, json.loads(target)["command"], "\n".join(database.iterdump())


@pytest.fixture(scope="module")
def tape(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    return recorded(tmp_path_factory.mktemp("redacted"), [*SECRETS, *LOOKALIKES])


@pytest.fixture(scope="module")
def open_tape(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    return recorded(tmp_path_factory.mktemp("open"), SECRETS, "--no-redact")


def traces(secret: str) -> list[bytes]:
    """The secret, and parts of a long one: half a secret must not stay either."""
    half = len(secret) // 2
    spelled = [secret, secret[half - 6 : half + 6], secret[-12:]] if len(secret) >= 24 else [secret]
    spelled += [spelling(part) for part in spelled for spelling in SPELLINGS.values()]
    return [part.encode() for part in spelled]


def test_the_corpus_is_large() -> None:
    assert len(SECRETS) >= 150
    assert len(LOOKALIKES) >= 150
    assert len({secret for case in SECRETS for secret in case.secrets}) >= 150


@pytest.mark.slow
def test_a_secret_is_nowhere_on_disk_not_even_while_recording(tape: Recording) -> None:
    places = {"meanwhile": tape.meanwhile, "afterwards": tape.afterwards, "tables": tape.tables.encode()}
    parts = [(case.about, trace) for case in SECRETS for secret in case.secrets for trace in traces(secret)]
    assert [(about, part, place) for place, data in places.items() for about, part in parts if part in data] == []


@pytest.mark.slow
def test_the_search_would_find_a_secret_that_was_kept(open_tape: Recording) -> None:
    for case in SECRETS:
        if case.lines:
            assert any(trace in open_tape.meanwhile for trace in traces(case.secrets[0])), case.about


@pytest.mark.slow
def test_a_lookalike_is_kept(tape: Recording) -> None:
    kept = set(tape.texts)
    for case in LOOKALIKES:
        assert [line for _, line in case.lines if line.rstrip(b"\n") not in kept] == [], case.about
        assert [word for word in case.command if word not in tape.command] == [], case.about


@pytest.mark.slow
def test_everything_passes_through_unchanged(tape: Recording) -> None:
    sent = [line for case in [*SECRETS, *LOOKALIKES] for line in case.lines if line[0] != "client"]
    assert tape.through == [*sent, ("server", LAST.encode() + b"\n")]


@pytest.mark.slow
def test_each_line_is_one_frame_and_messages_stay_messages(tape: Recording) -> None:
    sent = [line for case in [*SECRETS, *LOOKALIKES] for _, line in case.lines]
    assert len(tape.texts) == len(sent) + 1
    assert [line for line, text in zip(sent, tape.texts, strict=False) if is_json(line) != is_json(text)] == []


def is_json(text: bytes) -> bool:
    try:
        return isinstance(json.loads(text.decode("utf-8", "replace")), dict | list)
    except ValueError:
        return False


def test_the_corpus_has_a_token_of_each_shape(tape: Recording) -> None:
    names = {shape.name for shape in (*shapes.NAMED, *shapes.SHORT, *shapes.LONG)}
    assert {name for name in names if f"[redacted:shape:{name}]" not in tape.tables} == set()


def test_no_frame_of_the_corpus_is_lost(tape: Recording) -> None:
    assert "[redacted:failed]" not in tape.tables

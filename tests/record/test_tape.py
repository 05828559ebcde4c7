"""The recording core: lines that arrive together are kept as if each had come alone."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_tape.record.tape import Tape
from mcp_tape.redaction.redactor import Redactor
from mcp_tape.wire.frames import Frame
from tests.support.made_secrets import innocents, secrets

ENVIRON = {"GITHUB_TOKEN": "q8Zt3mVw7Lx2", "DATABASE_URL": "postgres://me:hT5w9Kp2xQ@db/x"}
PLAIN = '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"hello"}}}'
# Texts at the edges of which the recorder looks for something.
PIECES = (
    *('{"a":"', '"}', '"', "\\", "\\u00", "74oken", "\n", "\r\n", " -u me:", "://u:", "@h", "token", "Tok", "en"),
    *("pass", "_KEY", "=", "Q~", "1Q~", "00D", "AKIA", "ghp_", "x" * 19, "y" * 25, "progressToken", '"progressToken"'),
    *("-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----", "Private-Lines: 2", "TOKEN=", "notifications/"),
    *("sig=", "code=", "?code=a1b2c3d4e5f6g7h8i9", "otpcode", "api_key", "key", "secret", *ENVIRON.values(), PLAIN),
)


def kept(pieces: list[bytes], channel: str) -> list[Frame]:
    frames: list[Frame] = []
    tape = Tape(lambda frame, _: frames.append(frame), Redactor(ENVIRON))
    for piece in pieces:
        tape.feed("server", channel, piece, 0)
    tape.end_all(0)
    return frames


def assert_kept_alike(stream: bytes, channel: str = "stdio") -> None:
    assert kept([stream], channel) == kept(stream.splitlines(keepends=True), channel)


@pytest.mark.slow
def test_a_secret_among_other_lines_is_hidden_like_one_alone() -> None:
    for case in (*secrets(Random(1)), *innocents(Random(1))):
        if not case.is_command:
            channel = "stdio" if case.text.startswith("{") else "stderr"
            assert_kept_alike(f"{PLAIN}\n{case.text}\n{PLAIN}\n{case.text}\n".encode(), channel)


@given(st.lists(st.sampled_from(PIECES), max_size=12).map("".join), st.sampled_from(["stdio", "stderr"]))
def test_lines_that_come_together_are_kept_as_when_each_comes_alone(text: str, channel: str) -> None:
    assert_kept_alike(f"{text}\n{PLAIN}\n{text}".encode(), channel)


@pytest.mark.parametrize("size", [1 << 10, 1 << 17])
def test_payloads_make_no_difference(size: int) -> None:
    assert_kept_alike(f'say "{"A" * size}AKIAIOSFODNN7EXAMPLE" {PLAIN}\n{PLAIN}\n'.encode(), "stderr")


def test_a_rule_of_the_user_is_given_the_same_strings() -> None:
    given: list[str] = []

    def rule(text: str) -> str:
        given.append(text)
        return text.replace("hello", "[hidden]")

    frames: list[Frame] = []
    tape = Tape(lambda frame, _: frames.append(frame), Redactor({}, functions=[rule]))
    tape.feed("client", "stdio", f"{PLAIN}\n{PLAIN}\n".encode(), 0)
    assert all(b"[hidden]" in frame.text for frame in frames) and "hello" in given


def test_comments_of_a_stream_are_events_and_its_endpoint_too() -> None:
    found: list[Frame] = []
    tape = Tape(lambda frame, _: found.append(frame), None)
    tape.control("server", "get-1", {"event": "response", "headers": {"content-type": "text/event-stream"}}, 0)
    tape.feed("server", "get-1", b": p\xffng\n\nevent: endpoint\ndata: /post\n\nevent: other\ndata: /x\n\n", 0)
    assert [(frame.kind, frame.text.decode()) for frame in found[1:]] == [
        ("control", '{"event":"comment","text":": p\ufffdng\\n"}'),
        ("control", '{"event":"endpoint","data":"/post"}'),
        ("noise", "/x"),
    ]

"""Responses that were not recorded, and recorded text for live ids."""

from __future__ import annotations

import pytest

from mcp_tape.wire import frames, rewrite


@pytest.mark.parametrize("rpc_id", ["1", '"a"', "1e2", None])
def test_an_error_response_is_one_message_with_the_id_unchanged(rpc_id: str | None) -> None:
    text = rewrite.error_response(rpc_id, -32000, "half a \ud83d character", {"why": "\u2028"})
    assert text.startswith(b'{"jsonrpc":"2.0","id":%s,"error":{' % (rpc_id or "null").encode())
    assert b"\n" not in text
    (message,) = frames.parse(text)[1]
    assert (message.kind, message.status) == ("response", "error")
    error = {"code": -32000, "message": "half a \ud83d character", "data": {"why": "\u2028"}}
    assert message.body["error"] == error


def test_a_response_has_the_given_json() -> None:
    assert rewrite.response("7", "result", '{"n": 1e2}') == b'{"jsonrpc":"2.0","id":7,"result":{"n": 1e2}}'


def test_a_free_id_is_the_wanted_one_or_the_next_number() -> None:
    used = {"7", "1", "2", '"live-1"', '"live-2"', "0"}
    assert rewrite.free_id(used.__contains__, "8") == "8"
    assert rewrite.free_id(used.__contains__, "7") == "3"
    assert rewrite.free_id(used.__contains__, "7", "9") == "9"
    assert rewrite.free_id(used.__contains__, form=lambda number: f'"live-{number}"') == '"live-3"'
    assert rewrite.free_id(used.__contains__, first=0) == "3"


@pytest.mark.parametrize("size", [0, 1000, 1001])
def test_a_refusal_without_a_message_quotes_the_start_of_its_body(size: int) -> None:
    (message,) = frames.parse(rewrite.refusal(b"x" * size, "1"))[1]
    assert (message.rpc_id, message.body["error"]["data"]) == ("1", "x" * min(size, 1000))


@pytest.mark.parametrize(
    ("recorded", "live", "expected"),
    [
        ('"result":{"a":1}', '"result":{"a":1}', None),
        ('"result":{"a":[1,2]}', '"result":{"a":[1,3]}', "$.result.a[1] differs"),
        ('"error":{"code":1}', '"error":{"code":2}', "$.error.code differs"),
        ('"result":{}', '"error":{"code":2}', "with an error"),
        ('"error":{"code":2}', '"result":{}', "without the error"),
    ],
)
def test_a_different_answer_is_described_in_a_few_words(recorded: str, live: str, expected: str | None) -> None:
    (then,), (now,) = (
        frames.parse(f'{{"jsonrpc":"2.0","id":1,{body}}}'.encode())[1] for body in (recorded, live)
    )  # fmt: skip
    assert rewrite.describe_answer_difference(now, then) == expected

"""Frames and messages, classified by their shape alone."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_tape.wire.channels import STDIO
from mcp_tape.wire.frames import FrameNumbers, Message, Side, facts, parse
from tests.support.fuzzing import examples

BIG = "123456789012345678901234567890"


def one(text: str | bytes) -> Message:
    """The only message in a text."""
    kind, messages = parse(text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass"))
    assert kind == "message"
    (message,) = messages
    return message


def nested(levels: int) -> str:
    return "[" * levels + "]" * levels


@pytest.mark.parametrize("method", ["tools/call", "any/thing", "", "\u00e9", "rpc.discover"])
def test_a_method_and_an_id_make_a_request(method: str) -> None:
    message = one(json.dumps({"jsonrpc": "2.0", "id": 1, "method": method}))
    assert (message.kind, message.method, message.rpc_id, message.status) == ("request", method, "1", None)


def test_a_method_without_an_id_makes_a_notification() -> None:
    message = one('{"jsonrpc":"2.0","method":"notifications/progress","params":{}}')
    assert (message.kind, message.method, message.rpc_id) == ("notification", "notifications/progress", None)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ('"result":{}', "ok"),
        ('"result":null', "ok"),
        ('"result":[1]', "ok"),
        ('"result":{"isError":false}', "ok"),
        ('"result":{"isError":true}', "tool-error"),
        ('"result":{"isError":"true"}', "ok"),
        ('"result":{"resultType":"input_required"}', "input-required"),
        ('"error":{"code":-1,"message":"no"}', "error"),
        ('"error":null', "error"),
        ('"result":{},"error":{"code":-1,"message":"no"}', "error"),
    ],
)
def test_a_result_or_an_error_makes_a_response(body: str, status: str) -> None:
    message = one(f'{{"jsonrpc":"2.0","id":7,{body}}}')
    assert (message.kind, message.method, message.rpc_id, message.status) == ("response", None, "7", status)


@pytest.mark.parametrize("id_", ['"id":null,', ""])
def test_an_error_may_have_no_id(id_: str) -> None:
    message = one(f'{{"jsonrpc":"2.0",{id_}"error":{{"code":-32700,"message":"Parse error"}}}}')
    assert (message.kind, message.rpc_id, message.status) == ("response", None, "error")


@pytest.mark.parametrize(
    ("id_", "kept"),
    [
        ("0", "0"),
        ("-1", "-1"),
        ("1", "1"),
        ("1.0", "1"),
        ("1e0", "1"),
        ("1.5", "1.5"),
        ('"1"', '"1"'),
        ('""', '""'),
        (r'"\u0061"', '"a"'),
        (r'"\ud800"', r'"\ud800"'),
        ('"é"', '"é"'),
        ("9007199254740993", "9007199254740993"),
        ("18446744073709551615", "18446744073709551615"),
        (BIG, BIG),
        (f"-{BIG}", f"-{BIG}"),
        ("1e400", "1e400"),
    ],
)
def test_an_id_is_kept_as_json_text_by_its_value(id_: str, kept: str) -> None:
    message = one(f'{{"jsonrpc":"2.0","id":{id_},"method":"m"}}')
    assert (message.kind, message.rpc_id) == ("request", kept)
    assert one(f'{{"jsonrpc":"2.0","id":{id_},"result":{{}}}}').rpc_id == kept


@pytest.mark.parametrize("id_", ["null", "true", "false", "{}", "[]", "[1]"])
def test_an_invalid_id_is_none(id_: str) -> None:
    """A request with such an id is not a message: it is not a notification, and cannot be answered."""
    assert parse(f'{{"jsonrpc":"2.0","id":{id_},"method":"m"}}'.encode()) == ("noise", [])
    assert one(f'{{"jsonrpc":"2.0","id":{id_},"result":1}}').rpc_id is None


def test_of_duplicate_keys_the_last_one_counts() -> None:
    message = one('{"id":1,"method":"a","id":2,"method":"b"}')
    assert (message.method, message.rpc_id) == ("b", "2")
    assert one(f'{{"id":1,"method":"a","id":{BIG}}}').rpc_id == BIG


def test_a_request_has_its_subject() -> None:
    assert one('{"id":1,"method":"tools/call","params":{"name":"add"}}').name == "add"
    assert one('{"id":1,"method":"tools/call","params":{"name":5}}').name is None
    assert one('{"id":1,"method":"tools/call","params":["add"]}').name is None


def test_a_batch_has_a_message_per_part_in_order() -> None:
    kind, messages = parse(
        f'[{{"id":1,"method":"a"}}, {{"method":"b"}}, {{"id":{BIG},"result":1}}, {{"id":null,"error":{{}}}}]'.encode()
    )
    assert kind == "batch"
    assert [(m.kind, m.method, m.rpc_id) for m in messages] == [
        ("request", "a", "1"),
        ("notification", "b", None),
        ("response", None, BIG),
        ("response", None, None),
    ]


@pytest.mark.parametrize("text", ["[]", "[1]", "[{}]", '[{"id":1,"method":"a"},2]', '[[{"id":1,"method":"a"}]]'])
def test_an_array_that_is_not_all_messages_is_noise(text: str) -> None:
    assert parse(text.encode()) == ("noise", [])


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"   ",
        b"\r",
        b"Server started on stdio",
        b"{}",
        b"null",
        b'"method"',
        b"42",
        b'{"jsonrpc":"2.0","id":1}',
        b'{"id":1,"method":5}',
        b'{"id":1,"method":null}',
        b'{"id":1,"method":"m"',
        b'{"id":1,"method":"m"}}',
        b'{"id":1,"method":"m"} trailing',
        b'DEBUG {"id":1,"method":"m"}',
        b'{"id":1,"method":"m",}',
        b"{'id':1,'method':'m'}",
        b'{"id":1,"method":"m","params":NaN}',
        b'{"id":1,"method":"m","params":[Infinity]}',
        b'\xef\xbb\xbf{"id":1,"method":"m"}',
        b'{"id":1,"method":"m\nn"}',
        b'\xff\xfe{"id":1,"method":"m"}',
        b'{"id":1,"method":"m"}\x00',
        b"\x0b{}",
    ],
)
def test_other_text_than_a_message_is_noise(text: bytes) -> None:
    assert parse(text) == ("noise", [])


def test_white_space_around_a_message_does_not_matter() -> None:
    assert one(b' \t\r{"id":1,"method":"m"}  \r').rpc_id == "1"


def test_invalid_utf8_within_a_string_still_is_a_message() -> None:
    message = one(b'{"id":1,"method":"tools/call","params":{"name":"a\xff\xc3b"}}')
    assert (message.kind, message.name) == ("request", "a\ufffd\ufffdb")


def test_lone_surrogates_still_are_a_message() -> None:
    assert one(r'{"id":1,"method":"tools/call","params":{"name":"\udc00"}}').name == "\udc00"


@pytest.mark.slow(quick=8)
@pytest.mark.parametrize("levels", [100, 190, 200, 210, 500, 1000, 1030, 2000, 50_000])
def test_a_message_may_be_nested_at_any_depth(levels: int) -> None:
    text = f'{{"id":{BIG},"method":"tools/call","params":{{"name":"dig","arguments":{nested(levels)}}}}}'
    message = one(text)
    assert (message.kind, message.method, message.rpc_id, message.name) == ("request", "tools/call", BIG, "dig")
    kind, messages = parse(f'[{text},{{"method":"n"}}]'.encode())
    assert kind == "batch"
    assert [(m.method, m.rpc_id, m.name) for m in messages] == [("tools/call", BIG, "dig"), ("n", None, None)]


@pytest.mark.parametrize(
    "text",
    [
        "[" * 2000,
        nested(2000),
        nested(2000) + "]",
        "{" * 2000,
        '{"method":"x","params":' + "[" * 2000,
        '{"method":"x","params":' + nested(2000),
        '{"method":"x","params":' + nested(2000) + "}}",
        '{"method":"x","params":' + "[" * 2000 + "}" * 2000 + "}",
        '{"method":"x","params":' + nested(2000) + ",}",
        '{"method":"x" "params":' + nested(2000) + "}",
        '{"method":"x","params":' + nested(2000) + ',"y":nope}',
    ],
    ids=lambda text: f"{text[:30]}...{text[-5:]}",
)
def test_deep_nesting_that_is_no_message_is_noise(text: str) -> None:
    assert parse(text.encode()) == ("noise", [])


@given(st.binary(max_size=40) | st.text(st.sampled_from('{}[]":,1 idmethod\\'), max_size=40).map(str.encode))
@examples(300)
def test_any_bytes_are_classified(text: bytes) -> None:
    kind, messages = parse(text)
    assert kind in ("message", "batch", "noise")
    assert bool(messages) == (kind != "noise")


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "jsonrpc": st.just("2.0"),
            "id": st.none() | st.booleans() | st.integers() | st.text() | st.lists(st.integers(), max_size=1),
            "method": st.text() | st.integers() | st.none(),
            "params": st.none() | st.dictionaries(st.text(), st.integers(), max_size=2),
            "result": st.none() | st.integers() | st.dictionaries(st.text(), st.booleans(), max_size=2),
            "error": st.none() | st.dictionaries(st.text(), st.integers(), max_size=2),
        },
    )
)
def test_the_shape_decides(body: dict[str, Any]) -> None:
    kind, messages = parse(json.dumps(body).encode())
    is_id = isinstance(body.get("id"), (int, str)) and not isinstance(body.get("id"), bool)
    if isinstance(body.get("method"), str):
        kinds = ["request"] if is_id else [] if "id" in body else ["notification"]
        assert [m.kind for m in messages] == kinds
    elif "result" in body or "error" in body:
        assert [m.kind for m in messages] == ["response"]
    else:
        assert (kind, messages) == ("noise", [])
    if messages and is_id:
        assert json.loads(messages[0].rpc_id or "") == body["id"]


@pytest.mark.parametrize("text", [b"", b"[1]", b"{", b"[" * 100_000, "text", b"\xff"])
def test_other_text_than_an_object_has_no_facts(text: str | bytes) -> None:
    assert facts(text) == {}


def test_facts_are_read_from_text_and_from_bytes() -> None:
    assert facts('{"event":"exit"}') == facts(b'{"event":"exit"}') == {"event": "exit"}


def test_the_response_to_a_posted_batch_takes_a_number_for_each_message_of_it() -> None:
    numbers = FrameNumbers()
    taken: list[tuple[Side, str, int, int]] = [
        ("client", "post-1", 3, 1),
        ("server", "post-1", 1, 4),
        ("client", "post-2", 1, 7),
        ("server", "post-2", 2, 8),
        ("server", "post-2", 1, 10),
        ("client", STDIO, 2, 11),
        ("server", STDIO, 1, 13),
    ]
    assert [numbers.take(side, channel, messages) for side, channel, messages, _ in taken] == [one[3] for one in taken]
    assert numbers.next == 14

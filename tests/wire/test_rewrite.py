"""Responses that nobody recorded, and recorded text for live ids."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_tape.wire import frames, match, rewrite

LEADING = '{"jsonrpc":"2.0","id":ID,"method":"tools/call","params":{"name":"t"META}}'
TRAILING = '{"method":"tools/call","params":{"name":"t"META},"jsonrpc":"2.0","id":ID}'
NAMES = st.sampled_from(["id", "_meta", "progressToken", "params", "a"])
LEAVES = st.sampled_from([1, "a", ',"id":7}', '}},"jsonrpc":"2.0"', ',"_meta":{"progressToken":3}}}', "\u00e9"])
MEMBERS = st.dictionaries(NAMES, st.recursive(LEAVES, lambda inner: st.dictionaries(NAMES, inner), max_leaves=6))


@pytest.mark.parametrize("rpc_id", ["1", '"a"', "1e2", None])
def test_an_error_response_is_one_message_with_the_id_as_it_is(rpc_id: str | None) -> None:
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


def _asked(form: str, own: str, meta: str = "") -> bytes:
    return form.replace("ID", own).replace("META", meta).encode()


@pytest.mark.parametrize("form", [LEADING, TRAILING])
@pytest.mark.parametrize("own", ["0", "12", '"a"', '"req-1_b:c/d.e"'])
@pytest.mark.parametrize("token", ["", ',"_meta":{"progressToken":5}', ',"_meta":{"progressToken":"t-1"}'])
def test_a_request_is_the_same_text_without_its_names(form: str, own: str, token: str) -> None:
    recorded, live = rewrite.without_names(_asked(form, "7")), rewrite.without_names(_asked(form, own, token))
    assert recorded and live
    assert recorded[0] == live[0] and rewrite.may_have_other_id(recorded[0])
    assert (recorded[1], live[1]) == (b"7", own.encode()) and rewrite.is_usual_id(live[1])


@pytest.mark.parametrize("form", [LEADING, TRAILING])
def test_a_token_is_cut_out_of_a_meta_with_more_in_it(form: str) -> None:
    meta = ',"_meta":{"client":{"name":"}, \\"_meta\\":{"},"more":{}'
    without, one, other = (
        form.replace("META", meta + token) for token in ("}", ',"progressToken":5}', ',"progressToken":"t"}')
    )
    recorded = rewrite.without_names(without.replace("ID", "7").encode())
    assert recorded is not None
    for text in one, other:
        live = rewrite.without_names(text.replace("ID", "8").encode())
        assert live is not None and live[0] == recorded[0]


@pytest.mark.parametrize("own", ["", "01", "-1", "1.0", "1e2", "null", '""', '"a,b"', '"\\u0061"', '"é"', "[1", "1 "])
@pytest.mark.parametrize("form", [LEADING, TRAILING])
def test_an_id_that_may_be_written_otherwise_is_left_to_the_parser(form: str, own: str) -> None:
    live = rewrite.without_names(_asked(form, own))
    assert live is None or not rewrite.is_usual_id(live[1])


@pytest.mark.parametrize(
    "meta",
    [
        ',"arguments":{"a":1,"_meta":{"progressToken":5}}',
        ',"_meta":{"progressToken":5,"more":1}',
        ',"_meta":{"progressToken":5},"after":1',
        ',"_meta":{"progressToken":{"a":1}}',
        ',"_meta":{"more":1},"arguments":{"a":1,"progressToken":5}',
        ',"_meta":{"more":{"a":1,"progressToken":5}}',
        ',"a\\"_meta":{"more":1,"progressToken":5}',
        ',"_meta":{"more":1,"a\\"progressToken":5}',
        ',"_meta":{,"progressToken":5}',
        ',"_meta":{"more",,"progressToken":5}',
    ],
)
@pytest.mark.parametrize("form", [LEADING, TRAILING])
def test_only_a_token_that_stands_last_in_the_params_is_cut_out(form: str, meta: str) -> None:
    live = rewrite.without_names(_asked(form, "7", meta))
    assert live is not None
    assert meta.encode() in live[0]


@pytest.mark.parametrize("second", ['"id":7', '"\\u0069d":7'])
def test_only_a_request_with_a_second_id_keeps_the_first(second: str) -> None:
    assert not rewrite.may_have_other_id(f',"method":"m",{second}}}'.encode())
    assert rewrite.may_have_other_id(b',"method":"m","params":{"id":7}}')


@given(MEMBERS, MEMBERS, st.permutations(["jsonrpc", "id", "method", "params", "x"]), st.booleans(), st.data())
def test_texts_that_are_equal_without_names_are_equal_requests(
    params: dict[str, Any], other: dict[str, Any], order: list[str], escaped: bool, data: st.DataObject
) -> None:
    def request(own: int) -> dict[str, Any]:
        body = {"jsonrpc": "2.0", "id": own, "method": "m", "params": params, "x": other}
        return {name: body[name] for name in order if name != "x" or other}

    recorded = json.dumps(request(7), separators=(",", ":"), ensure_ascii=escaped).encode()
    text = json.dumps(request(8), separators=(",", ":"), ensure_ascii=escaped)
    # A token, in any place of the text where it may stand, whatever it means there.
    places = [at for at, letter in enumerate(text) if letter == "}"]
    at = data.draw(st.sampled_from([len(text), *places]))
    token = data.draw(st.sampled_from([',"_meta":{"progressToken":9}', ',"progressToken":9']))
    live = (text[:at] + token + text[at:] if at < len(text) else text).encode()
    named, asked = rewrite.without_names(recorded), rewrite.without_names(live)
    if named is None or asked is None or named[0] != asked[0]:
        return
    if named[1] != b"7" or not rewrite.may_have_other_id(named[0]) or not rewrite.is_usual_id(asked[1]):
        return
    (then,), (now,) = frames.parse(recorded)[1], frames.parse(live)[1]
    assert now.rpc_id == asked[1].decode() == "8"
    assert match.message_key(then, recorded) == match.message_key(now, live)

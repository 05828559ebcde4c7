"""The ledger over stdio: the request, exchange and cue of each message."""

from __future__ import annotations

import pytest

from mcp_tape.wire.frames import Frame, LedgerEntry, parse
from mcp_tape.wire.ledger import Ledger

Line = tuple[str, str]  # side and text
CLIENT, SERVER = "client", "server"


def ask(rpc_id: object, method: str = "tools/call", params: str = '{"name":"a"}') -> str:
    return f'{{"jsonrpc":"2.0","id":{rpc_id},"method":"{method}","params":{params}}}'


def tell(method: str, params: str = "{}") -> str:
    return f'{{"jsonrpc":"2.0","method":"{method}","params":{params}}}'


def answer(rpc_id: object, result: str = "{}") -> str:
    return f'{{"jsonrpc":"2.0","id":{rpc_id},"result":{result}}}'


def entered(ledger: Ledger, lines: list[Line]) -> list[LedgerEntry]:
    found: list[LedgerEntry] = []
    for number, (side, text) in enumerate(lines, 1):
        kind, messages = parse(text.encode())
        frame = Frame(number, 0, side, "stdio", kind, text.encode())  # type: ignore[arg-type]
        found += ledger.enter(frame, messages, frame.text)
    return found


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        pytest.param(
            [(CLIENT, ask(1)), (CLIENT, ask(2)), (SERVER, answer(2)), (SERVER, answer(1))],
            [(None, 1, None), (None, 2, None), (2, 2, 2), (1, 1, 1)],
            id="answers in another order",
        ),
        pytest.param(
            [(CLIENT, ask(1)), (SERVER, ask(1, "ping")), (CLIENT, answer(1)), (SERVER, answer(1))],
            [(None, 1, None), (None, 1, 1), (2, 1, None), (1, 1, 3)],
            id="each side has ids of its own",
        ),
        pytest.param(
            [(CLIENT, ask(1)), (CLIENT, ask('"1"')), (SERVER, answer('"1"')), (SERVER, answer(1))],
            [(None, 1, None), (None, 2, None), (2, 2, 2), (1, 1, 1)],
            id="a number is no text",
        ),
        pytest.param(
            [(CLIENT, ask(1)), (CLIENT, ask(2)), (SERVER, tell("notifications/x")), (SERVER, answer(2))],
            [(None, 1, None), (None, 2, None), (None, 2, 2), (2, 2, 2)],
            id="what names no call belongs to the newest that is open",
        ),
        pytest.param(
            [
                (CLIENT, ask(1, params='{"name":"a","_meta":{"progressToken":"p"}}')),
                (CLIENT, ask(2)),
                (SERVER, tell("notifications/progress", '{"progressToken":"p"}')),
            ],
            [(None, 1, None), (None, 2, None), (None, 1, 1)],
            id="progress belongs to the call that asked for it",
        ),
        pytest.param(
            [
                (CLIENT, ask(1)),
                (CLIENT, tell("notifications/cancelled", '{"requestId":1}')),
                (SERVER, tell("notifications/x")),
                (SERVER, answer(1)),
            ],
            [(None, 1, None), (None, 1, None), (None, None, 2), (1, 1, 2)],
            id="a cancelled call takes nothing more, but its answer",
        ),
        pytest.param(
            [(SERVER, answer(9)), (CLIENT, ask(1)), (SERVER, answer(1)), (SERVER, answer(1))],
            [(None, None, 0), (None, 2, None), (2, 2, 2), (None, None, 2)],
            id="an answer to nothing, and a second one",
        ),
        pytest.param(
            [(CLIENT, ask(1)), (CLIENT, ask(1)), (SERVER, answer(1)), (SERVER, answer(1))],
            [(None, 1, None), (None, 2, None), (2, 2, 2), (None, None, 2)],
            id="an id that is used again is that of the later call",
        ),
        pytest.param(
            [(CLIENT, f"[{ask(1)},{ask(2)}]"), (SERVER, f"[{answer(2)},{answer(1)}]")],
            [(None, 1, None), (None, 1, None), (2, 1, 1), (1, 1, 1)],
            id="a batch has one number, and each call its place",
        ),
        pytest.param(
            [
                (CLIENT, ask(1, "subscriptions/listen")),
                (SERVER, tell("notifications/x")),
                (CLIENT, ask(2)),
                (SERVER, answer(2)),
                *[(SERVER, tell("notifications/x", '{"_meta":{"io.modelcontextprotocol/subscriptionId":1}}'))] * 2,
            ],
            [(None, 1, None), (None, None, 1), (None, 3, None), (3, 3, 3), (None, 1, 1), (None, 1, 3)],
            id="a listen takes only what names it",
        ),
    ],
)
def test_each_message_has_its_request_its_exchange_and_its_cue(
    lines: list[Line], expected: list[tuple[int | None, ...]]
) -> None:
    found = [(entry.answers, entry.exchange, entry.cue) for entry in entered(Ledger(), lines)]
    assert found == expected


def test_only_requests_have_keys() -> None:
    entries = entered(
        Ledger(), [(CLIENT, ask(1)), (CLIENT, tell("notifications/x")), (SERVER, ask(1, "ping")), (SERVER, answer(1))]
    )
    assert [entry.key is not None for entry in entries] == [True, False, True, False]


def test_introductions_identify_both_sides() -> None:
    ledger = Ledger()
    stated = '{"protocolVersion":"2025-06-18","%sInfo":{"name":"%s","version":"1"}}'
    lines = [(CLIENT, ask(0, "initialize", stated % ("client", "c"))), (SERVER, answer(0, stated % ("server", "s")))]
    entered(ledger, lines)
    assert ledger.facts == {
        "protocol_version": "2025-06-18",
        "client_name": "c",
        "client_version": "1",
        "server_name": "s",
        "server_version": "1",
    }


def test_exchanges_are_counted_when_they_are_closed() -> None:
    ledger = Ledger()
    entered(ledger, [(CLIENT, ask(1)), (CLIENT, ask(2)), (SERVER, answer(1)), (SERVER, ask(5, "ping"))])
    assert (ledger.exchanges, ledger.open_exchanges) == (1, 2)
    assert sorted(ledger.waiting_requests()) == [(2, False), (4, False)]

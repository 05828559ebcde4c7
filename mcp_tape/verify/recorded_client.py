"""The recorded client, adapted to a live server.

Replaces values that the recorded server minted by live ones, and placeholders by secrets. Skips requests that may
write, and those that depend on a skipped one. Requests more pages where a live list is longer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ..cassette.lookup.messages import Messages, RecordedMessage
from ..cassette.query import recorded_requests
from ..cassette.reader import Cassette
from ..compare.checks.server_requests import is_same_request
from ..compare.minted.uses import Key, TapeMessage, is_lost, put_live_values, uses
from ..redaction import restore
from ..wire import jsontext, protocol
from ..wire.channels import is_post
from ..wire.frames import Message
from .client_deck import ClientDeck
from .plan import PlayPlan, VerifyOptions, hints, title_of
from .play_findings import SkippedRequest

PATIENCE = 1.0  # seconds for unsolicited messages of the server
_MOST_PAGES = 100  # beyond those on the tape


class RecordedClient:
    """The client of one session. Does no I/O except on the cassette."""

    def __init__(self, cassette: Cassette, plan: PlayPlan, options: VerifyOptions, environ: Mapping[str, str]) -> None:
        self._session = session = plan.session
        self._messages = Messages(cassette)
        self._cassette = cassette
        self._options = options
        self._environ = environ
        self._read_only = set(plan.read_only)
        mine = self._messages.of_client(session)
        family = _family(cassette, session)
        self._uses = uses(lambda: _messages_of(self._messages, family))
        self._sources = {key for found in self._uses.values() for use in found for key, _ in use.spots}
        self._live, self._lost = plan.heard
        self._never_asked: set[int] = set()  # seqs of skipped requests
        self._pages: set[str] = set()
        self.skipped: list[SkippedRequest] = []
        requests = [row for row in mine if row.kind == "request" and row.key is not None]
        self.requests = len(requests)
        self.calls = sum(row.method == protocol.CALL for row in requests)
        self.called = 0
        self.answered = 0
        noise = recorded_requests.client_noise(cassette, session)
        self.deck = ClientDeck(
            self._messages, session, patience=PATIENCE, prepare=self._prepare, hear=self._hear, same=is_same_request,
            noise=noise,
        )  # fmt: skip

    def headers(self, row: RecordedMessage | None) -> dict[str, str]:
        """Recorded headers for a request's arguments; other headers are made from its text."""
        channel = self._messages.facts(row).channel if row else None
        if row is None or channel is None or not is_post(channel):
            return {}
        headers = _member(recorded_requests.request_head(self._cassette, row.session, channel, row.seq), "headers")
        return {
            name: value
            for name, value in (headers.items() if isinstance(headers, dict) else ())
            if name.startswith(protocol.PARAM_HEADER)
            and isinstance(value, str)
            and not restore.hidden_sources(value.encode())
        }

    @property
    def has_stream(self) -> bool:
        """True if the client had opened an HTTP stream for unsolicited messages."""
        return self._messages.controls.stream_status(self._session) is not None

    # -- called by the deck

    def _prepare(self, row: RecordedMessage, text: bytes) -> bytes | None:
        if row.method == protocol.CANCELLED and row.exchange in self._never_asked:
            return None
        if row.kind == "request":
            skipped = self._skip_reason(row)
            if skipped is not None:
                self.skipped.append(skipped)
                self._lose(row)
                return None
            self.called += row.method == protocol.CALL
            careful = row.method == protocol.CALL and row.name not in self._read_only
            text = put_live_values(
                text, self._uses.get(row.place, ()), self._recorded_body, self._live.get, careful=careful
            )
        return (
            restore.restore_secrets(text, self._environ)
            if recorded_requests.is_redacted(self._cassette, row.frame)
            else text
        )

    def _hear(self, row: RecordedMessage, answer: Message) -> None:
        self.answered += 1
        recorded = self._messages.answer(row)
        if recorded is not None and recorded.place in self._sources:
            self._live[recorded.place] = answer.body
        if row.method == protocol.TOOLS:
            self._read_only -= {name for name, read_only in hints(answer.body).items() if not read_only}
        if (row.method or "").endswith("/list"):
            self._turn_page(row, answer, recorded)

    # -- skipped requests

    def _skip_reason(self, row: RecordedMessage) -> SkippedRequest | None:
        request = title_of(row)
        if row.method == protocol.CALL and self._options.writes != "allow" and row.name not in self._read_only:
            was = "is not read-only" if self._options.writes == "skip" else "is no longer read-only"
            return SkippedRequest(request, f"the tool {was}", True)
        found = self._uses.get(row.place, ())
        if any(all(key in self._lost for key, _ in use.spots) for use in found):
            return SkippedRequest(request, "it needs a value from a request that was left out", True)
        lost = next((use for use in found if is_lost(use, self._recorded_body, self._live.get)), None)
        return (
            SkippedRequest(request, f"the live server gave no {lost.path[-1]} to go on with", False) if lost else None
        )

    def _lose(self, row: RecordedMessage) -> None:
        self._never_asked.add(row.seq)
        answer = self._messages.answer(row)
        if answer is not None:
            self._lost.add(answer.place)

    # -- pages beyond the tape

    def _turn_page(self, row: RecordedMessage, answer: Message, recorded: RecordedMessage | None) -> None:
        """Request the next page where the live list is longer than the recorded one, as a client would."""
        cursor = _cursor(answer.body)
        if cursor is None or cursor in self._pages or len(self._pages) >= _MOST_PAGES:
            return
        if recorded is not None and _cursor(self._messages.message(recorded).body) is not None:
            return  # the next page is on the tape
        self._pages.add(cursor)
        body = self._messages.message(self._messages.at(row.place)).body
        rpc_id = f"mcp-tape-page-{len(self._pages)}"
        params = (body.get("params") or {}) | {"cursor": cursor}
        text = jsontext.dumps(body | {"id": rpc_id, "params": params}).encode()
        self.deck.insert(restore.restore_secrets(text, self._environ), row._replace(rpc_id=jsontext.quote(rpc_id)))

    def _recorded_body(self, key: Key) -> Any:
        return self._messages.message(self._messages.at(key)).body


def _family(cassette: Cassette, session: int) -> list[int]:
    """A session, the one that it extends, and all that extend that one: a client may use values across them."""
    base = cassette.session(session).extends or session
    return sorted({session} | {one.id for one in cassette.sessions() if base in (one.id, one.extends)})


def _messages_of(messages: Messages, sessions: Iterable[int]) -> Iterator[TapeMessage]:
    for session in sessions:
        rows: Iterable[RecordedMessage] = [*messages.of_client(session), *messages.of_server(session)]
        for row in sorted(rows, key=lambda row: row.place):
            if row.kind != "noise":
                yield TapeMessage(row.place, row.sender, row.kind, row.method, messages.message(row).body)


def _cursor(body: Any) -> str | None:
    cursor = protocol.member(protocol.member(body, "result"), "nextCursor")
    return cursor if isinstance(cursor, str) and cursor else None


def _member(text: Any, name: str) -> Any:
    try:
        return protocol.member(jsontext.loads(text), name)
    except (ValueError, RecursionError, TypeError):
        return None  # untrusted

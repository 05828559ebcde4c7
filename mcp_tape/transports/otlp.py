"""Spans sent to a collector of OpenTelemetry: https://opentelemetry.io/docs/specs/otlp/#otlphttp

One document at a time: the next is read from the cassette when this one has been taken. So the queue holds at most
`formats.otlp.AT_ONCE` spans, and a slow collector slows down the reading. What a collector does not take in `TRIES`
tries is an error that says how many spans came before it: nothing is dropped in silence.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any
from urllib.parse import urlsplit

from ..errors import ServerError, count
from ..formats import protobuf
from ..redaction.diagnostics import hidden

Json = dict[str, Any]
PATH = "/v1/traces"
TRIES = 5
_RETRIED = (429, 502, 503, 504)  # https://opentelemetry.io/docs/specs/otlp/#retryable-response-codes
_LONGEST = 30.0  # seconds between two tries
_TIMEOUT = 10.0


def endpoint(url: str) -> str:
    """Where to send spans: a URL without a path means the usual one."""
    return url if urlsplit(url).path.strip("/") else url.rstrip("/") + PATH


def send(url: str, documents: Iterable[Json], wait: Callable[[float], object] = time.sleep) -> tuple[int, int]:
    """Send documents of spans; how many spans were sent, and how many of them refused. `wait`: between two tries."""
    taken = refused = 0
    try:
        for spans, without in sent(url, documents, wait):
            taken += spans
            refused += without
    except ServerError as error:
        raise ServerError(f"{error}\n{count(taken, 'span')} had been sent before; the rest was not") from None
    return taken, refused


def sent(url: str, documents: Iterable[Json], wait: Callable[[float], object]) -> Iterator[tuple[int, int]]:
    """Send documents of spans; yield the number of spans in each, and of those that were refused."""
    import httpx2

    with httpx2.Client(timeout=_TIMEOUT, follow_redirects=False) as client:
        for document in documents:
            answer = _taken(client, endpoint(url), protobuf.encode(document), wait)
            spans = sum(len(scope["spans"]) for one in document["resourceSpans"] for scope in one["scopeSpans"])
            yield spans, protobuf.rejected(answer)


def _taken(client: Any, url: str, body: bytes, wait: Callable[[float], object]) -> bytes:
    """The response of a collector that took a document."""
    import httpx2

    why, delay = "", 0.0
    for number in range(TRIES):
        if number:
            wait(delay)
        delay = min(2.0**number, _LONGEST)
        try:
            response = client.post(url, content=body, headers={"content-type": "application/x-protobuf"})
        except httpx2.HTTPError as error:
            why = str(error) or type(error).__name__
            continue
        if response.status_code < 300:
            return bytes(response.content)
        why = f"it answered {response.status_code} {response.text[:200]}".strip()
        if response.status_code not in _RETRIED:
            break
        asked = response.headers.get("retry-after", "")
        delay = min(float(asked), _LONGEST) if asked.isdecimal() else delay
    raise ServerError(hidden(f"cannot send spans to {url}: {why}"))

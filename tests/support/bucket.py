"""A bucket on loopback: it supports the part of S3 that obstore uses, and fails on demand."""

from __future__ import annotations

import contextlib
import hashlib
import ssl
import threading
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

from tests.support.running import WAIT

_FILLER = b" " * (1 << 20)
MODIFIED = datetime(2026, 11, 1, 12, 30, tzinfo=timezone.utc)


class Request(NamedTuple):
    verb: str
    path: str  # bucket/key
    headers: dict[str, str]  # names in lower case
    number: int = 0  # counted from 1


Fault = Callable[[Request, "Answer"], None]


class Answer:
    """The answer to one request, for a fault to change. `cut`: send only this many bytes of the body."""

    def __init__(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.status, self.body, self.headers = status, body, {name.replace("_", "-"): headers[name] for name in headers}
        self.is_measured = True  # else the body ends with the connection
        self.cut: int | None = None
        self.more = 0  # bytes of filler after the body, which then ends with the connection
        self.pause: tuple[int, Callable[[], object]] = 0, lambda: None  # after this many bytes, call this


class Bucket:
    """Objects by `bucket/key`, and the requests for them. Faults are applied in turn; each may change an answer."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.requests: list[Request] = []
        self.faults: list[Fault] = []
        self.tags = True  # whether objects have ETags
        self._lock = threading.Lock()
        self.url = ""

    def verbs(self) -> list[str]:
        return [request.verb for request in self.requests]

    def environ(self) -> dict[str, str]:
        """The variables by which S3 clients find this bucket only."""
        keys = {"AWS_ACCESS_KEY_ID": "AKIAHIDDENKEYFORTESTS", "AWS_SECRET_ACCESS_KEY": "hidden/secret+key"}
        return keys | {"AWS_ENDPOINT_URL": self.url, "AWS_REGION": "us-east-1"}

    def answer(self, request: Request, body: bytes, query: dict[str, list[str]]) -> Answer:
        with self._lock:
            request = request._replace(number=len(self.requests) + 1)
            self.requests.append(request)
            found = self._answered(request, body, query)
        for fault in self.faults:
            fault(request, found)
        return found

    def _answered(self, request: Request, body: bytes, query: dict[str, list[str]]) -> Answer:
        if request.verb == "PUT":
            if request.path in self.objects and request.headers.get("if-none-match") == "*":
                return Answer(412)
            self.objects[request.path] = body
            return Answer(200, ETag=tag(body))
        if "list-type" in query:
            return self._listed(request.path, query.get("prefix", [""])[0], query.get("delimiter", [""])[0])
        if request.path not in self.objects:
            return Answer(404, b"<Error><Code>NoSuchKey</Code></Error>")
        return self._got(request, self.objects[request.path])

    def _got(self, request: Request, body: bytes) -> Answer:
        headers = {"Last_Modified": format_datetime(MODIFIED, usegmt=True)}
        if self.tags:
            headers["ETag"] = tag(body)
            if request.headers.get("if-none-match") == tag(body):
                return Answer(304, **headers)
            if request.headers.get("if-match", tag(body)) != tag(body):
                return Answer(412)
        elif request.headers.get("if-modified-since") == headers["Last_Modified"]:
            return Answer(304, **headers)
        wanted = request.headers.get("range")
        if wanted is None:
            return Answer(200, body, **headers)
        first, _, last = wanted.removeprefix("bytes=").partition("-")
        part = body[int(first) : int(last) + 1 if last else None]
        place = f"bytes {first}-{int(first) + len(part) - 1}/{len(body)}"
        return Answer(206, part, Content_Range=place, **headers)

    def _listed(self, bucket: str, prefix: str, delimiter: str) -> Answer:
        start = bucket.rstrip("/") + "/"
        keys = sorted(path.removeprefix(start) for path in self.objects if path.startswith(start + prefix))
        deeper = {key for key in keys if delimiter and delimiter in key[len(prefix) :]}
        below = sorted({prefix + key[len(prefix) :].partition(delimiter)[0] + delimiter for key in deeper})
        keys = [key for key in keys if key not in deeper]
        rows = "".join(
            f"<Contents><Key>{escape(key)}</Key><LastModified>2026-11-01T12:30:00.000Z</LastModified>"
            f"<ETag>{tag(self.objects[start + key])}</ETag><Size>{len(self.objects[start + key])}</Size></Contents>"
            for key in keys
        )
        rows += "".join(f"<CommonPrefixes><Prefix>{escape(key)}</Prefix></CommonPrefixes>" for key in below)
        return Answer(200, f"<ListBucketResult><IsTruncated>false</IsTruncated>{rows}</ListBucketResult>".encode())


def tag(body: bytes) -> str:
    return f'"{hashlib.md5(body).hexdigest()}"'


# Faults --------------------------------------------------------------------------------------------------


def every_third(bucket: Bucket) -> Fault:
    """Fail every third request from now on, after it was carried out."""
    before = len(bucket.requests)

    def fault(request: Request, answer: Answer) -> None:
        if (request.number - before) % 3 == 0:
            answer.status, answer.body, answer.headers = 503, b"<Error><Code>SlowDown</Code></Error>", {}

    return fault


def deny(request: Request, answer: Answer) -> None:
    """Deny everything, with too much detail."""
    said = f"<Error><Code>AccessDenied</Code><AWSAccessKeyId>{request.headers.get('authorization', '')}"
    answer.status, answer.body, answer.headers = 403, f"{said}</AWSAccessKeyId></Error>".encode(), {}


def fail(request: Request, answer: Answer) -> None:
    answer.status, answer.body, answer.headers = 500, b"<Error><Code>InternalError</Code></Error>", {}


def flood(status: int) -> Fault:
    """Answer with more than a machine has room for: a listing (200), or an error."""

    def fault(request: Request, answer: Answer) -> None:
        if request.verb != "HEAD":
            answer.status, answer.body, answer.headers, answer.more = status, b"<ListBucketResult>", {}, 8 << 30

    return fault


@contextlib.contextmanager
def served(tls: ssl.SSLContext | None = None) -> Iterator[Bucket]:
    """A bucket that answers on loopback."""
    bucket = Bucket()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = WAIT

        def handle_one(self) -> None:
            parts = urlsplit(self.path)
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            request = Request(self.command, unquote(parts.path).lstrip("/"), headers)
            answer = bucket.answer(request, body, parse_qs(parts.query))
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            if answer.status != 304 and answer.is_measured and not answer.more:
                self.send_header("Content-Length", str(len(answer.body)))
            self.end_headers()
            if self.command != "HEAD":
                place, wait = answer.pause
                self.wfile.write(answer.body[: answer.cut][:place])
                wait()
                self.wfile.write(answer.body[: answer.cut][place:])
                for _ in range(0, answer.more, len(_FILLER)):
                    self.wfile.write(_FILLER)
            if answer.cut is not None or not answer.is_measured or answer.more:
                self.close_connection = True

        do_GET = do_PUT = do_HEAD = handle_one  # noqa: N815 - as its base has them

        def log_message(self, *_: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: object) -> None:
            pass  # a client disconnected

    with Server(("127.0.0.1", 0), Handler) as server:
        if tls is not None:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        bucket.url = f"{'https' if tls else 'http'}://127.0.0.1:{server.server_port}"
        try:
            yield bucket
        finally:
            server.shutdown()
            thread.join(WAIT)

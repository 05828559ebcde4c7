"""A minimal bucket in memory: `python fleet_server.py` prints its address.

Puts (also in parts, and only if absent), gets, heads and lists of S3's REST interface, without checking signatures:
https://docs.aws.amazon.com/AmazonS3/latest/API/Welcome.html. For one process at a time, and for benchmarks only.
"""

from __future__ import annotations

import asyncio
import hashlib
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

_MODIFIED = "Thu, 01 Jan 2026 00:00:00 GMT"
_LISTED = (
    "<Contents><Key>%s</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified>"
    "<ETag>%s</ETag><Size>%d</Size></Contents>"
)
_LIST = '<?xml version="1.0" encoding="UTF-8"?><ListBucketResult><IsTruncated>false</IsTruncated>%s</ListBucketResult>'

_BEGUN = "<InitiateMultipartUploadResult><UploadId>1</UploadId></InitiateMultipartUploadResult>"
_WHOLE = "<CompleteMultipartUploadResult><ETag>%s</ETag></CompleteMultipartUploadResult>"

OBJECTS: dict[str, tuple[bytes, str]] = {}  # with the ETag
PARTS: dict[str, dict[int, bytes]] = {}  # by name and number


class Bucket(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport, self._unread = transport, b""

    def data_received(self, data: bytes) -> None:
        self._unread += data
        while True:
            head, found, rest = self._unread.partition(b"\r\n\r\n")
            lines = head.decode("latin-1").split("\r\n")
            headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
            length = int(headers.get("content-length", 0))
            if not found or len(rest) < length:
                return
            self._unread = rest[length:]
            verb, target, _ = lines[0].split(" ", 2)
            self._transport.write(answer(verb, target, headers, rest[:length]))


def answer(verb: str, target: str, headers: dict[str, str], body: bytes) -> bytes:
    place = urlsplit(target)
    name, query = unquote(place.path), parse_qs(place.query, keep_blank_values=True)
    if "partNumber" in query:
        PARTS[name][int(query["partNumber"][0])] = body
        return _response(200, _etag(body))
    if "uploads" in query:
        PARTS[name] = {}
        return _response(200, body=_BEGUN.encode())
    if verb in ("PUT", "POST"):
        return _put(name, headers, body if verb == "PUT" else None)
    if "list-type" in query:
        return _response(200, body=_listed(name, query.get("prefix", [""])[0]))
    if name not in OBJECTS:
        return _response(404)
    data, etag = OBJECTS[name]
    if headers.get("if-none-match") == etag:
        return _response(304, etag)
    return _response(200, etag, data, with_body=verb == "GET")


def _put(name: str, headers: dict[str, str], body: bytes | None) -> bytes:
    """Store an object; without a body, join its parts."""
    if name in OBJECTS and headers.get("if-none-match") == "*":
        return _response(412)
    data = b"".join(part for _, part in sorted(PARTS.pop(name).items())) if body is None else body
    OBJECTS[name] = data, _etag(data)
    return _response(200, _etag(data), b"" if body is not None else (_WHOLE % escape(_etag(data))).encode())


def _etag(data: bytes) -> str:
    return f'"{hashlib.md5(data).hexdigest()}"'


def _listed(bucket: str, prefix: str) -> bytes:
    start = f"{bucket.rstrip('/')}/"
    rows = [
        _LISTED % (escape(name.removeprefix(start)), escape(etag), len(data))
        for name, (data, etag) in sorted(OBJECTS.items())
        if name.startswith(start + prefix)
    ]
    return (_LIST % "".join(rows)).encode()


def _response(status: int, etag: str = "", body: bytes = b"", *, with_body: bool = True) -> bytes:
    facts = {"content-length": len(body), "last-modified": _MODIFIED, "etag": etag or '"-"'}
    lines = "".join(f"{name}: {value}\r\n" for name, value in facts.items())
    return f"HTTP/1.1 {status} .\r\n{lines}\r\n".encode() + (body if with_body else b"")


async def main() -> None:
    server = await asyncio.get_running_loop().create_server(Bucket, "127.0.0.1", 0)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())

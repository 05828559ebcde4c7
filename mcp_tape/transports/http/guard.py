"""Who may talk to a server of ours, and reports of its failures."""

from __future__ import annotations

import os
import re
import socket
import traceback
from collections.abc import Callable
from functools import partial
from urllib.parse import unquote, urlsplit

from ...errors import TapeError
from . import shortcut
from .addresses import is_address, is_loopback
from .asgi import App, Headers, Receive, Scope, Send, answer, header

Refusal = tuple[int, str]
_ABSOLUTE = re.compile(rb"https?://[^/]*", re.I)
_ORIGIN, _SITE = shortcut.OF_BROWSERS


class Guard:
    """Refuses requests of web pages, which must not reach a local server by a name of their own or by ours.

    https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#security-warning
    """

    def __init__(self, app: App, host: str, report: Callable[[Exception], None]) -> None:
        self._app = app
        self._report = report
        self._names = {host.lower(), "localhost", socket.gethostname().lower()}
        self._usual: str | None = None  # the last host that was let through
        self._asked: shortcut.Quick | None = getattr(app, "quick", None)
        self.quick: shortcut.Quick | None = self._quick if self._asked else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        _to_origin_form(scope)
        headers = scope["headers"]
        refused = _refused_verb(scope["method"]) or self._refused_host(headers) or _refused_page(headers)
        if refused is not None:
            await answer(send, refused[0], f"mcp-tape: {refused[1]}\n")
        else:
            await self._run(self._app, scope, receive, send)

    async def _run(self, app: App, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await app(scope, receive, send)
        except Exception as error:
            self._report(error)
            raise  # uvicorn answers with a 500, or closes the connection

    def _quick(self, request: shortcut.Request) -> shortcut.Found:
        """Pass a usual request on, to be answered at once; requests of browsers never are usual."""
        host = header(request.headers, b"host")
        if self._asked is None:
            return None
        if host != self._usual:
            if self._refused_host(request.headers):
                return None
            self._usual = host
        try:
            found = self._asked(request)
        except Exception as error:
            found = partial(_fail, error)  # where it can be answered
        return partial(self._run, found) if callable(found) else found

    def _refused_host(self, headers: Headers) -> Refusal | None:
        host = header(headers, b"host")
        name = _hostname(f"//{host}")
        if host is not None and (name in self._names or is_address(name)):
            return None
        return 421, f"the host {host!r} is not this one; use the URL that mcp-tape printed"


async def _fail(error: Exception, scope: Scope, receive: Receive, send: Send) -> None:
    raise error


def _refused_page(headers: Headers) -> Refusal | None:
    """Pages of this machine may talk to us, others may not.

    Browsers name the page in `Origin`, but for images, scripts and links they only say how far away it is:
    https://www.w3.org/TR/fetch-metadata/#sec-fetch-site-header. Only clients that are no browsers send neither.
    """
    source = header(headers, _ORIGIN)
    if source is not None:
        return None if is_loopback(_hostname(source)) else (403, f"requests of pages from {source!r} are refused")
    near = {"none", "same-origin"}
    if is_loopback(_hostname(f"//{header(headers, b'host')}")):
        near.add("same-site")  # another port of this machine
    far = sorted({value.decode("latin-1") for name, value in headers if name == _SITE} - near)
    return (403, f"requests of pages from other sites are refused (Sec-Fetch-Site: {', '.join(far)})") if far else None


def _refused_verb(verb: str) -> Refusal | None:
    """Refuse CONNECT, whose tunnel would lead past us, and TRACE, whose echo would show the headers that we add."""
    return (405, f"{verb} is not served here") if verb in ("CONNECT", "TRACE") else None


def _to_origin_form(scope: Scope) -> None:
    """Strip the origin off a target in absolute form, which clients send to proxies.

    https://www.rfc-editor.org/rfc/rfc9112#section-3.2.2
    """
    found = _ABSOLUTE.match(scope["raw_path"])
    if found:
        scope["raw_path"] = scope["raw_path"][found.end() :] or b"/"
        scope["path"] = unquote(scope["raw_path"].decode("latin-1"))


def _hostname(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


class Accidents:
    """Bugs within mcp-tape while it serves: each reported once, as it happens, and by the exit code."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._said: set[str] = set()

    @property
    def code(self) -> int:
        return int(bool(self._said))

    def __call__(self, error: Exception) -> None:
        if isinstance(error, TapeError):
            return  # serving ends with it
        from ...redaction.diagnostics import hidden

        *_, (frame, line) = traceback.walk_tb(error.__traceback__) if error.__traceback__ else [(None, 0)]
        where = f" ({os.path.basename(frame.f_code.co_filename)}:{line})" if frame else ""
        what = " ".join(f"{type(error).__name__}: {error}".split())
        text = hidden(f"a request failed within mcp-tape, please report it: {what}{where}")
        if text not in self._said:
            self._said.add(text)
            self._say(text)

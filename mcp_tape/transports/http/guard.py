"""Refuses requests that must not reach a server of ours, and reports its failures."""

from __future__ import annotations

import os
import socket
import traceback
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from ...errors import TapeError
from .addresses import is_address, is_loopback

if TYPE_CHECKING:
    from .parse import Head

Refusal = tuple[int, str]  # a status, and the reason


class Guard:
    """Refuses requests from web pages: they must not reach a local server, under their own host name or ours.

    https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#security-warning
    """

    def __init__(self, host: str, own: str | None = None) -> None:
        """`own`: the only origin that requests may name or come from; None for all origins of this machine."""
        self._own = own
        self._names = {host.lower(), "localhost", socket.gethostname().lower()}
        self._judge = lru_cache(64)(self._refuse_source)  # most requests of a client have the same headers

    def refuse(self, head: Head, expects: Callable[[str], bool]) -> Refusal | None:
        """Return why a request is refused; None if it is not. `expects`: whether a page may link to a target."""
        # CONNECT would tunnel past us; TRACE would echo the headers that we add.
        if head.verb in ("CONNECT", "TRACE"):
            return 405, f"{head.verb} is not served here"
        refusal = self._judge(*head.who)
        # During a login, pages of other sites redirect here. Such a page can't read our response.
        if refusal is not None and refusal[0] == 403 and _is_visit(head) and expects(head.target.decode("latin-1")):
            return None
        return refusal

    def _refuse_source(self, *who: tuple[bytes, bytes]) -> Refusal | None:
        host = next((value.decode("latin-1") for name, value in who if name == b"host"), None)
        if not self._names_us(host):
            return 421, f"the host {host!r} is not this one; use the URL that mcp-tape printed"
        return self._refuse_page(who, host)

    def _names_us(self, host: str | None) -> bool:
        if self._own is not None:
            return host == self._own.removeprefix("http://")
        name = _hostname(f"//{host}")
        return host is not None and (name in self._names or is_address(name))

    def _refuse_page(self, who: Iterable[tuple[bytes, bytes]], host: str | None) -> Refusal | None:
        """Return why a page may not send this request; None for a page of this machine, or a client without pages.

        Browsers name the page in `Origin`, but for images, scripts and links they send only `Sec-Fetch-Site`:
        https://www.w3.org/TR/fetch-metadata/#sec-fetch-site-header. Other clients send neither.
        """
        sources = [value.decode("latin-1") for name, value in who if name == b"origin"]
        sites = {value.decode("latin-1") for name, value in who if name == b"sec-fetch-site"}
        for source in sources:
            if not (is_loopback(_hostname(source)) if self._own is None else source == self._own):
                return 403, f"requests of pages from {source!r} are refused"
        if not sites or (sources and self._own is None):
            return None
        near = {"none", "same-origin"}
        if self._own is None and is_loopback(_hostname(f"//{host}")):
            near.add("same-site")  # another port of this machine
        far = ", ".join(sorted(sites - near))
        return (403, f"requests of pages from other sites are refused (Sec-Fetch-Site: {far})") if far else None


def _is_visit(head: Head) -> bool:
    """Return whether a browser opens a page: https://www.w3.org/TR/fetch-metadata/#sec-fetch-mode-header."""
    mode, kind = head.fields.get(b"sec-fetch-mode"), head.fields.get(b"sec-fetch-dest")
    return head.verb == "GET" and mode == b"navigate" and kind == b"document"


def _hostname(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


class Accidents:
    """Bugs of mcp-tape while it serves. Each is reported once, when it happens, and sets the exit code."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._said: set[str] = set()

    @property
    def code(self) -> int:
        return int(bool(self._said))

    def __call__(self, error: Exception) -> None:
        if isinstance(error, TapeError):
            return  # serving ends with it
        from ...redaction.diagnostics import hide_secrets

        *_, (frame, line) = traceback.walk_tb(error.__traceback__) if error.__traceback__ else [(None, 0)]
        where = f" ({os.path.basename(frame.f_code.co_filename)}:{line})" if frame else ""
        what = " ".join(f"{type(error).__name__}: {error}".split())
        text = hide_secrets(f"a request failed within mcp-tape, please report it: {what}{where}")
        if text not in self._said:
            self._said.add(text)
            self._say(text)

"""Hosts, ports and URLs. Imports nothing heavy, as it checks command lines."""

from __future__ import annotations


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach a host."""
    from ipaddress import ip_address

    return host.lower() == "localhost" or (is_address(host) and ip_address(host).is_loopback)


def is_address(name: str) -> bool:
    """Return whether a host is an IP address; a host name can be made to resolve to another machine."""
    from ipaddress import ip_address

    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def host_and_port(text: str) -> tuple[str, int]:
    """Parse HOST:PORT, or a port alone. Raises ValueError."""
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]") if colon else "127.0.0.1"
    if not port.isdecimal() or int(port) > 65535 or not host:
        raise ValueError(f"{text!r} is not HOST:PORT, as in 127.0.0.1:8000; port 0 picks a free one")
    return host, int(port)


def check_url(text: str) -> None:
    """Raise ValueError if a text is not the URL of a server."""
    if not _is_url(text):
        from ...redaction.diagnostics import hide_secrets

        raise ValueError(f"{hide_secrets(text)!r} is not an http or https URL, as in https://host/mcp")


def is_sse_url(url: str) -> bool:
    """Return whether a URL is an HTTP+SSE server's by convention: nothing else shows it before the first request."""
    from urllib.parse import urlsplit

    from ...wire.protocol import SSE_PATH

    return urlsplit(url).path.rstrip("/").endswith(SSE_PATH)


def _is_url(text: str) -> bool:
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(text)
        port = parts.port  # raises if it is not a number, or out of range
    except ValueError:
        return False
    plain = all(c.isprintable() and not c.isspace() for c in text)
    return plain and parts.scheme in ("http", "https") and bool(parts.hostname) and port != 0


def is_same_redirect(uri: str, registered: str) -> bool:
    """Compare redirect URIs, whose port may differ on this machine: https://www.rfc-editor.org/rfc/rfc8252#section-7.3."""
    from urllib.parse import urlsplit

    if uri == registered:
        return True
    try:
        one, other = urlsplit(uri), urlsplit(registered)
    except ValueError:
        return False
    is_here = one.scheme == "http" and one.hostname == other.hostname and is_loopback(one.hostname or "")
    return is_here and one._replace(netloc="") == other._replace(netloc="")

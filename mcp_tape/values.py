"""Parsers for option values: sizes, named functions, headers and the like. They raise ValueError."""

from __future__ import annotations

import importlib
import re

from .light import pattern

TYPE_CHECKING = False  # as in the package's __init__
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


# Decimal units, as in filters such as `size:1k..2M`.
UNITS = {"": 1, "b": 1, "k": 10**3, "kb": 10**3, "m": 10**6, "mb": 10**6, "g": 10**9, "gb": 10**9}
DURATIONS = {"us": 1, "µs": 1, "μs": 1, "ms": 10**3, "s": 10**6, "m": 60 * 10**6}  # in microseconds
_SIZE = pattern(r"([0-9]{1,12}(?:\.[0-9]{1,9})?) ?([A-Za-z]*)")
_TOKEN = pattern(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")  # https://www.rfc-editor.org/rfc/rfc9110#section-5.6.2

_UNNAMEABLE = pattern(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


def parse_size(text: str) -> int:
    """The number of bytes in `800k`, `64M` or `1.5G`; at least one."""
    found = _SIZE.fullmatch(text)
    unit = UNITS.get(found[2].lower()) if found else None
    size = round(float(found[1]) * unit) if found and unit else 0
    if size < 1:
        raise ValueError(f"{text!r} is not a size; write e.g. 800k, 64M or 1G")
    return size


def parse_count(text: str) -> int:
    """A whole number of at least one."""
    if not (text.isascii() and text.isdigit() and int(text[:9]) > 0 and len(text) < 10):
        raise ValueError(f"{text!r} is not a number of at least 1")
    return int(text)


def parse_duration(text: str) -> int:
    """The number of microseconds in `500ms`, `2s` or `1.5m`; at least one."""
    found = _SIZE.fullmatch(text.replace("µ", "u").replace("μ", "u"))
    unit = DURATIONS.get(found[2].lower()) if found else None
    duration = round(float(found[1]) * unit) if found and unit else 0
    if duration < 1:
        raise ValueError(f"{text!r} is not a duration; write e.g. 500ms, 2s or 1.5m")
    return duration


def size_text(size: int) -> str:
    """A size with one decimal, for people."""
    for unit, one in (("G", 10**9), ("M", 10**6), ("k", 10**3)):
        if size >= one:
            return f"{size / one:.1f}{unit}"
    return str(size)


def named_function(name: str) -> Callable[..., Any]:
    """The function `module:function`."""
    module, _, path = name.partition(":")
    try:
        found: Any = importlib.import_module(module)
        for step in path.split("."):
            found = getattr(found, step)
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(
            f"{name!r} is not a function that can be imported: {error}; "
            "write MODULE:FUNCTION, with PYTHONPATH=. for a module in this directory"
        ) from None
    if not callable(found):
        raise ValueError(f"{name!r} is not a function")
    return found  # type: ignore[no-any-return]


def name_of(function: Callable[..., Any]) -> str:
    """The name `module:function` of a function. ValueError if another process can't import it."""
    module, path = getattr(function, "__module__", None), getattr(function, "__qualname__", None)
    name = f"{module}:{path}"
    try:
        if module != "__main__" and path and named_function(name) is function:
            return name
    except ValueError:
        pass  # a nested function, or not in a module
    shown = name if path else repr(function)
    raise ValueError(f"{shown} cannot be imported by another process; define it at the top of a module")


def header(text: str) -> tuple[str, str]:
    """The name and value of an HTTP header."""
    name, colon, value = (part.strip() for part in text.partition(":"))
    if not colon or not _TOKEN.fullmatch(name) or not all(_is_field_text(character) for character in value):
        # Don't quote the value: it is probably a secret.
        raise ValueError(f"that is not a header{f' ({name!r})' if colon else ''}; write it as 'Name: value'")
    return name, value


def header_of_variable(text: str) -> tuple[str, str]:
    """A header with the value of the variable of the same name, or of another one: `Authorization=MY_TOKEN`."""
    import os

    name, _, other = text.partition("=")
    value = os.environ.get(other or name)
    if value is None:
        raise ValueError(f"there is no variable {other or name!r}; set it where mcp-tape is started")
    return header(f"{name}: {value}")


def variable(text: str) -> tuple[str, str]:
    """The name and value of an environment variable."""
    name, equals, value = text.partition("=")
    if not equals:
        raise ValueError("that is not a variable; write it as NAME=VALUE")  # not quoted: it may be a secret
    check_variable(name)
    if "\0" in value:
        raise ValueError(f"the value of {name} holds a NUL")
    return name, value


def check_variable(name: str) -> None:
    if not name or "=" in name or "\0" in name:
        raise ValueError(f"{name!r} is not a variable name")


def _is_field_text(character: str) -> bool:
    """True for a valid character of a header value. https://www.rfc-editor.org/rfc/rfc9110#section-5.5"""
    return character == "\t" or (character.isprintable() and ord(character) < 256)


def check_pattern(text: str) -> None:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"{text!r} is not a regular expression: {error}") from error


def check_session(text: str) -> None:
    """Refuse a text that is not a choice of sessions."""
    if text not in ("latest", "all") and not text.isdecimal():
        raise ValueError(f"{text!r} is neither latest, all nor a session's number")


def check_label(text: str) -> None:
    """Refuse a text that can't be a server's name."""
    if not text or _UNNAMEABLE.search(text):
        raise ValueError(f"{text!r} is not a server name; it needs characters, and none that controls a terminal")


def check_appendable(path: str) -> None:
    """Refuse a file that can't be written. Creates it."""
    try:
        open(path, "ab").close()
    except OSError as error:
        raise ValueError(f"cannot write {path}: {error.strerror}") from None


def check_certificates(path: str) -> None:
    import ssl  # slow to load

    try:
        ssl.create_default_context(cafile=path)
    except (OSError, ssl.SSLError) as error:
        raise ValueError(f"{path} holds no certificate that can be read: {error}") from None

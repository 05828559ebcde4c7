"""Secret variables, and the variables of .env files.

SDK clients pass only a few variables to the commands they start, so a recorder does not know the rest.
"""

from __future__ import annotations

from ..errors import TapeError
from ..light import pattern

TYPE_CHECKING = False  # as in the package's __init__
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


Pairs = tuple[tuple[str, str], ...]  # names and values

# Variables that clients of the official SDKs pass on, and those that Python and shells add.
_PASSED_ON = frozenset("HOME LOGNAME PATH SHELL TERM USER".split())
_ADDED = frozenset("LC_CTYPE PWD OLDPWD SHLVL _ __CF_USER_TEXT_ENCODING".split())
# A line of an .env file. A quoted value may span lines. Outside of quotes, ` #` begins a comment.
_ASSIGNED = pattern(
    r"""(?ms)^[ \t]*(?:export[ \t]+)?(?P<name>[A-Za-z_][\w.-]*)[ \t]*=[ \t]*"""
    r"""(?:"(?P<double>(?:[^"\\]|\\.)*)"|'(?P<single>[^']*)'|(?P<bare>[^\r\n]*?)(?=[ \t]+\#|[ \t]*$))"""
)
_ESCAPED = pattern(r"(?s)\\(.)")
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}


def secrets(environ: Mapping[str, str]) -> Pairs:
    """Return the variables whose values are hidden, wholly or in part."""
    from .redactor import hidden_part

    return tuple((name, value) for name, value in environ.items() if hidden_part(name, value))


def looks_stripped(environ: Iterable[str]) -> bool:
    """Return whether an environment has only the variables that clients pass on."""
    return not set(environ) - _PASSED_ON - _ADDED


def read_env_file(path: str) -> Pairs:
    """Return the variables of an .env file, secret or not."""
    try:
        with open(path, encoding="utf-8-sig", errors="surrogateescape") as file:
            text = file.read()
    except OSError as error:
        raise TapeError(f"cannot read the secrets to hide from {path}: {error.strerror}; name a .env file") from None
    return tuple(_parse_assignments(text))


def _parse_assignments(text: str) -> Iterator[tuple[str, str]]:
    for found in _ASSIGNED.finditer(text):
        if found["double"] is None:
            yield found["name"], found["single"] if found["single"] is not None else found["bare"]
        else:
            yield found["name"], _ESCAPED.sub(lambda e: _ESCAPES.get(e[1], e[1]), found["double"])

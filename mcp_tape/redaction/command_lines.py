"""Secrets on command lines: values of options and variables with secret names, and of options of known programs.

An option means what its program defines: `-p` is a port, a path, a project or a password. Where only the name is known,
the value decides.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence

from ..light import NamedTuple, pattern
from ..wire import secret_names

# Options that may take a secret: the value decides.
_MAYBE = frozenset("auth pat credential credentials creds cred pass pwd pw".split())
_AS_KEYS = frozenset("pin assertion storagekey".split())  # judged as in JSON
_SELDOM = frozenset(("p", "key"))  # the value must be unmistakably a secret
_USERS = frozenset("-u -U --user --proxy-user --userpwd --auth --basic-auth --credentials --creds".split())
# Programs whose -p takes a password, with or without a space.
_TAKE_P = frozenset("mysql mysqldump mysqladmin mysqlsh mariadb mariadb-dump mongo mongosh mongodump sshpass".split())
_LOGIN = "login"  # docker login -p, helm registry login -p
_TAKE_A = "redis-cli"
_USER = pattern(r"[\w.@+%-]{1,64}:")
_NAME = pattern(r"-{0,2}[\w./:-]+")
_NAMES = 4  # nested names to follow, as in --env=TOKEN=V


class Secret(NamedTuple):
    """The secret at the end of a word: its start, and its name."""

    at: int
    name: str


def find_word_secrets(words: Sequence[str], is_secret: Callable[[str], bool]) -> Iterator[Secret | None]:
    """Yield for each word the secret that it ends with, or None."""
    before, programs = "", set[str]()
    for word in words:
        flag = before if secret_names.is_flag(before) and "=" not in before else ""
        behind = _behind(flag, word, is_secret, programs) if flag and not secret_names.is_flag(word) else None
        yield behind or _within(word, is_secret, programs)
        programs.add(os.path.basename(word))
        before = word


def _behind(flag: str, word: str, is_secret: Callable[[str], bool], programs: set[str]) -> Secret | None:
    """Return the secret in the value of an option."""
    name = flag.lstrip("-")
    if is_secret(name):
        return Secret(0, name)
    if flag in _USERS and (user := _USER.match(word)):
        return Secret(user.end(), name) if _is_password(word[user.end() :]) else None
    is_p = flag == "-p" and not word.isdigit() and (_LOGIN in programs or not _TAKE_P.isdisjoint(programs))
    known = is_p or (flag == "-a" and _TAKE_A in programs)
    return Secret(0, name) if known or _may_be(name, word) else None


def _within(word: str, is_secret: Callable[[str], bool], programs: set[str]) -> Secret | None:
    """Return the secret in a word that names it: `--api-key=V`, `TOKEN=V`, `-eTOKEN=V`, `--env=TOKEN=V`."""
    at = 0
    for _ in range(_NAMES):
        end = word.find("=", at)
        if end < 0 or not _NAME.fullmatch(word, at, end):
            break
        value = word[end + 1 :]
        for name in _names(word[at:end]):
            if is_secret(name) or _may_be(name, value):
                return Secret(end + 1, name)
        if word[at:end] in _USERS and (user := _USER.match(value)) and _is_password(value[user.end() :]):
            return Secret(end + 1 + user.end(), word[at:end].lstrip("-"))
        at = end + 1
    if word.startswith("-p") and len(word) > 2 and not _TAKE_P.isdisjoint(programs):
        return Secret(2, "p")
    attached = re.match(rf"-u{_USER.pattern}", word)
    return Secret(attached.end(), "u") if attached and _is_password(word[attached.end() :]) else None


def _names(text: str) -> Iterator[str]:
    """Yield the possible names of a value: the whole text, its last part, and the text after a one-letter option."""
    name = text.lstrip("-")
    yield name
    yield re.split(r"[./:]", name)[-1]
    if text.startswith("-") and not text.startswith("--"):
        yield name[1:]


def _is_password(value: str) -> bool:
    """Return whether the text after `user:` is a password rather than a group, path or port."""
    return (
        secret_names.looks_issued(value) and not value.startswith("//") and not re.fullmatch(r"[\w-]{1,12}:\S*", value)
    )


def _may_be(name: str, value: str) -> bool:
    """Return whether the value of an option that may take a secret is one."""
    folded = secret_names.fold(name)
    if folded in _AS_KEYS:
        return secret_names.is_ambiguous_secret(name, value)
    if folded in _MAYBE:
        return len(value) >= 8 and secret_names.looks_assigned(value)
    return folded in _SELDOM and _is_surely(value)


def _is_surely(value: str) -> bool:
    """Return whether a value cannot be a port, path or name: it has three of lower case, upper case, digits, signs."""
    kinds = (r"[a-z]", r"[A-Z]", r"\d", r"[!@#$%^&*+=?]")
    several = sum(re.search(kind, value) is not None for kind in kinds) >= 3
    return several and len(value) >= 8 and secret_names.looks_assigned(value) and not re.search(r"[\\/:]", value)

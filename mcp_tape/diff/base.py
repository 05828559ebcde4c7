"""Pairs cassettes and locks with those of a git revision; finds which are new, gone or renamed."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ..cassette.revisions import git
from ..cassette.text.read import is_ours
from ..cassette.text.recognize import is_named_cassette
from ..compare.lock import is_lock
from ..compare.renames import renames
from ..errors import CassetteError, quote_path
from .sources import LOCK, read_lock

_BY_TEXT = {".jsonl": is_ours, LOCK: is_lock}  # endings that others use, too


class RevisionMatches(NamedTuple):
    """Cassettes by path: pairs of an old and a new one, those that are new, and those that are gone."""

    pairs: tuple[tuple[str, str], ...]
    new: tuple[str, ...]
    gone: tuple[str, ...]


def find(revision: str, paths: Iterable[str]) -> RevisionMatches:
    """Find the cassettes at paths, files or directories, in a revision and in the working tree."""
    _check(revision)
    then, now = dict[str, str](), dict[str, str]()
    for path in paths:
        before, after = dict(_cassettes_at(revision, path)), {name: _hash(name) for name in _here(path)}
        if not before and not after:
            raise CassetteError(f"there is no cassette at {path}, neither here nor at {revision}")
        then, now = then | before, now | after
    moved = renames(then, now, (lambda path, blob: blob, _base_name))
    pairs = {name: name for name in then if name in now} | moved
    return RevisionMatches(
        tuple(sorted(pairs.items())), tuple(sorted(now.keys() - pairs.values())), tuple(sorted(then.keys() - pairs))
    )


def reference(revision: str, path: str) -> str:
    """A cassette at a revision, by its path from the working directory."""
    return f"git:{revision}:./{path}"


def _check(revision: str) -> None:
    if revision.startswith("-") or git("rev-parse", "--verify", "-q", f"{revision}^{{commit}}").returncode:
        raise CassetteError(
            f"git has no revision {revision} here, so there is nothing to compare with\n"
            f"Try: git fetch origin; in GitHub Actions, actions/checkout needs fetch-depth: 0"
        )


def _cassettes_at(revision: str, path: str) -> Iterator[tuple[str, str]]:
    """Cassettes of a revision below a path, each with its blob."""
    done = git("ls-tree", "-r", "-z", revision, "--", path)
    if done.returncode:
        why = done.stderr.decode("utf-8", "replace").strip()
        raise CassetteError(f"git cannot list {quote_path(path)} at {revision}: {why}")
    for line in done.stdout.decode("utf-8", "surrogateescape").split("\0"):
        facts, _, name = line.partition("\t")
        *_, blob = facts.split() or [""]
        if name.endswith(".db") or (name.endswith(tuple(_BY_TEXT)) and _is_meant(name, blob)):
            yield os.path.normpath(name), blob


def _is_meant(name: str, blob: str) -> bool:
    return _BY_TEXT[os.path.splitext(name)[1]](git("cat-file", "blob", blob).stdout)


def _here(path: str) -> Iterator[str]:
    """Cassettes of the working tree at or below a path."""
    if os.path.isfile(path):
        yield os.path.normpath(path)
    for place, directories, files in os.walk(path):
        directories[:] = sorted(name for name in directories if name[0] != "." and name != "node_modules")
        found = (os.path.normpath(os.path.join(place, name)) for name in sorted(files))
        yield from (name for name in found if is_named_cassette(name) or (name.endswith(LOCK) and read_lock(name)))


def _hash(path: str) -> str:
    return git("hash-object", "--", path).stdout.decode("ascii", "replace").strip()


def _base_name(path: str, _: str) -> str:
    return os.path.basename(path)

"""Two versions of a server, each recorded or live, and the changes between them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any, Literal, NamedTuple

from ..cassette.reader import Cassette
from ..replay.selection import choose
from ..wire import jsontext, protocol
from .align import Alignment
from .changes import (
    ABSENT,
    SERVER,
    Change,
    Difference,
    Subject,
    SubjectDifference,
    attach_subject,
    comparable_bytes,
)
from .checks.declarations import compare_server, compare_version_numbers
from .checks.evidence import Evidence
from .checks.model_texts import compare_greetings, compare_sizes, compare_wording
from .checks.resources_prompts import compare_prompts, compare_resources, compare_templates
from .checks.skills import compare_skills
from .checks.tools import compare_order, compare_tools, declared_members
from .judging import Comparison, JudgingSettings, UnknownPart, judge
from .surface import SURFACE, Surface, SurfaceAnswer, read_surface
from .transcript import Transcript, newest_handshake

ComparisonPart = Literal["surface", "calls"]
PARTS: tuple[ComparisonPart, ...] = ("surface", "calls")
DEFAULT = JudgingSettings()
# Rules about things that a server no longer has at all.
_GONE = frozenset(
    """tool-removed resource-removed resource-template-removed prompt-removed skill-removed capability-removed
    capability-list-changed-removed capability-subscribe-removed extension-removed""".split()
)
_RENAMED = "tool-renamed"
_BY_KIND = {
    "tool": compare_tools,
    "resource": compare_resources,
    "template": compare_templates,
    "prompt": compare_prompts,
    "skill": compare_skills,
}


class Version(NamedTuple):
    """A version of a server. Without a `recording`, only its offer was requested; `uncalled` says so.

    `others`: the same server, as clients with other capabilities see it.
    """

    title: str
    surface: Surface
    recording: Transcript | None = None
    uncalled: str = "a live server was only asked for its lists; to play calls: mcp-tape verify"
    bodies: str = "full"  # how the recording keeps bodies, by its recorder's name
    others: tuple[Version, ...] = ()


def recorded_version(cassette: Cassette, which: str = "latest", ignore_paths: Sequence[str] = ()) -> Version:
    """The version on a cassette: of its newest session, of all sessions, or of one by its number."""
    return version_of_sessions(cassette, choose(cassette, which), ignore_paths)


def version_of_sessions(cassette: Cassette, sessions: Sequence[int], ignore_paths: Sequence[str] = ()) -> Version:
    """The version in several sessions of a cassette together."""
    recording = Transcript(cassette, sessions, ignore_paths)
    asked = [one for one in recording.requests() if one.method in SURFACE and one.answer is not None]
    answers = [recording.surface_answer(one) for one in asked]
    surface = read_surface(answers, recording.places_of)
    if surface.capabilities is None:
        answers += newest_handshake(cassette, min(sessions))
        surface = read_surface(answers, recording.places_of)
    session = cassette.session(sessions[0])
    name, version = surface.name or session.server_name, surface.version or session.server_version
    surface = surface._replace(name=name, version=version)
    bodies = session.recorder.partition(" --bodies ")[2] or "full"
    return Version(" ".join(filter(None, (name, version))) or cassette.path, surface, recording, bodies=bodies)


def listed_version(answers: Sequence[SurfaceAnswer], title: str) -> Version:
    """The version of a server that was only asked for its offer."""
    surface = read_surface(answers, lambda method: [])
    return Version(" ".join(filter(None, (surface.name, surface.version))) or title, surface)


def compare(
    old: Version,
    new: Version,
    settings: JudgingSettings = DEFAULT,
    parts: Sequence[ComparisonPart] = PARTS,
    more: Sequence[SubjectDifference] = (),
) -> Comparison:
    """Compare two versions. `more`: differences from other sources."""
    found, unknown, compared, alignment = list(more), list[UnknownPart](), dict[str, int](), None
    accepted: tuple[Change, ...] = ()
    sides = old, new
    evidence = Evidence(old.recording)
    if "surface" in parts:
        first, *others = _pairs_of_clients(old, new)
        sides = first
        surface = list(evidence.raise_surface_levels(_surface(*first)))
        unknown += _unknown(*first)
        if why := _other_client(*first):
            doubtful = [one for one in surface if _may_depend_on_client(one[1])]
            renamed = {subject for subject, one in doubtful if one.rule == _RENAMED}
            gone, accepted = judge(doubtful, settings)
            surface = [one for one in surface if one not in doubtful and one[0] not in renamed]
            unknown += _report_not_offered(gone, why)
        found += surface
        found += _of_other_clients(others, surface)
        compared |= {kind.what: len(first[0].surface.lists[kind.method].items) for kind in _known_kinds(*first)}
    if "calls" in parts:
        calls, number, alignment = _calls(old, new, settings, evidence)
        found += calls
        compared["calls"] = number
        unknown += _unknown_calls(old, new, parts)
    changes, ignored = judge(found, settings)
    if any(change.level == "error" for change in changes):
        numbers = attach_subject(SERVER, compare_version_numbers(old.surface.version, new.surface.version))
        changes, ignored = judge([*found, *numbers], settings)
    ignored += accepted
    unused = settings.ignores.unused_lines(changes + ignored)
    counted = {what: number for what, number in compared.items() if number or what == "calls"}
    known = changes, tuple(unknown), ignored, unused, counted
    definitions = _definitions(*sides, changes)
    return Comparison(old.title, new.title, settings.category, *known, alignment=alignment, definitions=definitions)


def _definitions(old: Version, new: Version, changes: Iterable[Change]) -> dict[Subject, tuple[Any, Any]]:
    """The definitions, before and after, of the changed things that both sides list."""
    kinds = {kind.subject: kind.method for kind in protocol.KINDS}
    found: dict[Subject, tuple[Any, Any]] = {}
    for one in changes:
        if one.subject.kind not in kinds or one.subject in found:
            continue
        before, after = (side.surface.lists[kinds[one.subject.kind]].items for side in (old, new))
        name = one.after if one.rule == _RENAMED else one.subject.name
        if one.subject.name in before and name in after:
            found[one.subject] = declared_members(before[one.subject.name]), declared_members(after[name])
    return found


def _surface(old: Version, new: Version) -> Iterator[SubjectDifference]:
    yield from attach_subject(SERVER, compare_server(old.surface, new.surface))
    yield from attach_subject(SERVER, compare_greetings(old.surface, new.surface))
    for kind in _known_kinds(old, new):
        lists = [version.surface.lists[kind.method] for version in (old, new)]
        before, after = (listed.items for listed in lists)
        yield from _BY_KIND[kind.subject](before, after)
        yield from compare_wording(kind.subject, before, after)
        if kind.method == protocol.TOOLS:
            yield from compare_sizes(before, after)
            if all(listed.in_order for listed in lists):
                yield from compare_order(before, after)


def _pairs_of_clients(old: Version, new: Version) -> list[tuple[Version, Version]]:
    """The two sides as seen by clients with the same capabilities; if there are none, as seen by their first ones."""
    by_client = {_of_client(one): one for one in (new, *new.others)}
    pairs = [(one, by_client[_of_client(one)]) for one in (old, *old.others) if _of_client(one) in by_client]
    return pairs or [(old, new)]


def _of_client(version: Version) -> bytes:
    return jsontext.canonical_bytes(version.surface.client)


def _of_other_clients(
    pairs: Iterable[tuple[Version, Version]], known: Iterable[SubjectDifference]
) -> Iterator[SubjectDifference]:
    """Differences that only other clients see."""
    seen = set(map(_identity, known))
    for old, new in pairs:
        names = ", ".join(old.surface.client or {}) or "no"
        for subject, one in _surface(old, new):
            if _identity((subject, one)) not in seen:
                seen.add(_identity((subject, one)))
                why = f"for clients with {names} capabilities"
                yield subject, one._replace(note="; ".join(filter(None, (one.note, why))))


def _identity(found: SubjectDifference) -> tuple[Any, ...]:
    subject, one = found
    return subject, one.rule, one.path, comparable_bytes(one.before), comparable_bytes(one.after)


def _other_client(old: Version, new: Version) -> str:
    """How the clients of the two sides differ, and what to do; empty if they do not, or if that is unknown."""
    before, after = old.surface.client, new.surface.client
    if before is None or after is None or jsontext.canonical_bytes(before) == jsontext.canonical_bytes(after):
        return ""
    names = [name for name in dict.fromkeys([*before, *after]) if before.get(name) != after.get(name)]
    hint = "record NEW with the client of OLD" if new.recording else "ask NEW with the capabilities of OLD"
    return f"its client declares other capabilities than that of OLD ({', '.join(names)}); {hint}"


def _may_depend_on_client(found: Difference) -> bool:
    """True for a whole thing that is gone: a server may offer it only to clients with certain capabilities.

    Then a similar new tool is not the same tool under a new name.
    """
    return found.rule == _RENAMED or (found.rule in _GONE and found.after is ABSENT)


def _report_not_offered(gone: Iterable[Change], why: str) -> Iterator[UnknownPart]:
    """Report things that are gone as unknown."""
    for kind, group in groupby(gone, key=lambda change: change.subject.kind):
        several = list(group)
        what = next((known.what for known in protocol.KINDS if known.subject == kind), "capabilities")
        names = ", ".join(change.subject.name or change.path for change in several)
        said = f"NEW: {names} not there, and {why}"
        yield UnknownPart(what, said, any(one.level == "error" for one in several))


def _known_kinds(old: Version, new: Version) -> list[protocol.Kind]:
    lists = old.surface.lists, new.surface.lists
    return [kind for kind in protocol.KINDS if not any(side[kind.method].why for side in lists)]


def _unknown(old: Version, new: Version) -> Iterator[UnknownPart]:
    """Parts of the surface that are unknown. For tools that is always grave, for others only if the old side is known.

    A list that was empty on the old server cannot break.
    """
    for kind in (kind for kind in protocol.KINDS if not old.surface.has_none(kind)):
        whys = {side: version.surface.lists[kind.method].why for side, version in (("OLD", old), ("NEW", new))}
        missing = [f"{side}: {why}" for side, why in whys.items() if why]
        if missing and (kind.method == protocol.TOOLS or len(missing) == 1):
            yield UnknownPart(kind.what, "; ".join(missing), kind.method == protocol.TOOLS or whys["OLD"] is None)
    yield from (entry for kind in _known_kinds(old, new) for entry in _repeated_items(kind, old, new))
    silent = [side for side, version in (("OLD", old), ("NEW", new)) if version.surface.capabilities is None]
    if len(silent) == 1:
        yield UnknownPart("capabilities", f"{silent[0]}: there is no handshake", False)


def _repeated_items(kind: protocol.Kind, old: Version, new: Version) -> Iterator[UnknownPart]:
    """Items that share a name, so that a client may get either. Not reported if both sides have the same."""
    lists = {"OLD": old.surface.lists[kind.method].again, "NEW": new.surface.lists[kind.method].again}
    for side, again in lists.items():
        other = lists["NEW" if side == "OLD" else "OLD"]
        for key, more in again.items():
            if more != other.get(key):
                why = f"{side}: {len(more) + 1} {kind.what} have the {kind.key} {key}; only the first is compared"
                yield UnknownPart(kind.what, why, side == "NEW")


def _calls(
    old: Version, new: Version, settings: JudgingSettings, evidence: Evidence
) -> tuple[list[SubjectDifference], int, Alignment | None]:
    from .checks.recorded_calls import RecordedCalls

    if old.recording is None or new.recording is None or old.bodies != new.bodies:
        return [], 0, None
    calls = RecordedCalls(old.recording, new.recording, (old.surface, new.surface), evidence)
    number = sum(pair.old.method not in SURFACE for pair in calls.alignment.pairs)
    return list(calls.compare(settings.slower_than)), number, calls.alignment


def _unknown_calls(old: Version, new: Version, parts: Sequence[ComparisonPart]) -> Iterator[UnknownPart]:
    for side, version in (("OLD", old), ("NEW", new)):
        for why in version.recording.incomplete_reasons if version.recording else ():
            yield UnknownPart("calls", f"{side}: {why}", False)
    if old.recording and new.recording and old.bodies != new.bodies:
        how = f"OLD was recorded with --bodies {old.bodies}, NEW with --bodies {new.bodies}"
        yield UnknownPart("calls", f"{how}: message bodies cannot be compared", "surface" not in parts)
    silent = next((version for version in (old, new) if version.recording is None), None)
    if silent is not None:
        grave = "surface" not in parts  # otherwise the user asked for calls only
        yield UnknownPart("calls", silent.uncalled, grave)

"""The rungs below exact matching, and the recorded requests that each finds for a live one.

Each rung is looser than the one before, as the options add up: ignored parts don't count when values are normalized,
and values that are equal once normalized are equal in a similarity. A rung is tried only if no earlier one has an
answer, not even a repeated one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from ...wire import jsontext, match, protocol
from ...wire.jsontext import Path
from ...wire.match import Rule
from ..finder import FoundRequest, Playthrough, RungMatch
from . import targets
from .bindings import Bindings, Days
from .nearness import MOST, NEAREST, Nearness, Read, arguments, read_verbatim
from .normal import Form, Pair, VaryingValue, distance, explaining_normalizer
from .targets import Normalizer, Target

if TYPE_CHECKING:
    from ...cassette.lookup.messages import Position, RecordedMessage
    from ...redaction.diagnostics import DiagnosticRedactor
    from ...wire.frames import Message
    from ..selection import Selection

_CLIENTS = 256  # clients of a shared tape whose values are remembered
_READ = 32 << 20  # most bytes of recordings compared to find the nearest
_KEPT = 8 << 20  # most bytes of recordings cached parsed
_NEAR = 0.5  # the least similarity that is advised
_VARYING = {
    "paths": "if only the directory differs", "times": "if only a time differs", "uuids": "if only an id differs",
    "ports": "if only a port differs", "case": "if capitals do not matter", "space": "if white space does not matter",
}  # fmt: skip

Choose = Callable[
    [str, "list[RecordedMessage]"], FoundRequest
]  # takes the turn of one of several equal requests, given in recorded order
Rung = tuple[str, Literal["ignore", "normalize", "match"], str]  # when to use it, the option, its value


class MatchingOptions(NamedTuple):
    """Options of matching."""

    ignore: tuple[str, ...] = ()
    match_on: tuple[str, ...] = ()
    normalize: tuple[str, ...] = ()
    normalizers: tuple[Callable[[Any], Any], ...] = ()
    match: tuple[str, ...] = ()
    is_shared: bool = False  # by clients that can't be told apart, each with its own directories


class MatchingPlan(NamedTuple):
    """The rungs for some requests: the parts that count, the normalizers, and the required similarity."""

    number: int
    counts: Rule | None
    by: str  # the option behind `counts`
    form: Form | None
    least: float | None


class _Row(NamedTuple):
    """A recorded request in an index: its number in playing order, and its varying values."""

    order: int
    recorded: RecordedMessage
    varying: list[VaryingValue]


class _Index(NamedTuple):
    """Recorded requests by the canonical JSON of their shape, and redacted ones apart."""

    rows: dict[bytes, list[_Row]]
    hidden: list[_Row]


class Ladder:
    """The requested rungs, for one client."""

    def __init__(self, selection: Selection, played: Playthrough, asked: MatchingOptions) -> None:
        self._selection = selection
        self._played = played
        self.put_back: Callable[[bytes, bytes], bytes] | None = None
        self._ignored = [targets.parse_path(source) for source in asked.ignore]
        self._named = [targets.parse_path(source) for source in asked.match_on]
        functions = [(Target(), Normalizer(function=function)) for function in asked.normalizers]
        self._normalizers = [*map(targets.parse_normalizer, asked.normalize), *functions]
        self._manners = [targets.parse_manner(source) for source in asked.match]
        self._plans: dict[tuple[tuple[int, ...], float | None], MatchingPlan] = {}  # by option
        self._indexes: dict[tuple[int, str, str | None, bool], _Index] = {}
        self._rows: dict[str, list[RecordedMessage]] = {}  # by method
        self._parsed: dict[Position, tuple[Any, int]] = {}
        self._parsed_bytes = 0
        self._known: set[Position] = set()  # exact matches, whose values are paired with themselves
        self._days = Days()
        self._is_shared = asked.is_shared
        self._all_bindings = [Bindings()]
        self._bindings = self._all_bindings[0]  # of the client that sent the current request

    def find(self, message: Message, params: Any, choose: Choose) -> FoundRequest | None:
        """Find the recorded request by the first rung that has one, and take its turn."""
        method, name = message.method or "", message.name
        plan = self.plan(method, name)
        live = self._keep_counted(plan, match.request_identity(method, params))
        for bindings in self._bindings_of_client(plan, live):
            self._bindings = bindings
            found = self._find_by_rungs(plan, method, name, live, choose)
            if found is not None:
                if bindings not in self._all_bindings:
                    first, *others = self._all_bindings
                    self._all_bindings = [first, *others[-_CLIENTS:], bindings]
                return found
        return None

    def _bindings_of_client(self, plan: MatchingPlan, live: Any) -> list[Bindings]:
        """Return the bindings of the requesting client; if its values are unknown, all bindings and new ones."""
        if plan.form is None or not self._is_shared:
            return self._all_bindings[:1]
        varying = plan.form.read(live)[1]
        known = [one for one in self._all_bindings if one.knows_any(varying)]
        return known or [*reversed(self._all_bindings), Bindings()]

    def _find_by_rungs(
        self, plan: MatchingPlan, method: str, name: str | None, live: Any, choose: Choose
    ) -> FoundRequest | None:
        if plan.counts is not None:
            found = choose(method, self._equal_requests(plan, None, method, name, live))
            if found.recorded is not None:
                self._bind(plan, found.recorded, live)
                return found._replace(bent=RungMatch(plan.by))
        if plan.form is not None:
            found = choose(method, self._equal_requests(plan, plan.form, method, name, live))
            if found.recorded is not None:
                self._bind(plan, found.recorded, live)
                if not found.again:
                    self._remember_days(plan, found.recorded, live)
                return found._replace(bent=RungMatch("normalize"))
        return self._find_nearest(plan, method, name, live, choose) if plan.least is not None else None

    def plan(self, method: str, name: str | None) -> MatchingPlan:
        """Return the rungs for requests with a method and a name."""
        options = [*self._ignored, *self._named, *self._normalizers]
        fitting = tuple(at for at, (target, _) in enumerate(options) if target.fits(method, name))
        least = targets.required_similarity(self._manners, method, name)
        plan = self._plans.get((fitting, least))
        if plan is None:
            fits = partial(_fitting_values, method=method, name=name)
            ignored, named, normalizers = fits(self._ignored), fits(self._named), fits(self._normalizers)
            form = Form(normalizers) if normalizers else None
            counts = match.rule(ignored, named)
            plan = MatchingPlan(len(self._plans), counts, "ignore" if ignored else "match_on", form, least)
            self._plans[fitting, least] = plan
        return plan

    # -- equal requests

    def _equal_requests(
        self, plan: MatchingPlan, form: Form | None, method: str, name: str | None, live: Any
    ) -> list[RecordedMessage]:
        """Return the recorded requests equal to a live one that contradict no binding, in recorded order."""
        index = self._index(plan, form, method, name if self._is_of_one_name(plan, method) else None)
        shape, varying = form.read(live) if form else (live, [])
        rows = index.rows.get(jsontext.canonical_bytes(shape), [])
        if form is not None:
            self._learn()
            of_shape = _shape_key(method, name, shape)
            paired = [(row, form.pair_values(row.varying, varying)) for row in rows]
            paired = [
                (row, pairs)
                for row, pairs in paired
                if self._may_be(pairs, row.recorded.session) and self._is_in_turn(row.recorded, of_shape, pairs or [])
            ]
            if form.is_tolerant:  # the closest comes first
                paired.sort(key=lambda pair: distance(pair[1] or ()))
            rows = [row for row, _ in paired]
        hidden = [row for row in index.hidden if self._fits(plan, form, row.recorded, live, shape)]
        return [row.recorded for row in (sorted([*rows, *hidden]) if hidden else rows)]

    def _is_in_turn(self, row: RecordedMessage, shape: bytes, pairs: list[Pair]) -> bool:
        """Return whether the days of a request are in order. A repeated request is always in order."""
        return row.place in self._played.taken or self._days.allow(shape, pairs)

    def _remember_days(self, plan: MatchingPlan, recorded: RecordedMessage, live: Any) -> None:
        if plan.form is not None:
            shape, varying = plan.form.read(live)
            pairs = plan.form.pair_values(plan.form.read(self._recorded_content(plan, recorded))[1], varying) or []
            self._days.add(_shape_key(recorded.method or "", recorded.name, shape), pairs)

    def _fits(self, plan: MatchingPlan, form: Form | None, row: RecordedMessage, live: Any, shape: Any) -> bool:
        """Return whether a redacted recording matches a live request."""
        recorded = self._recorded_content(plan, row)
        if form is None:
            return match.fits_redacted(recorded, live)
        are_equal = match.fits_redacted(form.read(recorded)[0], shape)
        return are_equal and self._may_be(list(form.pairs(recorded, live)), row.session)

    def _may_be(self, pairs: Iterable[Pair] | None, session: int) -> bool:
        return pairs is not None and self._bindings.allow(pairs, self._selection.addition(session))

    def contradiction(self, message: Message, row: RecordedMessage) -> str | None:
        """Describe the pair of values that keeps an otherwise equal recording from answering."""
        plan = self.plan(message.method or "", message.name)
        live = self._keep_counted(plan, match.request_identity(message.method or "", message.body.get("params")))
        pairs = plan.form.pairs(self._recorded_content(plan, row), live) if plan.form else ()
        return self._bindings.describe_contradiction(pairs, self._selection.addition(row.session))

    def _index(self, plan: MatchingPlan, form: Form | None, method: str, name: str | None) -> _Index:
        key = plan.number, method, name, form is not None
        index = self._indexes.get(key)
        if index is None:
            index = self._indexes[key] = _Index({}, [])
            hidden = {row.place for row in self._selection.requests(method, redacted=True)}
            for order, row in enumerate(self._candidates(method, name)):
                asked = self._recorded_content(plan, row)
                shape, varying = form.read(asked) if form else (asked, [])
                entry = _Row(order, row, varying)
                if row.place in hidden:
                    index.hidden.append(entry)
                else:
                    index.rows.setdefault(jsontext.canonical_bytes(shape), []).append(entry)
        return index

    def _is_of_one_name(self, plan: MatchingPlan, method: str) -> bool:
        """Return whether only requests of the same tool or prompt can be equal."""
        return protocol.is_addressed(method) and (plan.counts is None or plan.counts(("params", "name")))

    def _candidates(self, method: str, name: str | None) -> Iterator[RecordedMessage]:
        if method not in self._rows:
            self._rows[method] = [row._replace(text=None) for row in self._selection.requests(method)]
        return (row for row in self._rows[method] if name is None or row.name == name)

    def _recorded_content(self, plan: MatchingPlan, row: RecordedMessage) -> Any:
        return self._keep_counted(plan, match.request_identity(row.method or "", self._params(row)[0]))

    def _keep_counted(self, plan: MatchingPlan, asked: Any) -> Any:
        return asked if plan.counts is None else match.counted_part(plan.counts, asked)

    def _params(self, row: RecordedMessage) -> tuple[Any, int]:
        """Return the params of a recorded request and its size in bytes; cached, up to `_KEPT` bytes."""
        found = self._parsed.get(row.place)
        if found is None:
            text = self._selection.text(row)
            found = match.exact_params(self._selection.message(row), text, row.part), len(text)
            if self._parsed_bytes + len(text) <= _KEPT:
                self._parsed_bytes += len(text)
                self._parsed[row.place] = found
        return found

    # -- pairs of values

    def _bind(self, plan: MatchingPlan, recorded: RecordedMessage, live: Any) -> None:
        """Pair the values of a matched request with those of the live one."""
        if plan.form is not None:
            self._add(plan.form.pairs(self._recorded_content(plan, recorded), live), recorded.session)

    def hear(self, asked: RecordedMessage, recorded: dict[str, Any], live: dict[str, Any]) -> bool:
        """Pair the values of a client's answer, such as its roots; False if it does not match the recorded one."""
        form = self.plan(asked.method or "", None).form
        one, other = recorded.get("result"), live.get("result")
        if form is None or one is None or other is None:
            return False
        (shape, ours), (live_shape, theirs) = form.read(one), form.read(other)
        pairs = (
            form.pair_values(ours, theirs)
            if jsontext.canonical_bytes(shape) == jsontext.canonical_bytes(live_shape)
            else None
        )
        if pairs is None or not self._may_be(pairs, asked.session):
            return False
        self._add(pairs, asked.session)
        return True

    def _add(self, pairs: Iterable[Pair], session: int) -> None:
        self._bindings.add(pairs, self._selection.addition(session))
        if self._bindings.are_needed:
            self.put_back = self._put_back

    def _put_back(self, text: bytes, asked: bytes = b"") -> bytes:
        """Put the requesting client's values into a recorded text."""
        every = self._all_bindings
        own = every[0] if len(every) == 1 else next((one for one in every if one.are_named(asked)), every[0])
        return own.put_back(text, asked)

    def _learn(self) -> None:
        """Pair the values of exact matches with themselves."""
        for place in sorted(self._played.taken - self._known - self._played.bent):
            self._known.add(place)
            row = self._selection.at(place)
            plan = self.plan(row.method or "", row.name)
            varying = plan.form.read(self._recorded_content(plan, row))[1] if plan.form else []
            self._all_bindings[0].add(((one, one) for one in varying), self._selection.addition(row.session))

    # -- the nearest request

    def _find_nearest(
        self, plan: MatchingPlan, method: str, name: str | None, live: Any, choose: Choose
    ) -> FoundRequest | None:
        if plan.form is not None:
            self._learn()
        rows = list(self._candidates(method, name if protocol.is_addressed(method) else None))
        taken = self._played.taken
        # Played requests come last: they can only be repeated.
        for some in ([row for row in rows if row.place not in taken], [row for row in rows if row.place in taken]):
            best = self._best_match(plan, method, name, some, live)
            found = choose(method, [best[1]]) if best else None
            if best and found and found.recorded is not None:
                self._bind(plan, found.recorded, live)
                return found._replace(bent=RungMatch("nearest", round(min(best[0], MOST), 3)))
        return None

    def _best_match(
        self, plan: MatchingPlan, method: str, name: str | None, rows: Iterable[RecordedMessage], live: Any
    ) -> tuple[float, RecordedMessage] | None:
        """Return the most similar request, the first of several, if it is similar enough."""
        form = plan.form or Form(())
        nearness = nearness_for(self._selection, method, name, form.comparable_leaves)
        best: tuple[float, RecordedMessage] | None = None
        read = 0
        for row in rows:
            read += self._params(row)[1]
            if read > _READ and best is not None:
                break
            recorded = self._recorded_content(plan, row)
            found = nearness.of(arguments(method, recorded), arguments(method, live))
            is_better = found >= (plan.least or 0.0) and found > (best[0] if best else 0.0)
            if is_better and self._may_be(form.pairs(recorded, live), row.session):
                best = found, row
        return best


def _shape_key(method: str, name: str | None, shape: Any) -> bytes:
    return jsontext.canonical_bytes([method, name, shape])


def nearness_for(selection: Selection, method: str, name: str | None, read: Read = read_verbatim) -> Nearness:
    """Return the comparison for requests with a method and a name."""
    defaults = _defaults(selection).get(name or "", {}) if method == protocol.CALL else {}
    return Nearness(read, defaults, not protocol.is_addressed(method))


def _defaults(selection: Selection) -> dict[str, dict[str, Any]]:
    """The defaults of arguments, by tool and argument, from the recorded lists of tools."""
    found: dict[str, dict[str, Any]] | None = selection.cache.get(_defaults)
    if found is None:
        found = {}
        for answer in filter(None, map(selection.answer, selection.requests(protocol.TOOLS))):
            found |= protocol.tool_defaults(selection.message(answer).body)
        selection.cache.put(_defaults, found)
    return found


def _fitting_values(given: Sequence[tuple[Target, Any]], method: str, name: str | None) -> list[Any]:
    return [value for target, value in given if target.fits(method, name)]


def rungs(
    selection: Selection,
    message: Message,
    plan: MatchingPlan | None,
    recorded: Any,
    differing: Sequence[tuple[Path, Any, Any]],
    paths: Sequence[str],
    discreet: DiagnosticRedactor,
) -> list[Rung]:
    """Return the strictest rungs, not requested yet, by which a recording would answer a request.

    `differing`: the paths that differ, with both values; `paths`: the same paths as text.
    """
    method = message.method or ""
    # For pasting, so names must be exact: leave out one that contains a secret, or would break the line.
    own, name = (text if text and discreet.remark(text) == text else None for text in (method, message.name))

    def limit_target(value: str) -> str:
        return targets.write_option(own, name, value) if own else value

    names = [explaining_normalizer(old, new, path[-1]) for path, old, new in differing]
    asked_for = plan.form.names if plan and plan.form else ()
    found: list[Rung] = [
        (_VARYING[each], "normalize", each) for each in dict.fromkeys(names) if each and each not in asked_for
    ]
    rest = [path for path, explained in zip(paths, names, strict=True) if not explained]
    if not rest:
        return found
    live = match.request_identity(method, message.body.get("params"))
    read = plan.form.comparable_leaves if plan and plan.form else read_verbatim
    two = [match.counted_part(plan.counts, asked) if plan and plan.counts else asked for asked in (recorded, live)]
    near = nearness_for(selection, method, message.name, read).of(*(arguments(method, asked) for asked in two))
    enough = NEAREST if near >= NEAREST else int(near * 10) / 10
    if enough >= _NEAR and own:
        manner = "nearest" if enough == NEAREST else f"nearest:{enough}"
        found.append(("if it asks the same question in other words", "match", limit_target(manner)))
    if len(rest) == 1 and near < NEAREST:
        found.append(("if this value may differ", "ignore", limit_target(rest[0])))
    return found

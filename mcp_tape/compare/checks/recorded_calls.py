"""Checks of calls: pairs from two recordings, calls without a counterpart, and the messages around them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from functools import partial
from statistics import median
from typing import Any

from ...cassette.query.recorded_requests import RecordedRequest
from ...wire import jsontext, match, protocol
from ...wire.jsontext import Path
from ..align import CallPair, align
from ..changes import ABSENT, SERVER, Difference, Subject, SubjectDifference, attach_subject, comparable_bytes
from ..minted.binding import BoundValues, generalize, generalize_name, has_time
from ..minted.spots import leaves
from ..rule_table import Level
from ..surface import LISTS, SURFACE, Surface
from ..transcript import Transcript
from .answers import compare_answers, compare_caching, compare_envelopes
from .evidence import Evidence
from .json_values import SHAPE
from .model_texts import compare_message_texts
from .server_requests import compare_questions

_NOT_MISSED = SURFACE | {protocol.PING, protocol.SET_LEVEL, protocol.LISTEN, protocol.TASK}
_FINE = ("ok", "input-required")
_FOR_NO_CALL = {protocol.ROOTS, protocol.PING}  # independent of calls
_LOOKED_AT = 50  # pairs per call, to find times that stay the same
_SLOW = 1_000  # microseconds; below that it is noise
# A failed or unanswered call looks the same for every call of a tool. Accepting one must not accept the others.
_SAME_FOR_ALL = {
    "call-ok-to-error",
    "call-error-to-ok",
    "call-error-code-changed",
    "call-result-type-changed",
    "call-answer-malformed",
    "call-unanswered",
}
_MOST_SHOWN = 80  # characters of a request in a note
_MADE_UP = "*"


class RecordedCalls:
    """Compares two recordings. `surfaces` have the output schemas; `evidence` shows what the old client relied on."""

    def __init__(self, old: Transcript, new: Transcript, surfaces: tuple[Surface, Surface], evidence: Evidence) -> None:
        self._old, self._new = old, new
        self._surfaces, self._evidence = surfaces, evidence
        self.alignment = align(old, new, _compared_requests(old), _compared_requests(new))
        self._by_title: dict[str, list[CallPair]] = defaultdict(list)
        for pair in self.alignment.pairs:
            self._by_title[pair.old.title].append(pair)
        self._steady: dict[str, set[Path]] = {}
        self._bound = BoundValues(self._is_steady)

    def compare(self, slower_than: float | None = None) -> Iterator[SubjectDifference]:
        for pair in self.alignment.pairs:
            yield from _add_call_places(pair.old, pair.new, self._distinguish_calls(pair, self._compare_pair(pair)))
        yield from self._report_unpaired()
        yield from self._report_unasked()
        yield from self._server_requests()
        yield from compare_questions(self._old, self._new, self.alignment.pairs)
        yield from attach_subject(
            SERVER, compare_message_texts(_questions(self._old), _questions(self._new), ("params",))
        )
        yield from self._notifications()
        yield from self._pagination()
        if slower_than is not None:
            yield from self._report_slower(slower_than)

    def _compare_pair(self, pair: CallPair) -> Iterator[SubjectDifference]:
        old, new = pair
        call = Subject("call", old.title)
        if old.answer is not None and new.answer is None:
            yield call, Difference("call-unanswered", (), old.status, ABSENT, f"it was answered: {old.status}")
        if old.answer is None or new.answer is None:
            return
        differ = False
        if self._old.answer_text(old) != self._new.answer_text(new):  # most are equal, and need not be parsed
            before, after = self._old.answer(old), self._new.answer(new)
            differ = _canonical_answer(before) != _canonical_answer(after)
            if differ:
                yield from self._answers(pair, before, after)
        if old.method == protocol.CALL and old.name and new.status == "ok":
            yield from attach_subject(call, self._violations(pair, differ))

    def _distinguish_calls(self, pair: CallPair, found: Iterator[SubjectDifference]) -> Iterator[SubjectDifference]:
        """Add the params of the call to a difference that looks the same for every call of a tool."""
        for subject, one in found:
            if one.rule in _SAME_FOR_ALL:
                one = add_call_params(one, pair.old.method, self._old.params(pair.old), self._new.params(pair.new))
            yield subject, one

    def _answers(self, pair: CallPair, old: Any, new: Any) -> Iterator[SubjectDifference]:
        method, title = pair.old.method, pair.old.title
        yield from attach_subject(Subject("call", title), compare_envelopes(old, new))
        if method not in SURFACE:
            found = compare_answers(method, pair.old.name, old, new, partial(self._bound.is_same, title))
            found = self._evidence.raise_answer_levels(found, pair.old, old, new)
            yield from self._lower_optional_losses(pair, found, new)
            yield from attach_subject(Subject("call", title), compare_message_texts([old], [new]))
        elif method in LISTS:
            yield from attach_subject(Subject("call", title), compare_caching(old, new))

    def _is_steady(self, title: str, path: Path) -> bool:
        """True if a time at this place was ever the same on both sides: then it is data."""
        if title not in self._steady:
            pairs = self._by_title[title][:_LOOKED_AT]
            self._steady[title] = {place for pair in pairs for place in self._steady_times(pair)}
        return path in self._steady[title]

    def _steady_times(self, pair: CallPair) -> Iterator[Path]:
        old, new = self._old.answer(pair.old), self._new.answer(pair.new)
        moved = {path for path, _, _ in match.differences(old, new)}
        for path, value in leaves(old):
            if path not in moved and has_time(path, value):
                yield generalize(path)

    def _lower_optional_losses(
        self, pair: CallPair, found: Iterator[SubjectDifference], new: Any
    ) -> Iterator[SubjectDifference]:
        """Lower the level of a lost member that the old output schema made optional or does not name, unless a recorded
        call relied on it."""
        schema = _output_schema(self._surfaces[0], pair.old.name) if pair.old.method == protocol.CALL else None
        fits: bool | None = None
        for subject, one in found:
            if schema is not None and one.rule == SHAPE and one.level not in ("info", "error"):
                from .output_schema import covers, leaves_out, violations

                fits = not any(violations(schema, new)) if fits is None else fits
                if one.after is ABSENT and leaves_out(schema, one.path[2:]):
                    one = one._replace(level="info", note=f"{one.note}; the old output schema does not have it")
                elif fits and covers(schema, one.path[2:]):
                    one = one._replace(level="info")
            yield subject, one

    def _violations(self, pair: CallPair, differ: bool) -> Iterator[Difference]:
        """Results that violate their schema, unless the old result violated its own."""
        schemas = [_output_schema(surface, pair.old.name) for surface in self._surfaces]
        if schemas[1] is None or not (differ or schemas[0] != schemas[1]):
            return
        from .output_schema import violations

        found = list(violations(schemas[1], self._new.answer(pair.new)))
        if found and (schemas[0] is None or not any(violations(schemas[0], self._old.answer(pair.old)))):
            yield from found

    def _report_unpaired(self) -> Iterator[SubjectDifference]:
        for asked in self.alignment.missing:
            if asked.method not in _NOT_MISSED:
                what = protocol.identifying_params(asked.method, self._old.params(asked))
                found = Subject("call", asked.title), Difference("call-missing", ("params",), what, ABSENT)
                yield from _add_call_places(asked, None, [found])
        for asked in self.alignment.added:
            if asked.method not in _NOT_MISSED:
                what = protocol.identifying_params(asked.method, self._new.params(asked))
                found = Subject("call", asked.title), Difference("call-added", ("params",), ABSENT, what)
                yield from _add_call_places(None, asked, [found])

    def _report_unasked(self) -> Iterator[SubjectDifference]:
        """Answers that no request waits for: duplicates, or answers with an unknown id."""
        if (number := self._new.count_unasked()) and not self._old.count_unasked():
            note = f"{number} answer{'s' if number > 1 else ''} that no request waits for"
            yield SERVER, Difference("server-answer-unasked", note=note)

    # -- messages around calls

    def _server_requests(self) -> Iterator[SubjectDifference]:
        """Server requests that are new or gone. On one pipe, assigning one to one of several open calls is a guess, so
        a method counts only if the whole session has more or fewer of it; those that no call explains are reported for
        the server."""
        old, new = self._old.count_during_calls("request"), self._new.count_during_calls("request")
        had, has = _totals(old), _totals(new)
        more, less = has - had, had - has
        for pair in self.alignment.pairs:
            before, after = (_counts_during_call(*one) for one in ((old, pair.old), (new, pair.new)))
            for method in sorted((set(before) | set(after)) - _FOR_NO_CALL):
                by = after[method] - before[method]
                rule, left = ("server-request-added", more) if by > 0 else ("server-request-removed", less)
                if by and left[method] > 0:
                    left[method] -= abs(by)
                    if _has_same_outcome(pair):
                        yield Subject("call", pair.old.title), _count_difference(rule, method, before, after)
        for method in sorted(set(more) | set(less)):
            if (more[method] > 0 and not had[method]) or (less[method] > 0 and not has[method]):
                rule = "server-request-added" if more[method] > 0 else "server-request-removed"
                yield SERVER, _presence_difference(rule, method, had, has)

    def _notifications(self) -> Iterator[SubjectDifference]:
        """Notifications that are new or gone. Progress belongs to its call; of others, only their presence counts."""
        old, new = self._old.count_during_calls("notification"), self._new.count_during_calls("notification")
        for pair in filter(_has_same_outcome, self.alignment.pairs):
            beside = self._progress(pair, _counts_during_call(old, pair.old), _counts_during_call(new, pair.new))
            yield from _add_call_places(pair.old, pair.new, beside)
        had, has = _totals(old), _totals(new)
        for method in sorted(set(had) ^ set(has)):
            rule = "notification-missing" if method in had else "notification-added"
            if method != protocol.PROGRESS:
                found = _presence_difference(rule, method, had, has)
                yield SERVER, found._replace(level="info" if method == protocol.LOGGED else None)  # not a contract

    def _progress(self, pair: CallPair, old: Counter[str], new: Counter[str]) -> Iterator[SubjectDifference]:
        before, after = old[protocol.PROGRESS], new[protocol.PROGRESS]
        if before != after:
            rule = "notification-missing" if after < before else "notification-added"
            found = _presence_difference(rule, protocol.PROGRESS, old, new)
            # Many servers send progress by the clock: fewer messages are not a loss, none at all is.
            yield Subject("call", pair.old.title), found._replace(level="info" if after else None)
        elif old == new and len(old) > 1:
            orders = self._old.order_of_notifications(pair.old), self._new.order_of_notifications(pair.new)
            if orders[0] != orders[1]:
                yield Subject("call", pair.old.title), Difference("notification-reordered", (), *orders)

    def _pagination(self) -> Iterator[SubjectDifference]:
        for kind in protocol.KINDS:
            old, new = (surface.lists[kind.method] for surface in self._surfaces)
            if old.pages and new.pages and old.pages != new.pages:
                # A client that reads several pages reads any number; one that never saw a cursor may stop at the first.
                level: Level | None = None if old.pages == 1 else "info"
                yield SERVER, Difference("pagination-changed", (kind.member,), old.pages, new.pages, level=level)

    def _report_slower(self, ratio: float) -> Iterator[SubjectDifference]:
        for title, pairs in self._by_title.items():
            old, new = ([p[side].microseconds or 0 for p in pairs if p[side].answer] for side in (0, 1))
            if old and new and median(new) > max(median(old), _SLOW) * ratio:
                times = median(old) / 1000, median(new) / 1000
                note = f"{times[0]:.1f} ms → {times[1]:.1f} ms, {times[1] / max(times[0], 0.001):.1f} ×"
                yield Subject("call", title), Difference("call-slower", (), note=note)


def _add_call_places(
    old: RecordedRequest | None, new: RecordedRequest | None, found: Iterable[SubjectDifference]
) -> Iterator[SubjectDifference]:
    """Add the requests of a call to its differences."""
    places = old and old[:2], new and new[:2]
    return ((subject, one._replace(at=places)) for subject, one in found)


def _compared_requests(recording: Transcript) -> list[RecordedRequest]:
    """The requests to compare: only the last poll of a task, and none that was cancelled, since chance decides whether
    those were answered."""
    given_up = recording.cancelled_requests()
    asked = [one for one in recording.requests() if one[:2] not in given_up and one.method != protocol.LISTEN]
    last = {(one.session, one.name): one for one in asked if one.method == protocol.TASK}
    return [one for one in asked if one.method != protocol.TASK or last[one.session, one.name] is one]


def _has_same_outcome(pair: CallPair) -> bool:
    """True if both calls succeeded or both failed. Otherwise the messages around them add nothing."""
    return None not in (pair.old.answer, pair.new.answer) and (pair.old.status in _FINE) == (pair.new.status in _FINE)


def _questions(recording: Transcript) -> Iterator[Any]:
    return map(recording.question_params, recording.questions())


def _totals(counts: dict[tuple[int, int | None], Counter[str]]) -> Counter[str]:
    return sum(counts.values(), Counter())


def _counts_during_call(counts: dict[tuple[int, int | None], Counter[str]], asked: RecordedRequest) -> Counter[str]:
    return counts.get((asked.session, asked.seq), Counter())


def _count_difference(rule: str, method: str, old: Counter[str], new: Counter[str]) -> Difference:
    return Difference(rule, (method,), old[method], new[method], f"{method}: {old[method]} → {new[method]}")


def _presence_difference(rule: str, method: str, old: Counter[str], new: Counter[str]) -> Difference:
    """A method that appears or disappears. Its number depends on timing, and must not change the fingerprint."""
    before, after = (method if counts[method] else ABSENT for counts in (old, new))
    return _count_difference(rule, method, old, new)._replace(before=before, after=after)


def _canonical_answer(body: Any) -> bytes:
    """An answer without its id, in canonical form."""
    return jsontext.canonical_bytes({name: protocol.member(body, name) for name in ("jsonrpc", "result", "error")})


def _output_schema(surface: Surface, tool: str | None) -> Any:
    return surface.lists[protocol.TOOLS].items.get(tool or "", {}).get("outputSchema")


# -- the call of a change


def add_call_params(found: Difference, method: str, old: Any, new: Any) -> Difference:
    """Add the params of a call to a difference, with stars where the two sides differ."""
    what = _common_parts(match.request_identity(method, old), match.request_identity(method, new))
    return found._replace(of=what, note="; ".join(filter(None, (found.note, _request_note(what)))))


def _common_parts(old: Any, new: Any) -> Any:
    """The equal parts of two values, with stars for the rest."""
    if isinstance(old, dict) and isinstance(new, dict):
        return {generalize_name(key): _common_parts(value, new.get(key, ABSENT)) for key, value in old.items()}
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        return [_common_parts(*pair) for pair in zip(old, new, strict=True)]
    return old if comparable_bytes(old) == comparable_bytes(new) else _MADE_UP


def _request_note(what: Any) -> str:
    given = protocol.member(what, "arguments")
    text = jsontext.compact_text(given) if given else ""
    return f"asked with {text if len(text) <= _MOST_SHOWN else text[:_MOST_SHOWN] + '…'}" if text else ""

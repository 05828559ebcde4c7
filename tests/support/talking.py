"""The expected replay of a random conversation, derived from the playing rule alone.

A live client makes the steps of a talk in another order, with other ids and tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tests.support.fuzzing import Case
from tests.support.talks import CANCELLED, CHANGED, PROGRESS, SUBSCRIPTION, Body, Question, Request, Step, Talk, Told


class Live:
    """Another client in the same talk: its steps, and the expected answers to each."""

    def __init__(self, talk: Talk, case: Case) -> None:
        self._talk, self._case = talk, case
        self._ids = {one: case.choice([f"live-{one.number}", 5000 + one.number]) for one in talk.requests}
        keeps: Callable[[], bool] = lambda: case.random() < 0.8  # noqa: E731 - a coin
        self._tokens = {
            one: case.choice([f"tok-{one.number}", 7000 + one.number, 10**26 + one.number])
            for one in talk.requests
            if one.token is not None and keeps()
        }
        self._asked: dict[Question, Any] = {}  # received ones, by the id in use
        self._came: set[Question] = set()
        self._withdrawn: set[Question] = set()
        self._left = list(range(len(talk.steps)))
        self._made: set[Request] = set()
        self._done: set[int] = set()  # recorded steps that are due
        self._lists = [one for one in talk.requests if one.method == "tools/list"]
        self._listed = 0
        self._end_of = {frame: self._end(frame) for frame in {one.frame for one in talk.requests}}
        self._ended: set[Request] = set()
        self._answered: set[Request] = set()
        self._behind: list[Told] = []  # messages that follow an answer that this client does not have yet

    def steps(self) -> Iterator[tuple[Any, list[Body]]]:
        """Yield frames to send, in an order that chains allow, and the expected answers to each, in order."""
        while ready := [number for number in self._left if self._is_ready(number)]:
            number = self._case.choice(ready)
            self._left.remove(number)
            step = self._talk.steps[number]
            if step.answers in self._withdrawn and self._case.random() < 0.5:
                continue  # no answer is required
            yield self._frame(step), self._expected(number)

    def heard(self, body: Body) -> None:
        """Note a received message: the server's ids may differ from the recorded ones."""
        for told in self._talk.told:
            if told.asks is not None and told.body.get("params") == body.get("params") and "id" in body:
                self._asked[told.asks] = body["id"]

    def _is_ready(self, number: int) -> bool:
        step = self._talk.steps[number]
        question = step.answers or step.progress
        if question is not None and question not in self._asked:
            return False
        return not any(self._talk.steps[other].chain == step.chain for other in self._left if other < number)

    def _frame(self, step: Step) -> Any:
        if step.answers is not None:
            return {"jsonrpc": "2.0", "id": self._asked[step.answers], "result": {}}
        if step.progress is not None:
            params = {"progressToken": step.progress.token, "progress": 1}
            return {"jsonrpc": "2.0", "method": PROGRESS, "params": params}
        if step.cancels is not None:
            return {"jsonrpc": "2.0", "method": CANCELLED, "params": {"requestId": self._ids[step.cancels]}}
        bodies = [self._talk.body(one, self._ids[one], self._tokens.get(one)) for one in step.requests] + step.tells
        return bodies if len(bodies) > 1 or (step.requests and self._is_batch(step)) else bodies[0]

    def _is_batch(self, step: Step) -> bool:
        clients = [text for side, text in self._talk.said if side == "client"]
        return clients[self._talk.steps.index(step)].startswith("[")

    def _expected(self, number: int) -> list[Body]:
        step = self._talk.steps[number]
        if step.answers in self._withdrawn:
            return []
        self._made |= set(step.requests)
        if step.chain == "lists":
            return self._list(step.requests[0])
        return self._due(number)

    def _list(self, live: Request) -> list[Body]:
        """The next list, or the previous one if it had changed by then, and has not yet this time."""
        following = self._lists[self._listed] if self._listed < len(self._lists) else None
        if self._listed and following is not None:
            before = self._lists[self._listed - 1]
            first, last = (self._place(one) for one in (before, following))
            changes = [told for told in self._talk.told[first:last] if told.body.get("method") == CHANGED]
            if changes and changes[-1].cue not in self._done:
                return [self._answer(before) | {"id": self._ids[live]}]
        assert following is not None
        self._ids[following], self._listed = self._ids[live], self._listed + 1
        return self._due(following.frame)

    def _place(self, request: Request) -> int:
        return next(n for n, told in enumerate(self._talk.told) if told.of is request and "result" in told.body)

    def _answer(self, request: Request) -> Body:
        return self._talk.told[self._place(request)].body

    def _due(self, number: int) -> list[Body]:
        """Messages that wait for a step, then those that wait for answers to withdrawn questions."""
        self._done.add(number)
        due = [told for told in self._talk.told if told.cue == number and self._is_wanted(told)]
        self._answered |= {told.of for told in due if told.of is not None and "method" not in told.body}
        self._behind += [told for told in due if told.late is not None]
        behind = [told for told in self._behind if told.late in self._answered]
        self._behind = [told for told in self._behind if told not in behind]
        due = [told for told in due if told.late is None] + behind
        out = [body for told in sorted(due, key=self._talk.told.index) if (body := self._live(told)) is not None]
        self._came |= {told.asks for told in due if told.asks is not None}
        taken_back = [told.takes_back for told in due if told.takes_back in self._came and told.takes_back]
        self._withdrawn |= set(taken_back)
        for frame, end in self._end_of.items():
            if end == number:
                out += self._ends(frame)
        for question in taken_back:
            if question.step is not None and question.step not in self._done:
                out += self._due(question.step)
        return out

    def _is_wanted(self, told: Told) -> bool:
        """Whether it belongs to no request, or to one that this client has made."""
        named = told.of or told.late
        return named is None or named in self._made

    def _live(self, told: Told) -> Body | None:
        body, named = dict(told.body), told.of or told.late
        if "method" not in body:
            assert named is not None
            return body | {"id": self._ids[named]}
        if body["method"] == PROGRESS:
            assert named is not None
            token = self._tokens.get(named)
            return None if token is None else body | {"params": body["params"] | {"progressToken": token}}
        if told.of is self._talk.listens and told.of is not None:
            meta = {"_meta": {SUBSCRIPTION: self._ids[told.of]}}
            return body | {"params": body["params"] | meta}
        return body

    def _end(self, frame: int) -> int:
        """The step after which a recording without an answer has nothing more."""
        mates = [one for one in self._talk.requests if one.frame == frame]
        cues = [told.cue for told in self._talk.told if told.of in mates]
        replies = [one.step for one in self._talk.questions if one.of in mates and one.step is not None]
        return max([frame, *cues, *replies])

    def _ends(self, frame: int) -> list[Body]:
        open_ = [one for one in self._talk.requests if one.frame == frame and not one.answered and not one.cancelled]
        error = {"code": -32010}
        calls = [one for one in open_ if one is not self._talk.listens and one not in self._ended]
        self._ended |= set(calls)
        return [{"jsonrpc": "2.0", "error": error, "id": self._ids[one]} for one in calls]

"""Random conversations.

A talk is the messages of both sides, and for each server message the client step that it waits for: within an exchange
the last one of that exchange, otherwise the last one of all.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from tests.support.decks import Said
from tests.support.fuzzing import Case

Body = dict[str, Any]
CANCELLED, PROGRESS, CHANGED = (f"notifications/{what}" for what in ("cancelled", "progress", "tools/list_changed"))
SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"
MODERN = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}


@dataclass(eq=False)
class Request:
    """A client request."""

    number: int
    rpc_id: Any
    token: Any
    params: Body
    method: str = "tools/call"
    frame: int = -1  # the step that made it
    last: int = -1  # the newest step of its exchange
    answered: bool = False
    cancelled: bool = False
    told: bool = False


@dataclass(eq=False)
class Question:
    """A server request. `of`: the request whose exchange it belongs to."""

    number: int
    rpc_id: str
    token: str
    of: Request | None
    step: int | None = None  # that answers it
    withdrawn: bool = False


@dataclass(eq=False)
class Told:
    """A server message: `cue` is the step that it waits for, `of` the request whose exchange it belongs to."""

    body: Body
    cue: int
    of: Request | None = None
    late: Request | None = None  # an answered request that it still names
    asks: Question | None = None
    takes_back: Question | None = None


@dataclass
class Step:
    """A client frame. Steps of one chain keep their order."""

    chain: object
    requests: list[Request] = field(default_factory=list)
    tells: list[Body] = field(default_factory=list)  # notifications, and answers to nothing
    answers: Question | None = None
    progress: Question | None = None
    cancels: Request | None = None


class Talk:
    """A random conversation."""

    def __init__(self, case: Case, *, modern: bool | None = None) -> None:
        self.case = case
        self.modern = case.random() < 0.3 if modern is None else modern
        self.said: list[Said] = []
        self.steps: list[Step] = []
        self.told: list[Told] = []
        self.requests: list[Request] = []
        self.questions: list[Question] = []
        self.listens: Request | None = None
        self._step({"jsonrpc": "2.0", "method": "notifications/initialized"}, Step(("tells", "initialized")))
        self.steps[0].tells = [{"jsonrpc": "2.0", "method": "notifications/initialized"}]
        both = [self._call, self._call, self._list, self._answer, self._answer, self._answer, self._progress, self._log]
        both += [self._cancel, self._tell, self._changed, self._late, self._stray]
        legacy = [self._ask, self._ask, self._reply, self._reply, self._heed, self._withdraw, self._batch]
        actions = both + ([self._listen, self._published] if self.modern else legacy)
        for _ in range(case.randrange(2, 40)):
            case.choice(actions)()

    # -- the client

    def _step(self, frame: Any, step: Step) -> int:
        self.said.append(("client", json.dumps(frame)))
        self.steps.append(step)
        return len(self.steps) - 1

    def _request(self, method: str = "tools/call") -> Request:
        n = len(self.requests)
        rpc_id: Any = self.case.choice([n, f"r{n}", 10**24 + n])
        token = self.case.choice([None, None, n, f"t{n}", 10**25 + n]) if method == "tools/call" else None
        params: Body = {"name": "do", "arguments": {"n": n}} if method == "tools/call" else {}
        request = Request(n, rpc_id, token, params, method)
        self.requests.append(request)
        return request

    def body(self, request: Request, rpc_id: Any, token: Any) -> Body:
        meta = ({"progressToken": token} if token is not None else {}) | (MODERN if self.modern else {})
        params = request.params | ({"_meta": meta} if meta else {})
        return {"jsonrpc": "2.0", "id": rpc_id, "method": request.method, "params": params}

    def _make(self, request: Request, chain: object = None) -> None:
        step = Step(chain or ("frame", len(self.steps)), [request])
        request.frame = request.last = self._step(self.body(request, request.rpc_id, request.token), step)

    def _call(self) -> None:
        self._make(self._request())

    def _list(self) -> None:
        self._make(self._request("tools/list"), "lists")
        self._tell_of(self.requests[-1], result={"tools": []})
        self.requests[-1].answered = True

    def _listen(self) -> None:
        if self.listens is None:
            self.listens = self._request("subscriptions/listen")
            self._make(self.listens)
            self._published("notifications/subscriptions/acknowledged")

    def _batch(self) -> None:
        requests = [self._request() for _ in range(self.case.randrange(1, 4))]
        frame: list[Body] = [self.body(one, one.rpc_id, one.token) for one in requests]
        step = Step(("frame", len(self.steps)), requests)
        if self.case.random() < 0.3:
            step.tells = [{"jsonrpc": "2.0", "method": f"notifications/x{len(self.steps)}"}]
            frame.insert(self.case.randrange(len(frame) + 1), step.tells[0])
        number = self._step(frame, step)
        for one in requests:
            one.frame = one.last = number

    def _cancel(self) -> None:
        """Cancel a request, open or answered, perhaps again."""
        mine = [one for one in self.requests if one.method == "tools/call"]
        if mine:
            request = self.case.choice(mine)
            body = {"jsonrpc": "2.0", "method": CANCELLED, "params": {"requestId": request.rpc_id}}
            step = self._step(body, Step(self.steps[request.frame].chain, cancels=request))
            if not request.answered:
                request.cancelled, request.last = True, step

    def _tell(self) -> None:
        method = self.case.choice(["notifications/roots/list_changed", "notifications/custom"])
        body = {"jsonrpc": "2.0", "method": method}
        self._step(body, Step(("tells", method), tells=[body]))

    def _stray(self) -> None:
        rpc_id = self.case.choice([None, "odd"])
        body = {"jsonrpc": "2.0", "id": rpc_id, "error": {"code": -32700, "message": "Parse error"}}
        self._step(body, Step(("stray", rpc_id), tells=[body]))

    def _open_question(self) -> Question | None:
        waiting = [one for one in self.questions if one.step is None]
        return self.case.choice(waiting) if waiting else None

    def _chain_of(self, question: Question) -> object:
        return self.steps[question.of.frame].chain if question.of else ("question", question.number)

    def _reply(self) -> None:
        question = self._open_question()
        if question is not None:
            body = {"jsonrpc": "2.0", "id": question.rpc_id, "result": {}}
            question.step = self._step(body, Step(self._chain_of(question), answers=question))
            if question.of is not None:
                question.of.last = question.step

    def _heed(self) -> None:
        """Send progress on a server request."""
        question = self._open_question()
        if question is not None:
            body = {"jsonrpc": "2.0", "method": PROGRESS, "params": {"progressToken": question.token, "progress": 1}}
            step = self._step(body, Step(self._chain_of(question), progress=question))
            if question.of is not None:
                question.of.last = step

    # -- the server

    def _say(self, told: Told) -> None:
        self.said.append(("server", json.dumps(told.body)))
        self.told.append(told)

    def _tell_of(self, of: Request | None, /, **members: Any) -> None:
        """An answer or, with `method`, another message of a request or of none."""
        body: Body = {"jsonrpc": "2.0"} | members
        if "method" not in members:
            assert of is not None
            body["id"] = of.rpc_id
            body.get("result", {})["m"] = len(self.told)
        cue = len(self.steps) - 1 if of is None or (of is self.listens and of.told) else of.last
        if of is not None:
            of.told = True
        self._say(Told(body, cue, of))

    def _newest(self) -> Request | None:
        """The request that owns messages without a request."""
        open_ = [one for one in self.requests if not one.answered and not one.cancelled and one is not self.listens]
        return open_[-1] if open_ else None

    def _answer(self) -> None:
        """A result or an error; for several of a batch perhaps in one frame."""
        waiting = [one for one in self.requests if not one.answered and one is not self.listens]
        if not waiting:
            return
        chosen = self.case.choice(waiting)
        mates = [one for one in waiting if one.frame == chosen.frame]
        together = mates if self.case.random() < 0.5 else [chosen]
        before = len(self.said)
        for one in together:
            one.answered = True
            error = {"error": {"code": -1, "message": str(len(self.told))}}
            self._tell_of(one, **(error if self.case.random() < 0.2 else {"result": {}}))
        if len(self.steps[chosen.frame].requests) > 1 and self.case.random() < 0.7:
            texts = [text for _, text in self.said[before:]]
            self.said[before:] = [("server", "[" + ", ".join(texts) + "]")]

    def _progress(self) -> None:
        waiting = [one for one in self.requests if not one.answered and one.token is not None]
        if waiting:
            one = self.case.choice(waiting)
            params = {"progressToken": one.token, "progress": len(self.told)}
            self._tell_of(one, method=PROGRESS, params=params)

    def _log(self) -> None:
        self._tell_of(self._newest(), method="notifications/message", params={"data": len(self.told)})

    def _changed(self) -> None:
        self._tell_of(self._newest(), method=CHANGED, params={"m": len(self.told)})

    def _published(self, method: str = CHANGED) -> None:
        if self.listens is not None:
            params = {"_meta": {SUBSCRIPTION: self.listens.rpc_id}, "m": len(self.told)}
            self._tell_of(self.listens, method=method, params=params)

    def _late(self) -> None:
        """Progress or a second answer after the answer."""
        done = [one for one in self.requests if one.answered and one.method == "tools/call"]
        if done:
            one = self.case.choice(done)
            body: Body = {"jsonrpc": "2.0", "id": one.rpc_id, "result": {"m": len(self.told)}}
            if one.token is not None and self.case.random() < 0.7:
                params = {"progressToken": one.token, "progress": len(self.told)}
                body = {"jsonrpc": "2.0", "method": PROGRESS, "params": params}
            cue = one.last if body.get("method") == PROGRESS else len(self.steps) - 1
            self._say(Told(body, cue, late=one))

    def _ask(self) -> None:
        n = len(self.questions)
        used = {one.rpc_id for one in self.questions if one.step is None}
        free = [rpc_id for rpc_id in (f"s{n % 2}", f"s{n}") if rpc_id not in used]
        question = Question(n, self.case.choice(free), f"st{n}", self._newest())
        self.questions.append(question)
        params = {"_meta": {"progressToken": question.token}, "m": len(self.told)}
        self._tell_of(question.of, id=question.rpc_id, method="sampling/createMessage", params=params)
        self.told[-1].asks = question

    def _withdraw(self) -> None:
        question = self._open_question()
        if question is not None and not question.withdrawn:
            question.withdrawn = True
            params = {"requestId": question.rpc_id, "m": len(self.told)}
            self._tell_of(question.of, method=CANCELLED, params=params)
            self.told[-1].takes_back = question

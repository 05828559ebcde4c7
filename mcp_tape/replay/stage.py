"""A cassette with a deck for each client, faults, and one report."""

from __future__ import annotations

import os

from ..errors import TapeError
from ..light import NamedTuple

TYPE_CHECKING = False  # as in the package's __init__
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

    from ..cassette.lookup.messages import Position, RecordedMessage
    from ..cassette.lookup.playable_sessions import RecordedRun
    from ..cassette.reader import Cassette
    from ..wire.frames import Message
    from .deck import Deck, Unanswered
    from .faults import Chooser, FaultyPlayer
    from .finder import Compare, Playthrough, Repeats
    from .matching.ladder import Ladder
    from .opening import Clients, Opening
    from .report import ReplayEvent
    from .selection import Selection
    from .sends import ClientCall, Player, Send


STUBS, NAMELESS = "stubs", "unknown"  # recorders of sessions that were written by hand
_MOST_REFUSALS = 100  # that are reported one by one


class ReplayOptions(NamedTuple):
    """How to replay."""

    session: str = "latest"
    label: str | None = None  # the server's name, if the cassette has several
    ignore: tuple[str, ...] = ()
    match_on: tuple[str, ...] = ()
    repeats: Repeats | None = None  # None: by transport and era
    in_recorded_order: bool = False
    speed: float = 0.0
    unanswered: Unanswered = "error"
    faults: tuple[str, ...] = ()
    seed: int = 0
    auth: bool = False  # over HTTP, only clients that log in
    strict: bool = False
    report: str | None = None
    run: str | None = None
    replay_prefix: bool = False  # to the live server of new_episodes
    in_place_of: str | None = None  # the cassette that reports name, if a test plays a temporary copy
    rules: tuple[Compare, ...] = ()
    normalize: tuple[str, ...] = ()
    normalizers: tuple[Callable[[Any], Any], ...] = ()
    match: tuple[str, ...] = ()
    fail_on: str | None = None
    choosers: tuple[Chooser, ...] = ()  # of faults
    # Reports of live requests are redacted as a recording of them would be.
    redact_keys: tuple[str, ...] = ()
    redact_paths: tuple[str, ...] = ()
    redact_values: tuple[str, ...] = ()
    redact_with: tuple[str, ...] = ()
    redactions: tuple[Callable[[str], str], ...] = ()
    headers: tuple[tuple[str, str], ...] = ()
    known: tuple[tuple[str, str], ...] = ()
    words: tuple[str, ...] = ()  # command-line options that play and match the same, for reports


class ReplayOutcome(NamedTuple):
    """The outcome of a replay."""

    played: int
    misses: int
    unplayed: int
    code: int
    grew: int = 0  # calls that went to a live server
    stale: int = 0  # recorded answers given after a live call that may have written
    inexact: tuple[tuple[str, int], ...] = ()  # inexact answers, by rung
    refused: int = 0  # HTTP requests that the transport refused


class Totals:
    """Counts over several decks, and the recorded requests that their clients made."""

    def __init__(self) -> None:
        self.played = 0
        self.misses = 0
        self.taken: set[Position] = set()
        self.given_back: set[Position] = set()

    def add(self, other: Deck | Totals) -> None:
        self.played += other.played
        self.misses += other.misses
        self.taken |= other.taken
        self.given_back |= other.given_back


class Stage:
    """A cassette with its reporter, and a deck for each client, with faults if any."""

    def __init__(
        self,
        cassette: Cassette,
        options: ReplayOptions,
        say: Callable[[str], None],
        listener: Callable[[ReplayEvent], None] | None = None,
        stand_in: Callable[[ClientCall], Send | None] | None = None,
        clients: Callable[[RecordedRun], Clients] | None = None,
    ) -> None:
        """`clients` makes the counter of clients, if the playing session was recorded in a run."""
        from ..cassette.lookup import playable_sessions
        from ..redaction.diagnostics import DiagnosticRedactor, Rules
        from . import report, selection

        self._cassette = cassette
        self.lock = cassette.lock  # transports hold it while requests come
        self._options = options
        self._listener = listener
        self._stand_in = stand_in
        self._say = say
        own = options.redact_keys, options.redact_paths, options.redact_values, options.redactions
        self._discreet = DiagnosticRedactor(
            Rules(*own, options.redact_with, options.headers, os.environ, options.known)
        )
        quiet = bool(options.in_place_of)
        self._reporter = report.Reporter(say, options.report, options.run, self._discreet, quiet=quiet)
        self._grew = 0
        self._inexact: dict[str, int] = {}  # inexact answers, by rung
        self._before: int | None = None  # requests played before the first live call that may have written
        self._decks: dict[Deck, None] = {}  # of present clients, in order of arrival
        self._first: Deck | None = None  # the first of all decks
        self._ended = Totals()  # of clients that have left
        self._refused = 0
        self._refusals: set[str] = set()  # already reported
        self.is_rehearsing = False  # a deck receives past frames of its client: report and call nothing
        self._until = playable_sessions.newest_session(cassette)
        self.chosen = selection.select(cassette, options.session, until=self._until)
        first = self.chosen.sessions[0]
        self._run = playable_sessions.run_of(cassette, first, self._until) if options.session == "latest" else None
        self._clients = clients(self._run) if clients and self._run else None
        self._recorder = cassette.session(first).recorder
        self.struck: set[str] = set()  # faults, in their words
        self.login_seed = options.seed if options.auth else None  # of tokens
        self.covers: Callable[[str], bool] = lambda scope: False  # whether the token of the call at hand does
        _warn_of_incomplete(cassette, self.chosen.sessions, say)
        if options.faults:
            self._warn_of_aimless_faults()
        if options.session == "latest":
            _warn_of_other_servers(cassette, first, self._until, say)

    def deck(
        self,
        pass_on: Callable[[ClientCall], bool] = lambda call: False,
        *,
        repeats: Repeats = "error",
        legacy: bool | None = None,
        nth: int | None = None,
        first: int | None = None,
    ) -> tuple[Player, Deck]:
        """Return a player for a client, and its deck. `repeats` is the default for the option.

        `first`: the session of the run that plays before all others.
        """
        from . import finder as finding
        from . import selection
        from .deck import Deck

        options, stand_in = self._options, self._stand_in
        if nth is None and self._clients is not None:
            nth = self._clients.take()
        if first is None:
            self._warn_if_over(nth)
        plays = self.chosen.sessions  # to any client
        if legacy is not None or (nth is not None and self._run and self._run.sessions != plays[:1]):
            plays = selection.choose(self._cassette, options.session, legacy, nth, self._until)
        if first is not None:
            plays = [first, *(number for number in plays if number != first)]
        chosen = selection.Selection(self._cassette, plays, self._until)
        chosen.path, chosen.given = options.in_place_of or chosen.path, options.words
        is_stubbed = self._recorder == STUBS
        ladder = _ladder(chosen, options, is_shared=repeats == "cycle", is_stubbed=is_stubbed)
        repeats = options.repeats or ("last" if is_stubbed else repeats)
        if self._recorder in (STUBS, NAMELESS):
            from .matching.partial import HandWritten

            stand_in = HandWritten(chosen, self.note, stand_in).answer
        finder = finding.Finder(chosen, repeats, options.rules, ladder)
        faulty = self._faulty()
        report = faulty.listen(self._report) if faulty else self._report
        deck = Deck(
            chosen,
            finder,
            speed=options.speed,
            in_recorded_order=options.in_recorded_order,
            unanswered=options.unanswered,
            repeat_whole=repeats != "error",
            report=report,
            report_played=bool(options.report or faulty or self._listener),
            of_others=self._sessions_of_others(plays),
            pass_on=lambda call: self.is_rehearsing or (pass_on(call) and self._count_live_call(call)),
            stand_in=stand_in and (lambda call: None if self.is_rehearsing else stand_in(call)),
            discreet=self._discreet,
        )
        if faulty:
            faulty.attach(deck)
        self._decks[deck] = None
        self._first = self._first or deck
        return faulty or deck, deck

    def _faulty(self) -> FaultyPlayer | None:
        options = self._options
        if not options.faults and not options.choosers:
            return None
        from . import faults

        given = list(map(faults.parse_fault, options.faults))
        return faults.FaultyPlayer(given, options.seed, options.choosers, self.struck, lambda scope: self.covers(scope))

    def _warn_of_aimless_faults(self) -> None:
        """Warn of each fault whose target is not on the tape: its name may be misspelt."""
        from . import faults

        for fault in map(faults.parse_fault, self._options.faults):
            if why := faults.describe_aimless(fault, self.chosen):
                self._say(self._discreet.remark(f"the fault {fault.source} can strike nothing on {self.name}: {why}"))

    @property
    def name(self) -> str:
        """The cassette's name in reports."""
        return self._options.in_place_of or self._cassette.path

    def _warn_if_over(self, nth: int | None) -> None:
        """Warn if a run connects more often than recorded: a stateful server would not repeat its answers."""
        recorded = len(self._run.sessions) if self._run else 0
        if nth is not None and self._options.session == "latest" and 1 < recorded <= nth:
            from .report import ReplayEvent

            note = f"connection {nth + 1} of a run of which {recorded} are recorded: it starts over"
            self._report(ReplayEvent("note", note))

    def player(self, pass_on: Callable[[ClientCall], bool] = lambda call: False) -> tuple[Player, Deck | Opening]:
        """Return a player for a new client. The sessions it plays may depend on the client's first requests."""
        if self._is_settled():
            return self.deck(pass_on)
        from .opening import Opening

        opening = Opening(self, self._clients, pass_on)
        return opening, opening

    def session(self, pass_on: Callable[[ClientCall], bool] = lambda call: False) -> tuple[Player, Deck | Opening]:
        """Return a player for a legacy client that begins a session over HTTP."""
        from .opening import Opening

        opening = Opening(self, None, pass_on)
        opening.begin(True, self._clients.take() if self._clients is not None else None)
        return opening, opening

    def era_of(self, message: Message) -> bool | None:
        """Return whether a client's first request shows the legacy era; None if it may be of either."""
        from ..cassette.lookup import playable_sessions

        return playable_sessions.is_legacy_client(self._cassette, message, self._until)

    def mates(self, deck: Deck) -> list[int]:
        """The sessions that a connection of the run may play, the deck's own first."""
        first, *others = deck.selection.sessions
        run = set(self._run.sessions) if self._run and self._clients else set()
        return [first, *(number for number in others if number in run)]

    def _is_settled(self) -> bool:
        """Return whether the same sessions play to every client."""
        from ..cassette.lookup import playable_sessions

        run, clients = self._run, self._clients
        if run and clients and (len(run.sessions) > 1 or clients.is_of(run.id)):
            return False
        return self._options.session.isdecimal() or not playable_sessions.has_both_eras(self._cassette)

    def forget(self, deck: Deck) -> None:
        """Remove a deck that another one replaces."""
        del self._decks[deck]
        if deck is self._first:
            self._first = next(iter(self._decks), None)

    def end(self, deck: Deck) -> None:
        """Remove the deck of a client that has ended its session, and keep its totals."""
        del self._decks[deck]
        self._ended.add(deck)

    def needs_no_id(self) -> bool:
        """Return whether clients need no `Mcp-Session-Id`: the recorded legacy server gave none."""
        from . import selection

        nth = self._clients.peek() if self._clients else None
        plays = selection.choose(self._cassette, self._options.session, True, nth, self._until)
        chosen = selection.Selection(self._cassette, plays, self._until)
        return not chosen.is_modern(plays[0]) and chosen.controls.session_id(plays[0]) is None

    @property
    def replays_prefix(self) -> bool:
        """True if calls that the tape has answered are replayed to the live server first."""
        return self._options.replay_prefix

    def served_paths(self, url: str) -> tuple[str, dict[str, str]]:
        """The path for clients, as in the server's own URL, and aliases: other paths, each with its target."""
        from urllib.parse import urlsplit

        from ..wire.protocol import PATH, SSE_PATH

        if not url:
            return PATH, {}
        path = urlsplit(url).path
        is_sse = self.chosen.controls.transport(self.chosen.sessions[0]) == "sse"
        return path or "/", {path.rstrip("/"): SSE_PATH if is_sse else PATH}

    def overhear(self, text: bytes) -> None:
        """Learn secrets from a message of the live server, so that notes don't contain them."""
        self._discreet.hear(text)

    def note(self, text: str) -> None:
        """Print a note on live traffic, redacted."""
        self._say(self._discreet.remark(text))

    def refuse(self, text: str) -> None:
        """Count a request that a transport refuses. Equal refusals are reported once."""
        from .report import ReplayEvent

        self._refused += 1
        text = self._discreet.remark(text)
        if text not in self._refusals and len(self._refusals) < _MOST_REFUSALS:
            self._refusals.add(text)
            self._report(ReplayEvent("refused", text))

    def _report(self, fact: ReplayEvent) -> None:
        if self.is_rehearsing:
            return
        self._reporter.report(fact)
        if fact.inexact is not None:
            rung = fact.inexact.rung
            self._inexact[rung] = self._inexact.get(rung, 0) + 1
        if self._listener is not None:
            self._listener(fact)

    def fail(self, error: TapeError) -> None:
        """Report the error that ends the use of a live server."""
        self._reporter.fail(str(error))

    def finish(self, code: int | None) -> ReplayOutcome:
        """Report unplayed requests and return the outcome. `code`: an exit code already decided, such as by a fault."""
        options, unplayed = self._options, 0
        if options.strict or options.report:
            unplayed = self._reporter.report_unplayed(self._unplayed_requests(), self.chosen.place, loud=options.strict)
        totals = self._totals()
        played, misses = totals.played, totals.misses
        stale = 0 if self._before is None else played - self._before
        if self._grew:
            self._reporter.report_growth(self._grew, stale)
        inexact = tuple(sorted(self._inexact.items()))
        unstruck = [fault for fault in dict.fromkeys(options.faults) if fault not in self.struck]
        for fault in unstruck:
            self._reporter.report_unstruck(fault, self.name)
        strict = options.strict and (unplayed or unstruck or self._refused)
        bad = misses or strict or (options.fail_on == "inexact" and inexact)
        return ReplayOutcome(
            played, misses, unplayed, code or int(bool(bad)), self._grew, stale, inexact, self._refused
        )

    def _played_count(self) -> int:
        return self._ended.played + sum(deck.played for deck in self._decks)

    def tally(self) -> dict[str, Any]:
        """The counts as plain values, for another process to add to its own."""
        totals = self._totals()
        whole = self._options.strict or self._options.report
        return {
            "played": totals.played,
            "misses": totals.misses,
            "refused": self._refused,
            "inexact": self._inexact,
            "taken": [*totals.taken] if whole else [],
            "given_back": [*totals.given_back] if whole else [],
            "struck": [*self.struck],
        }

    def add(self, tally: dict[str, Any]) -> None:
        """Add the tally of another process."""
        self._ended.played += tally["played"]
        self._ended.misses += tally["misses"]
        self._ended.taken.update(map(tuple, tally["taken"]))
        self._ended.given_back.update(map(tuple, tally["given_back"]))
        self._refused += tally["refused"]
        self.struck.update(tally["struck"])
        for rung, count in tally["inexact"].items():
            self._inexact[rung] = self._inexact.get(rung, 0) + count

    def _totals(self) -> Totals:
        """The totals of all decks, past and present."""
        totals = Totals()
        totals.add(self._ended)
        for deck in self._decks:
            totals.add(deck)
        return totals

    def _count_live_call(self, call: ClientCall) -> bool:
        """Count a live call, and note when the tape may first be out of date."""
        from .misses import may_write

        self._grew += 1
        if self._before is None and may_write(self.chosen, call.message):
            self._before = self._played_count()
        return True

    def _unplayed_requests(self) -> Iterator[RecordedMessage]:
        """Recorded requests that no client made."""
        if self._first is None:
            self.deck(nth=self._clients.peek() if self._clients else None)
        assert self._first is not None
        totals, of_others = self._totals(), self._sessions_of_others(self._first.selection.sessions)
        asked = totals.taken | totals.given_back
        rows = (row for row in self._first.finder.unplayed_requests() if row.session not in of_others)
        rows = (row for row in rows if row.place not in asked)
        if self._recorder != STUBS:
            return rows
        from ..wire import protocol

        ours = (protocol.INITIALIZE, *(kind.method for kind in protocol.KINDS))  # from the lock, not from a stub
        return (row for row in rows if row.method not in ours)

    def _sessions_of_others(self, plays: Sequence[int]) -> frozenset[int]:
        """The playing sessions that belong to other connections of the run, and their extensions."""
        if self._run is None or self._clients is None:
            return frozenset()
        others = set(self._run.sessions) - {plays[0]}
        return frozenset(n for n in plays if n in others or self._cassette.session(n).extends in others)


def _ladder(
    selection: Selection, options: ReplayOptions, *, is_shared: bool, is_stubbed: bool
) -> Callable[[Playthrough], Ladder] | None:
    # The user's own rules replace `ignore` and `match_on`.
    counting = ((), ()) if options.rules else (options.ignore, options.match_on)
    asked = *counting, options.normalize, options.normalizers, options.match
    if not any(asked) and not is_stubbed:
        return None
    from .matching.ladder import Ladder, MatchingOptions

    if is_stubbed:
        from .matching.partial import PartialLadder

        return lambda played: PartialLadder(selection, played, MatchingOptions(*asked, is_shared))

    return lambda played: Ladder(selection, played, MatchingOptions(*asked, is_shared))


def _warn_of_other_servers(cassette: Cassette, session: int, until: int, say: Callable[[str], None]) -> None:
    """Warn if a cassette holds sessions of other servers: only the newest session plays."""
    from ..cassette.lookup import playable_sessions

    target, others = playable_sessions.targets_beside(cassette, session, until)
    if not others:
        return
    from ..errors import replace_control_characters

    playing = _target_words(target)
    others = [(number, one) for number, one in others if _target_words(one) != playing]
    if others:
        number, target = others[0]
        this, other = (replace_control_characters(" ".join(words)) for words in (playing, _target_words(target)))
        say(
            f"playing session {session}, of {this}; {cassette.path} also has session {number}, of {other}, "
            f"which --session {number} plays"
        )


def _target_words(target: str) -> list[str]:
    """The command of a session, or its URL. The program's directory is left out: it differs between machines."""
    from ..wire import jsontext

    try:
        facts = jsontext.loads(target)
    except (ValueError, RecursionError):
        return [target]
    words = facts.get("command") if isinstance(facts, dict) else None
    if isinstance(words, list) and words:
        return [os.path.basename(str(words[0])), *map(str, words[1:])]
    return [str(facts.get("url", target)) if isinstance(facts, dict) else target]


def _warn_of_incomplete(cassette: Cassette, sessions: Sequence[int], say: Callable[[str], None]) -> None:
    for session in map(cassette.session, sorted(set(sessions))):  # only these: a cassette may have many
        if session.incomplete:
            say(f"session {session.id} is incomplete: {session.incomplete}")

"""Decisions on changes: at a terminal or by options, and their effect on the recordings."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import pty
import subprocess
import termios
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from mcp_tape.cassette.reader import Cassette
from mcp_tape.compare.changes import Change, Difference, Subject, change
from mcp_tape.compare.judging import IGNORE_HEADER, Comparison, UnknownPart
from mcp_tape.diff.pending import Decision, PendingReview, find_pending, foresee, settle, spread
from mcp_tape.errors import TapeError
from mcp_tape.verify.play_findings import VerifiedSession
from mcp_tape.verify.update import keep
from tests.support.decks import alter, make_cassette
from tests.support.running import MCP_TAPE, WAIT, run, started, until


def found(subject: str, rule: str, *path: str | int, **more: Any) -> Change:
    kind, _, name = subject.partition(" ")
    return change(Subject(kind, name), Difference(rule, path, **more))


GONE = found("tool gone", "tool-removed")
WORDS = found("tool x", "tool-description-changed", "description", before="a", after="b")
DEEPER = found("tool x", "tool-meta-changed", "description", "deeper")
UNKNOWN = UnknownPart("tools", "there is no tools/list", True)


def pending(place: Path, *changes: Change, unknown: tuple[UnknownPart, ...] = ()) -> PendingReview:
    cassette = make_cassette(place / "time.db", conversation("old"))
    propose(cassette, conversation("new"))
    return PendingReview(str(cassette), Comparison("time 1", "time 2", "call", changes, unknown))


def propose(cassette: Path, new: list[Any], session: int = 1) -> None:
    """Leave the pending recording that verify would leave for this conversation with the live server."""
    live = make_cassette(cassette.with_name("live.db"), new)
    keep(str(cassette), [VerifiedSession(str(cassette), session, str(live), (1,), requests=2, calls=0, called=0)])
    live.unlink()


def conversation(words: str, *more: str, name: str = "time") -> list[Any]:
    """A client that lists the tools of a server."""
    info = {"name": name, "version": "1.0"}
    hello = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info}
    tools = [{"name": name, "description": words, "inputSchema": {"type": "object"}} for name in ("now", *more)]
    asked = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
    said = [
        ("client", {"id": 1, "method": "initialize", "params": asked}),
        ("server", {"id": 1, "result": hello}),
        ("client", {"method": "notifications/initialized"}),
        ("client", {"id": 2, "method": "tools/list"}),
        ("server", {"id": 2, "result": {"tools": tools}}),
    ]
    return [(side, json.dumps({"jsonrpc": "2.0", **message})) for side, message in said]


def test_a_proposal_can_be_verified_in_its_turn(tmp_path: Path) -> None:
    propose(make_cassette(tmp_path / "time.db", conversation("old")), conversation("new"))
    propose(tmp_path / "time.db.new", conversation("newer"))
    assert (tmp_path / "time.db.new.new").exists()


PINGED = [("client", '{"jsonrpc":"2.0","id":9,"method":"prompts/list"}'),
          ("server", '{"jsonrpc":"2.0","id":9,"result":{"prompts":[]}}')]  # fmt: skip


def said(path: Path) -> list[str]:
    """The words of each session on a cassette."""
    with Cassette(path) as cassette:
        found = [list(cassette.exchanges(session.id))[-1].result for session in cassette.sessions()]
    return [result["tools"][0]["description"] for result in found]


def decided(*pairs: tuple[Change, Decision]) -> dict[str, Decision]:
    return {one.fingerprint: decision for one, decision in pairs}


def listed(place: Path) -> list[str]:
    return sorted(path.name for path in place.iterdir())


def test_when_all_is_accepted_or_ignored_the_new_recording_takes_its_place(tmp_path: Path) -> None:
    one = pending(tmp_path, GONE, WORDS)
    ignore = tmp_path / ".mcp-tape-ignore"
    settled = settle(one, decided((GONE, "accept"), (WORDS, "ignore")), str(ignore))
    assert (settled.outcome, settled.accepted, settled.ignored) == ("replaced", 1, 1)
    assert said(tmp_path / "time.db") == ["new"]
    assert listed(tmp_path) == [".mcp-tape-ignore", "time.db"]
    # The error must be accepted for the gate that compares with the old recording, too.
    noted = f"{GONE.fingerprint}  # accepted: {GONE.rule} {GONE.subject}\n"
    assert ignore.read_text() == f"{IGNORE_HEADER}$.description tool x  # ignored in a review\n{noted}"


def test_when_one_is_rejected_the_cassette_stays_and_the_accepted_are_noted(tmp_path: Path) -> None:
    one = pending(tmp_path, GONE, WORDS)
    old = (tmp_path / "time.db").read_bytes()
    ignore = tmp_path / ".mcp-tape-ignore"
    settled = settle(one, decided((GONE, "reject"), (WORDS, "accept")), str(ignore))
    assert settled.outcome == "rejected"
    assert (tmp_path / "time.db").read_bytes() == old
    assert listed(tmp_path) == [".mcp-tape-ignore", "time.db"]
    reason = "accepted: tool-description-changed tool x $.description"
    assert ignore.read_text() == f"{IGNORE_HEADER}{WORDS.fingerprint}  # {reason}\n"


def test_sessions_recorded_after_the_verification_stay(tmp_path: Path) -> None:
    one = pending(tmp_path, WORDS)
    make_cassette(tmp_path / "time.db", conversation("later"))
    assert settle(one, decided((WORDS, "accept")), str(tmp_path / ".mcp-tape-ignore")).outcome == "replaced"
    assert said(tmp_path / "time.db") == ["new", "later"]
    assert listed(tmp_path) == ["time.db"]


CHANGED = {
    "other": "UPDATE facts SET text = replace(text, 'old', 'odd')",
    "noted": "UPDATE sessions SET note = 'mine'",
    "gone": "DELETE FROM sessions",
}


@pytest.mark.parametrize("statement", CHANGED.values(), ids=CHANGED)
def test_a_session_that_differs_from_the_verified_one_is_not_replaced(tmp_path: Path, statement: str) -> None:
    one = pending(tmp_path, WORDS)
    alter(tmp_path / "time.db", statement)
    before = (tmp_path / "time.db").read_bytes()
    with pytest.raises(TapeError, match=r"has changed since it was verified: session 1 is (gone|different)\n"):
        settle(one, decided((WORDS, "ignore")), str(tmp_path / ".mcp-tape-ignore"))
    assert (tmp_path / "time.db").read_bytes() == before
    assert listed(tmp_path) == ["time.db", "time.db.new"]


@pytest.mark.parametrize(("decision", "outcome"), [("accept", "pending"), ("reject", "rejected")])
def test_while_something_is_undecided_the_new_recording_stays(tmp_path: Path, decision: Decision, outcome: str) -> None:
    one = pending(tmp_path, GONE, WORDS)
    settled = settle(one, decided((GONE, decision)), str(tmp_path / ".mcp-tape-ignore"))
    assert (settled.outcome, settled.undecided) == (outcome, 1)
    assert listed(tmp_path) == ["time.db", "time.db.new"]


def test_unknown_parts_are_accepted_only_together(tmp_path: Path) -> None:
    one = pending(tmp_path, WORDS, unknown=(UNKNOWN,))
    ignore = str(tmp_path / ".mcp-tape-ignore")
    assert settle(one, decided((WORDS, "accept")), ignore).outcome == "pending"
    assert settle(one, decided((WORDS, "accept")), ignore, whole=True).outcome == "replaced"


def test_ignoring_a_place_ignores_all_changes_there() -> None:
    assert spread((GONE, WORDS, DEEPER), decided((WORDS, "ignore"))) == decided((DEEPER, "ignore"), (WORDS, "ignore"))
    assert spread((WORDS, DEEPER), decided((WORDS, "ignore"), (DEEPER, "reject")))[DEEPER.fingerprint] == "reject"


def test_all_that_waits_below_a_directory_is_found_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("b.db.new", "a/c.db.new", ".git/x.db.new", "node_modules/x.db.new", "other.new", "plain.db"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
        (tmp_path / name.removesuffix(".new")).touch()
    (tmp_path / "left.db.new").touch()  # its cassette is gone, so nothing can be decided
    assert find_pending() == ["a/c.db", "b.db"]


# From here on, the real command with real cassettes.


def review(place: Path, *options: str) -> subprocess.CompletedProcess[str]:
    done = run([*MCP_TAPE, "review", *options], cwd=place)
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A project with one pending cassette: a tool is gone, and another has a new description."""
    (tmp_path / ".git").mkdir()
    make_cassette(tmp_path / "time.db", conversation("Tells the time.", "gone"))
    propose(tmp_path / "time.db", conversation("Tells \x1b[31mthe time."))
    return tmp_path


def prints(place: Path) -> dict[str, str]:
    """The pending fingerprints, by rule."""
    value = json.loads(review(place, "--json").stdout)
    assert value["cassette"] == "time.db"
    return {one["rule"]: one["fingerprint"] for one in value["changes"]}


def test_without_terminal_and_options_pending_changes_are_listed_and_are_a_finding(place: Path) -> None:
    done = review(place)
    assert done.returncode == 1
    assert done.stdout.startswith("time.db\n")
    assert "[tool-removed]" in done.stdout and r"+ Tells \x1b[31mthe time." in done.stdout
    assert done.stdout.splitlines()[-1].startswith("Decide: mcp-tape review --accept FINGERPRINT, --reject")
    assert review(place, "--list").stdout == done.stdout
    assert listed(place) == [".git", "time.db", "time.db.new"]


def test_nothing_pending_is_fine(tmp_path: Path) -> None:
    make_cassette(tmp_path / "time.db", conversation("x"))
    for options in ((), ("time.db", "--list"), ("--accept-all",)):
        done = review(tmp_path, *options)
        assert (done.returncode, done.stdout) == (0, "no changes are pending\n")


@pytest.mark.slow
def test_options_decide_on_each_change(place: Path) -> None:
    known = prints(place)
    ignored = known.pop("tool-description-changed")
    accepted = [word for fingerprint in known.values() for word in ("--accept", fingerprint)]
    done = review(place, *accepted, "--ignore-path", ignored)
    assert (done.returncode, done.stdout) == (
        0,
        f"time.db: the new recording takes its place ({len(known)} accepted, 1 ignored); "
        "1 accepted change noted in .mcp-tape-ignore\n",
    )
    assert "$.description tool now" in (place / ".mcp-tape-ignore").read_text()
    assert listed(place) == [".git", ".mcp-tape-ignore", "time.db"]
    assert review(place).returncode == 0


@pytest.mark.slow
def test_an_undecided_change_keeps_everything_unchanged(place: Path) -> None:
    done = review(place, "--accept", prints(place)["tool-removed"])
    assert done.returncode == 1 and "still pending (1 accepted" in done.stdout
    assert listed(place) == [".git", "time.db", "time.db.new"]


def test_a_cassette_replaced_by_another_is_left_alone(place: Path) -> None:
    (place / "time.db").unlink()
    other = make_cassette(place / "time.db", conversation("Another one.")).read_bytes()
    for options in (("--list",), ("--accept-all",)):
        done = review(place, *options)
        assert (done.returncode, done.stdout) == (1, "")
        assert "session 1 is different" in done.stderr and "Verify it again" in done.stderr
    assert (place / "time.db").read_bytes() == other
    assert listed(place) == [".git", "time.db", "time.db.new"]


def test_a_new_recording_of_unknown_origin_replaces_nothing(place: Path) -> None:
    alter(place / "time.db.new", "DROP TABLE verified")
    done = review(place, "--accept-all")
    assert done.returncode == 1 and "does not name the sessions that were verified" in done.stderr


def test_changes_that_follow_an_ignored_one_need_no_decision(tmp_path: Path) -> None:
    number = found("server", "server-version-not-bumped", "serverInfo", "version")
    one = pending(tmp_path, GONE, number)
    ignore = tmp_path / ".mcp-tape-ignore"
    settled = settle(one, decided((GONE, "ignore")), str(ignore))
    assert (settled.outcome, settled.ignored, settled.undecided) == ("replaced", 1, 0)
    assert "serverInfo" not in ignore.read_text()


def test_a_version_number_is_decided_on_while_something_breaks(tmp_path: Path) -> None:
    number = found("server", "server-version-not-bumped", "serverInfo", "version")
    one = pending(tmp_path, GONE, number)
    assert settle(one, decided((GONE, "accept")), str(tmp_path / ".mcp-tape-ignore")).undecided == 1


@pytest.mark.slow
def test_all_can_be_accepted_but_one(place: Path) -> None:
    known = prints(place)
    done = review(place, "time.db", "--accept-all", "--reject", known["tool-removed"])
    assert done.returncode == 1
    assert "not changed" in done.stdout and "1 rejected" in done.stdout
    assert listed(place) == [".git", ".mcp-tape-ignore", "time.db"]
    noted = (place / ".mcp-tape-ignore").read_text()
    assert known["tool-description-changed"] in noted and known["tool-removed"] not in noted


@pytest.mark.slow(quick=2)
@pytest.mark.parametrize(
    ("options", "code", "why"),
    [
        (["--accept", "0123456789ab"], 2, "'0123456789ab' is not pending; these are:\n"),
        (["--accept", "0123456789ab", "--reject", "0123456789ab"], 2, "decided twice"),
        (["--accept-all", "--reject-all"], 2, "either --accept-all or --reject-all, not both"),
        (["none.db"], 3, "there is no cassette at none.db"),
    ],
)
def test_invalid_decisions_change_nothing(place: Path, options: list[str], code: int, why: str) -> None:
    done = review(place, *options)
    assert (done.returncode, why in done.stderr) == (code, True), done.stderr
    assert listed(place) == [".git", "time.db", "time.db.new"]


def at_a_terminal(place: Path, keys: Sequence[str]) -> tuple[int, str]:
    """Press one key per question; return the exit code and the screen."""
    ours, theirs = pty.openpty()
    os.set_blocking(ours, False)
    screen = bytearray()

    def is_asked(number: int) -> bool:
        with contextlib.suppress(BlockingIOError):
            screen.extend(os.read(ours, 65536))
        return screen.count(b"(q)uit ") == number and is_raw(ours)

    streams = {"stdin": theirs, "stdout": theirs, "stderr": theirs}
    environment = os.environ | {"NO_COLOR": "1", "COLUMNS": "200"}
    try:
        with started([*MCP_TAPE, "review"], cwd=place, env=environment, **streams) as it:
            for number, key in enumerate(keys, 1):
                until(functools.partial(is_asked, number), f"question {number}")
                os.write(ours, key.encode())
            code = it.wait(WAIT)  # the rest of its output fits into the terminal's buffer
            is_asked(0)
            return code, screen.decode()
    finally:
        os.close(ours)
        os.close(theirs)


def is_raw(terminal: int) -> bool:
    """Whether the other side waits for a key: earlier input is discarded."""
    return not termios.tcgetattr(terminal)[3] & termios.ICANON


@pytest.mark.slow
def test_at_a_terminal_each_change_is_asked_for(place: Path) -> None:
    asked = len(prints(place))
    code, screen = at_a_terminal(place, [*["a"] * asked, "c"])
    assert code == 0, screen
    assert f"{asked} of {asked}" in screen
    assert "\x1b[31mthe" not in screen and "the new recording takes its place" in screen
    assert listed(place) == [".git", ".mcp-tape-ignore", "time.db"]


@pytest.mark.slow
def test_at_a_terminal_one_can_reject_skip_and_leave(place: Path) -> None:
    code, screen = at_a_terminal(place, ["s", "q"])
    assert code == 1 and "still pending" in screen
    assert listed(place) == [".git", "time.db", "time.db.new"]
    asked = len(prints(place))
    code, screen = at_a_terminal(place, [*["r"] * asked, "c"])
    assert code == 1 and "not changed" in screen
    assert listed(place) == [".git", "time.db"]


@pytest.mark.slow
def test_at_a_terminal_one_can_go_back_and_nothing_is_done_before_the_last_word(place: Path) -> None:
    asked = len(prints(place))
    before = (place / "time.db").read_bytes()
    code, screen = at_a_terminal(place, ["b", *["r"] * asked, "b", "a", "q"])
    assert code == 1 and "still pending" in screen
    assert (place / "time.db").read_bytes() == before and listed(place) == [".git", "time.db", "time.db.new"]
    code, screen = at_a_terminal(place, [*["r"] * asked, *["b"] * asked, *["a"] * asked, "c"])
    assert code == 0, screen


@pytest.mark.slow
def test_at_a_terminal_a_change_can_be_viewed_in_full(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAGER", "cat")
    _, screen = at_a_terminal(place, ["v", "q"])
    assert max(map(screen.count, prints(place).values())) == 2


@pytest.mark.slow
def test_accepted_changes_pass_the_gate_that_compares_with_the_old_recording(place: Path) -> None:
    (place / "before.db").write_bytes((place / "time.db").read_bytes())
    gate = [*MCP_TAPE, "breaking", "before.db"]
    assert run([*gate, "time.db.new"], cwd=place).returncode == 1
    assert review(place, "time.db", "--accept-all").returncode == 0
    done = run([*gate, "time.db"], cwd=place)
    assert done.returncode == 0, done.stdout


@pytest.mark.slow
def test_at_a_terminal_ignoring_a_text_is_warned_of(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    propose(make_cassette(tmp_path / "time.db", conversation("old")), conversation("new"))
    code, screen = at_a_terminal(tmp_path, ["i", "c"])
    assert code == 0 and "every change of this text is silent" in screen


@pytest.mark.parametrize(
    ("keys", "code", "foreseen"),
    [
        ("ac", 0, ["4 accepted", "will replace the verified sessions of time.db"]),
        ("tac", 0, ["4 accepted", "will replace the verified sessions of time.db"]),
        ("trc", 1, ["4 rejected", "time.db will not be changed", "time.db.new will be removed"]),
        ("tsc", 1, ["4 undecided", "time.db and time.db.new will not be changed"]),
        ("tbtsbrc", 1, ["4 rejected"]),
        ("ic", 0, ["4 ignored", "4 lines will be added to .mcp-tape-ignore"]),
    ],
)
def test_at_a_terminal_equal_changes_are_one_question_and_the_rest_another(
    tmp_path: Path, keys: str, code: int, foreseen: list[str]
) -> None:
    (tmp_path / ".git").mkdir()
    old, new = (conversation(words, "b", "c", "d") for words in ("old words", "new words"))
    propose(make_cassette(tmp_path / "time.db", old), new)
    done, screen = at_a_terminal(tmp_path, keys)
    assert done == code, screen
    assert "the same in tool c" in screen and "1 of 1" in screen
    assert [said for said in foreseen if said not in screen] == []


def test_the_announced_outcome_is_the_actual_one(tmp_path: Path) -> None:
    for number, (first, second) in enumerate([("accept", "reject"), ("ignore", "accept"), ("accept", "accept")]):
        place = tmp_path / str(number)
        place.mkdir()
        one, decisions = pending(place, GONE, WORDS), decided((GONE, first), (WORDS, second))
        assert foresee(one, decisions) == settle(one, decisions, str(place / ".mcp-tape-ignore"))


@pytest.mark.slow(quick=1)
@pytest.mark.parametrize(("keys", "code", "left"), [("aca", 0, ["time.db"]), ("icq", 1, ["time.db", "time.db.new"])])
def test_at_a_terminal_unknown_parts_are_asked_about(tmp_path: Path, keys: str, code: int, left: list[str]) -> None:
    (tmp_path / ".git").mkdir()
    old, new = ([*conversation("", name=name)[:3], *PINGED] for name in ("time", "clock"))
    propose(make_cassette(tmp_path / "time.db", old), new)
    done, screen = at_a_terminal(tmp_path, keys)
    assert done == code, screen
    assert "UNKNOWN tools" in screen and "[server-name-changed]" in screen
    assert [name for name in listed(tmp_path) if name.startswith("time")] == left

"""The recording that answers a request without an exact match."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mcp_tape import TapeError
from mcp_tape.redaction.redactor import Redactor
from mcp_tape.replay.matching.nearness import MOST
from tests.support.decks import Player, Said, make_cassette
from tests.support.messages import call, request, result, tell, values

SECRET = "ghp_" + "a1B2" * 9
A, B = "/tmp/tmpaaaaaaaa", "/tmp/tmpbbbbbbbb"
PLAIN = '{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"n":%d}}'
X, Y = "/tmp/tmpxxxxxxxx", "/tmp/tmpyyyyyyyy"


def tape(tmp_path: Path, *asked: dict[str, Any], tool: str = "read", **options: Any) -> Player:
    """Each call is answered with its own arguments."""
    said: list[Said] = []
    for number, arguments in enumerate(asked, 1):
        said += [("client", call(number, tool, **arguments)), ("server", result(number, arguments))]
    return Player(make_cassette(tmp_path / "tape.db", said), **options)


def ask(player: Player, tool: str = "read", **arguments: Any) -> Any:
    """Return the value of the answer; None for a miss."""
    (answer,) = player.say(call(9, tool, **arguments))
    return json.loads(answer).get("result", {}).get("value")


def rungs(player: Player) -> list[str]:
    return [fact.inexact.rung for fact in player.facts if fact.inexact]


# -- rungs in order


def test_an_exact_recording_wins_over_an_earlier_one_that_is_equal_except_for_ignored_parts(tmp_path: Path) -> None:
    player = tape(tmp_path, {"q": 1, "now": 1}, {"q": 1, "now": 2}, ignore=["$.params.arguments.now"])
    assert ask(player, q=1, now=2) == {"q": 1, "now": 2}
    assert ask(player, q=1, now=3) == {"q": 1, "now": 1}
    assert ask(player, q=1, now=1) == {"q": 1, "now": 1}, "its own, though another had it"
    assert ask(player, q=1, now=1) is None
    assert rungs(player) == ["ignore"]


def test_each_rung_is_tried_as_a_whole(tmp_path: Path) -> None:
    asked = [{"q": "in Bern", "at": 1}, {"q": "in bern", "at": 2}, {"q": "in Bern please", "at": 3}]
    options = {"ignore": ["$.params.arguments.at"], "normalize": ["case"], "match": ["nearest"]}
    player = tape(tmp_path, *asked, **options)
    assert ask(player, q="in Bern", at=1)["at"] == 1
    assert ask(player, q="in Bern", at=9)["at"] == 2, "normalized: what is ignored was played"
    assert ask(player, q="in bern", at=9)["at"] == 3, "nearest: what is equal once normalized was played"
    assert rungs(player) == ["normalize", "nearest"]
    assert ask(player, q="in bern", at=2)["at"] == 2, "exact: only another had its answer"
    assert ask(player, q="in Bern", at=1) is None


def test_a_rung_repeats_before_the_next_has_its_say(tmp_path: Path) -> None:
    for repeats, expected in (("last", [1, 1, 1]), ("cycle", [1, 1, 1])):
        player = tape(tmp_path, {"q": 1}, {"q": 2}, repeats=repeats, match=["nearest:0"])
        assert [ask(player, q=1)["q"] for _ in range(3)] == expected
        assert rungs(player) == []
        (tmp_path / "tape.db").unlink()


def test_a_recording_played_by_a_looser_rung_is_repeated_by_a_stricter_one(tmp_path: Path) -> None:
    player = tape(tmp_path, {"q": "Bern"}, repeats="last", normalize=["case"])
    assert ask(player, q="BERN") == {"q": "Bern"}
    assert ask(player, q="Bern") == {"q": "Bern"}
    assert ask(player, q="bern") == {"q": "Bern"}
    assert rungs(player) == ["normalize", "normalize"]


def test_cycling_works_in_each_rung(tmp_path: Path) -> None:
    asked = [{"q": "a", "n": 1}, {"q": "b", "n": 2}, {"q": "a", "n": 3}]
    player = tape(tmp_path, *asked, repeats="cycle", ignore=["$.params.arguments.n"])
    assert [ask(player, q="a", n=0)["n"] for _ in range(5)] == [1, 3, 1, 3, 1]
    assert [ask(player, q="b", n=0)["n"] for _ in range(2)] == [2, 2]
    assert ask(player, q="a", n=3)["n"] == 3


def test_housekeeping_is_repeated_by_a_rung(tmp_path: Path) -> None:
    said: list[Said] = [("client", request(1, "resources/read", uri=f"file://{A}/a")), ("server", result(1, f"{A}/a"))]
    player = Player(make_cassette(tmp_path / "tape.db", said), normalize=["paths"])
    for _ in range(3):
        assert values(player.say(request(9, "resources/read", uri=f"file://{X}/a"))) == [f"{X}/a"]


def test_an_option_for_one_tool_is_for_that_alone(tmp_path: Path) -> None:
    said: list[Said] = []
    for number, tool in enumerate(("a", "b"), 1):
        said += [("client", call(number, tool, q="number one", n=1)), ("server", result(number, tool))]
    path = make_cassette(tmp_path / "tape.db", said)
    for options in (
        {"ignore": ["tools/call:a=$.params.arguments.q"]},
        {"match_on": ["tools/call:a=$.params.arguments.n"]},
        {"normalize": ["tools/call:a=case"]},
        {"match": ["tools/call:a=nearest:0.1"]},
        {"match": ["nearest:0.1", "tools/call:b=exact"]},
    ):
        player = Player(path, **options)
        assert ask(player, "a", q="number ONE", n=1) == "a"
        assert ask(player, "b", q="number ONE", n=1) is None
        assert ask(player, "b", q="number one", n=1) == "b"


def test_a_tool_that_is_ignored_may_be_another(tmp_path: Path) -> None:
    player = tape(tmp_path, {"q": 1}, match_on=["$.params.arguments"])
    assert ask(player, "write", q=1) == {"q": 1}


def test_a_placeholder_counts_as_exact_and_in_every_rung(tmp_path: Path) -> None:
    said: list[Said] = []
    for n in range(4):
        said += [("client", call(n, "read", q=f"Key {SECRET}", n=n)), ("server", result(n, n))]
    path = make_cassette(tmp_path / "tape.db", said, redactor=Redactor({}))
    options = {"ignore": ["$.params.arguments.n"], "normalize": ["case"], "match": ["nearest"]}
    player = Player(path, **options)
    assert ask(player, q="Key abc", n=1) == 1
    assert rungs(player) == []
    assert ask(player, q="Key abc", n=9) == 0
    assert ask(player, q="KEY abc", n=9) == 2
    assert rungs(player) == ["ignore", "normalize"]
    assert ask(player, q="Key abc", n=3) == 3
    player = Player(path, match=["nearest"])
    assert ask(player, q="Key abc", n=3, limit=5) == 3
    assert rungs(player) == ["nearest"]


# -- paths


def test_two_files_are_not_swapped_in_any_order(tmp_path: Path) -> None:
    player = tape(tmp_path, {"path": f"{A}/b.txt"}, {"path": f"{A}/a.txt"}, normalize=["paths"])
    assert ask(player, path=f"{X}/a.txt") == {"path": f"{X}/a.txt"}
    assert ask(player, path=f"{X}/b.txt") == {"path": f"{X}/b.txt"}
    assert rungs(player) == ["normalize", "normalize"]


def test_two_directories_stay_two(tmp_path: Path) -> None:
    said: list[Said] = []
    for number, (path, text) in enumerate([(A, "one"), (B, "two"), (A, "one again"), (B, "two again")], 1):
        said += [("client", call(number, "read", path=f"{path}/x")), ("server", result(number, f"{text} in {path}"))]
    player = Player(make_cassette(tmp_path / "tape.db", said), normalize=["paths"])
    found = [ask(player, path=f"{path}/x") for path in (Y, Y, X, X, X)]
    assert found == [f"one in {Y}", f"one again in {Y}", f"two in {X}", f"two again in {X}", None]


def test_values_of_exact_matches_are_paired_with_themselves(tmp_path: Path) -> None:
    player = tape(tmp_path, {"path": f"{A}/x"}, {"path": f"{A}/y"}, normalize=["paths"])
    assert ask(player, path=f"{A}/x") == {"path": f"{A}/x"}
    assert ask(player, path=f"{X}/y") is None, "one directory cannot stand for two"
    assert ask(player, path=f"{A}/y") == {"path": f"{A}/y"}


def test_the_live_path_is_put_into_all_that_follows(tmp_path: Path) -> None:
    said: list[Said] = [
        ("client", call(1, "read", path=f"{A}/x")),
        ("server", tell("notifications/message", data=f"reading {A}/x")),
        ("server", request(7, "sampling/createMessage", text=f"what is in {A}?")),
        ("client", result(7, "nothing")),
        ("server", result(1, f"{A}/x")),
        ("client", call(2, "list")),
        ("server", result(2, [A, f"{A}0"])),
    ]
    player = Player(make_cassette(tmp_path / "tape.db", said), normalize=["paths"])
    told = player.say(call(1, "read", path=f"{X}/x"))
    assert [json.loads(text)["params"] for text in told] == [
        {"data": f"reading {X}/x"},
        {"text": f"what is in {X}?"},
    ]
    assert values(player.say(result(7, "nothing"))) == [f"{X}/x"]
    assert values(player.say(call(2, "list"))) == [[X, f"{A}0"]]


def test_the_live_path_is_put_into_the_answers_to_requests_that_have_none(tmp_path: Path) -> None:
    said: list[Said] = [("client", call(0, "read", path=f"{A}/x")), ("server", result(0))]
    for n in (1, 2, 3):
        said += [("client", PLAIN % (n, n)), ("server", f'{{"jsonrpc":"2.0","id":{n},"result":{{"value":"{A}"}}}}')]
    player = Player(make_cassette(tmp_path / "tape.db", said), normalize=["paths"])
    player.say(call(0, "read", path=f"{X}/x"))
    for n in (1, 2, 3):
        assert values(player.say(PLAIN % (n, n))) == [X]


def test_the_roots_of_the_client_are_put_back(tmp_path: Path) -> None:
    said: list[Said] = [
        ("client", call(1, "start")),
        ("server", request(7, "roots/list")),
        ("client", result(7, [f"file://{A}"])),
        ("server", result(1, "ok")),
        ("client", call(2, "list")),
        ("server", result(2, [A])),
    ]
    path = make_cassette(tmp_path / "tape.db", said)
    for options, root, notes in (({"normalize": ["paths"]}, X, 0), ({}, A, 1)):
        player = Player(path, **options)
        player.say(call(1, "start"))
        player.say(result(7, [f"file://{X}"]))
        assert values(player.say(call(2, "list"))) == [[root]]
        assert len(player.told("note")) == notes


def test_ids_and_ports_that_the_client_made_up_are_put_back(tmp_path: Path) -> None:
    ids = [f"{n}b0e4c2e-8a51-4b0e-9f0a-3c1f7c0d1e2f" for n in range(4)]
    asked = [{"id": ids[0]}, {"id": ids[1]}, {"at": "http://localhost:1/x"}]
    player = tape(tmp_path, *asked, normalize=["uuids", "ports"])
    assert ask(player, id=ids[2]) == {"id": ids[2]}
    assert ask(player, id=ids[2]) is None, "another was another"
    assert ask(player, id=ids[3]) == {"id": ids[3]}
    assert ask(player, at="http://localhost:2/x") == {"at": "http://localhost:2/x"}


def test_numbers_within_a_tolerance_are_equal(tmp_path: Path) -> None:
    player = tape(tmp_path, {"x": 0.1}, {"x": 0.25}, normalize=["numbers:0.1"])
    assert ask(player, x=0.3) == {"x": 0.25}
    assert ask(player, x=0.3) is None
    assert ask(player, x=0.2) == {"x": 0.1}


def test_the_closest_number_within_a_tolerance_answers(tmp_path: Path) -> None:
    player = tape(tmp_path, {"x": 1, "y": 1}, {"x": 1.2, "y": 1}, {"x": 1.2, "y": 1.1}, normalize=["numbers:0.5"])
    assert ask(player, x=1.21, y=1.09) == {"x": 1.2, "y": 1.1}
    assert ask(player, x=1.21, y=1.09) == {"x": 1.2, "y": 1}
    assert ask(player, x=1.21, y=1.09) == {"x": 1, "y": 1}


DAY_BY_DAY = [
    [{"on": "2026-01-01"}, {"on": "2026-01-02"}],
    [{"on": "2026-01-01T10:00:00Z"}, {"on": "2026-01-02 09:00:00"}],
    [{"on": "20260101T100000Z"}, {"on": "20260102T090000Z"}],
    [{"on": "Thu, 01 Jan 2026 10:00:00 GMT"}, {"on": "Fri, 02 Jan 2026 09:00:00 GMT"}],
    [{"created_at": 1_767_261_600}, {"created_at": 1_767_348_000}],
    [{"at": 1_767_261_600_000}, {"at": 1_767_348_000_000}],
    [{"at": "1767261600000"}, {"at": "1767348000000"}],
]


@pytest.mark.parametrize("days", DAY_BY_DAY)
def test_the_answers_of_two_days_do_not_change_places(tmp_path: Path, days: list[dict[str, Any]]) -> None:
    later = json.loads(
        json.dumps(days)
        .replace("2026", "2027")
        .replace("1767", "1798")
        .replace("Thu", "Fri")
        .replace("Fri, 02", "Sat, 02")
    )
    player = tape(tmp_path, *days, days[1] | {"other": 1}, normalize=["times"])
    assert [ask(player, **later[1]), ask(player, **later[0])] == [days[0], None]
    assert ask(player, other=1, **later[0]) == days[1] | {"other": 1}, "another question has an order of its own"
    player = Player(tmp_path / "tape.db", normalize=["times"], repeats="cycle")
    assert [ask(player, **later[at]) for at in (0, 0, 1, 1)] == [days[at] for at in (0, 1, 0, 1)], "which starts over"


def test_an_impossible_date_is_a_time_without_an_order(tmp_path: Path) -> None:
    player = tape(tmp_path, {"on": "2026-01-31"}, {"on": "2026-02-31"}, normalize=["times"])
    assert [ask(player, on=on) for on in ("2027-02-31", "2027-01-31")] == [{"on": "2026-01-31"}, {"on": "2026-02-31"}]


def test_a_function_normalizes(tmp_path: Path) -> None:
    player = tape(tmp_path, {"q": "a#1"}, {"q": "b#1"}, normalizers=[lambda value: str(value).partition("#")[0]])
    assert [ask(player, q=q) for q in ("b#2", "a#3", "c#1")] == [{"q": "b#1"}, {"q": "a#1"}, None]


def test_a_function_that_returns_a_value_beyond_json_is_refused(tmp_path: Path) -> None:
    player = tape(tmp_path, {"q": "a"}, normalizers=[lambda value: object()])
    with pytest.raises(TapeError, match="has returned a value of the type object; it must be one of JSON"):
        ask(player, q="b")


def test_a_call_that_was_normalized_and_played_is_played_out(tmp_path: Path) -> None:
    player = tape(tmp_path, {"path": f"{A}/x"}, {"path": f"{A}/y"}, normalize=["paths"])
    assert ask(player, path=f"{X}/x") and ask(player, path=f"{X}/x") is None
    miss = player.facts[-1]
    assert "tools/call read is played out" in miss.text and "--repeats last" in miss.text
    assert "--normalize" not in miss.text


@pytest.mark.parametrize(
    ("path", "why"),
    [
        (f"{Y}/x", f"{X} stands for the recorded {A} already, so {Y} cannot"),
        (f"{X}/z", f"{X} stands for the recorded {A} already, and not for {B}"),
    ],
)
def test_a_miss_names_the_pair_of_values_that_contradicts(tmp_path: Path, path: str, why: str) -> None:
    player = tape(tmp_path, {"path": f"{A}/x"}, {"path": f"{B}/z"}, normalize=["paths"])
    assert ask(player, path=f"{X}/x") and ask(player, path=path) is None
    miss = player.facts[-1].text
    assert "\n  tools/call read is not on the tape with these params\n" in miss
    assert f"\n  {why}\n" in miss
    assert "--repeats" not in miss and "--normalize" not in miss


def test_a_normalizer_in_use_is_not_advised(tmp_path: Path) -> None:
    player = tape(tmp_path, {"path": f"{A}/x"}, {"path": f"{A}/y"}, normalize=["paths"])
    assert ask(player, path=f"{X}/x") and ask(player, path=f"{Y}/y") is None, "one directory is not two"
    assert "--normalize" not in player.facts[-1].text and f'recorded "{A}/y"' in player.facts[-1].text


# -- the nearest


def test_the_nearest_that_was_not_played_answers(tmp_path: Path) -> None:
    asked = [{"q": "weather in Basel"}, {"q": "weather in Bern"}, {"q": "prices of gold"}]
    player = tape(tmp_path, *asked, match=["nearest"])
    assert ask(player, q="the weather in Bern") == asked[1]
    assert ask(player, q="weather in Berne") is None, "another town"
    assert ask(player, q="please, the weather in Bern") is None, "its answer went to another"
    fact = next(fact for fact in player.facts if fact.inexact)
    assert fact.inexact is not None and fact.inexact.similarity is not None
    assert fact.inexact.similarity == MOST
    (difference,) = fact.inexact.differing
    assert difference == ("$.params.arguments.q", '"weather in Bern"', '"the weather in Bern"')
    assert fact.text.startswith("tools/call read was answered by #3, the nearest (0.")


def test_equally_near_ones_answer_in_recorded_order(tmp_path: Path) -> None:
    player = tape(tmp_path, *[{"q": "the same"}] * 3, match=["nearest"])
    for number in range(3):
        assert ask(player, q="same, please") == {"q": "the same"}, number
    assert [fact.call.recorded.seq for fact in player.facts if fact.inexact] == [1, 3, 5]  # type: ignore[union-attr]


def test_another_tool_is_never_near(tmp_path: Path) -> None:
    player = tape(tmp_path, {"q": 1}, match=["nearest:0"])
    assert ask(player, "write", q=1) is None


def test_the_nearest_may_be_repeated(tmp_path: Path) -> None:
    player = tape(tmp_path, {"q": "red shoes"}, {"q": "blue shoes"}, match=["nearest"], repeats="last")
    assert [ask(player, q="the red shoes")["q"] for _ in range(3)] == ["red shoes"] * 3


def test_normalized_and_ignored_parts_do_not_reduce_similarity(tmp_path: Path) -> None:
    asked = {"path": f"{A}/x", "now": 1, "q": "of Bern"}
    player = tape(tmp_path, asked, match=["nearest"], normalize=["paths"], ignore=["$.params.arguments.now"])
    assert ask(player, path=f"{X}/x", now=2, q="Bern") == asked | {"path": f"{X}/x"}


def test_resources_and_lists_bend_only_if_they_are_a_target(tmp_path: Path) -> None:
    said: list[Said] = [
        ("client", request(1, "resources/read", uri="file:///notes/my first note.md")), ("server", result(1, "note")),
        ("client", request(2, "tools/list", cursor="page two")), ("server", result(2, "list")),
    ]  # fmt: skip
    path = make_cassette(tmp_path / "tape.db", said)
    note = request(8, "resources/read", uri="file:///notes/my first")
    page = request(9, "tools/list", cursor="page two a")
    player = Player(path, match=["nearest:0.1"])
    assert ["-32010" in answer for asked in (note, page) for answer in player.say(asked)] == [True, True]
    player = Player(path, match=["resources/read=nearest:0.5", "tools/list=nearest:0.5"])
    assert [value for asked in (note, page) for value in values(player.say(asked))] == ["note", "list"]


def test_an_argument_with_its_declared_default_is_as_good_as_none(tmp_path: Path) -> None:
    tool = {"name": "find", "inputSchema": {"properties": {"units": {"default": "metric"}, "q": True}}}
    listed = json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"tools": [tool, "odd"]}})
    said: list[Said] = [("client", request(1, "tools/list")), ("server", listed)]
    said += [("client", call(2, "find", q="Bern")), ("server", result(2, "sunny"))]
    path = make_cassette(tmp_path / "tape.db", said)
    assert ask(Player(path, match=["nearest"]), "find", q="Bern", units="metric") == "sunny"
    assert ask(Player(path, match=["nearest"]), "find", q="Bern", units="imperial") is None


# -- live values in the answer


def test_a_call_that_never_reached_the_server_leaves_its_answer(tmp_path: Path) -> None:
    player = tape(tmp_path, {"q": "Bern"}, normalize=["case"], report_played=True)
    ask(player, q="BERN")
    made = next(fact.call for fact in player.facts if fact.what == "played" and fact.call)
    player.deck.give_back(made)
    assert ask(player, q="Bern") == {"q": "Bern"}
    assert rungs(player) == ["normalize"]


def test_differences_are_shown_without_secrets(tmp_path: Path) -> None:
    player = tape(tmp_path, {"q": f"some text {SECRET}", "by": "me"}, match=["nearest:0.1"])
    ask(player, q=f"some long text {SECRET}", by="me")
    (fact,) = (fact for fact in player.facts if fact.inexact)
    assert "$.params.arguments.q" in fact.text
    assert SECRET not in repr(fact.inexact) + fact.text


@pytest.mark.parametrize("options", [{}, {"repeats": "last"}])
def test_a_rule_that_finds_another_is_inexact(tmp_path: Path, options: Any) -> None:
    from mcp_tape.replay.deck import Deck
    from mcp_tape.replay.finder import Finder

    player = tape(tmp_path, {"q": 1}, {"q": 2}, **options)
    player.finder = Finder(player.selection, rules=[lambda recorded, live: None])
    player.deck = Deck(player.selection, player.finder, report=player.facts.append)
    assert ask(player, q=1) == {"q": 1}
    assert rungs(player) == []
    assert ask(player, q=7) == {"q": 2}
    assert rungs(player) == ["match_on"]

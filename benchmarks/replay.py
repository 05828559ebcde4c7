"""The speed of a replay over pipes: the whole life of a process, and the sustained rate."""

from __future__ import annotations

import json
from collections.abc import Sequence
from time import perf_counter

from calls import ORDERS, Call, check, lines, recorded
from measure import TAPE, Bench, FailedError, Figure
from processes import Client, ours, program, python

from cassettes import write

LIVE, RIVAL = "orjson server", "mcp-rec"
_SERVER = python("programs.py", "orjson")
_SECONDS = 60
_SHARE = 0.35  # of the rate of a server that only parses and writes


def life(bench: Bench) -> None:
    """Start, handshake, N calls in turn, end of input, exit."""
    whole, large = bench.pick((1_000, 100_000), (1_000, 100_000), (20, 200))
    counts = [count for count in (1, 10, 100, 1_000) if count <= whole]
    tapes = _recordings(bench, whole)
    small, many = _recordings(bench, 10), _large(bench, large)
    cases: list[tuple[str, dict[str, str], list[Call], int]] = []
    for order, ordered in ORDERS.items():
        calls = ordered(recorded(whole))
        cases += [(f"{count:,} of {whole:,}, {order}", tapes, calls[:count], 0) for count in counts]
    cases.append(("10 of 10, recorded order", small, recorded(10), 0))
    cases.append((f"1 of {large:,}", many, recorded(1), 3))
    for name, files, calls, rounds in cases:
        bench.figures.append(Figure(name, "ms", 1.0, RIVAL))
        requests = lines(calls)
        for who in bench.rounds(rounds if rounds and bench.size == "full" else bench.pick(15, 5, 1), list(files)):
            with bench.measure(name, who):
                _live(bench, name, who, files[who], requests, calls)
    bench.say("lives measured")


def _live(bench: Bench, name: str, who: str, file: str, requests: Sequence[bytes], calls: Sequence[Call]) -> None:
    with Client(_replayer(who, file), _SECONDS) as client:
        answers = client.ask(requests)
        client.close(watch=False)
        took = perf_counter() - client.spawned
        check(answers, calls)
        bench.add(name, who, took * 1e3)


def replay(bench: Bench) -> None:
    """Requests per second, one at a time and with many in flight."""
    warm, alone, count = bench.pick((300, 4_000, 20_000), (100, 1_000, 4_000), (3, 10, 40))
    tapes = {LIVE: "", **_recordings(bench, count)}
    for order, ordered in ORDERS.items():
        for pace, ask in (("one at a time", Client.ask), ("pipelined", Client.ask_at_once)):
            figure = f"{pace}, {order}"
            bench.figures.append(Figure(figure, "requests/s", _SHARE, LIVE))
            calls = ordered(recorded(count))[: warm + alone if pace == "one at a time" else count]
            first, rest = lines(calls)[: warm + 1], lines(calls)[warm + 1 :]
            for who in bench.rounds(bench.pick(7, 3, 1), list(tapes)):
                with bench.measure(figure, who), Client(_replayer(who, tapes[who]), _SECONDS) as client:
                    check(client.ask(first), calls[:warm])
                    before = perf_counter()
                    answers = ask(client, rest)
                    took = perf_counter() - before
                    client.close()
                    check(answers, calls[warm:])
                    bench.add(figure, who, len(rest) / took)
            bench.say(figure)


def _replayer(who: str, file: str) -> list[str]:
    if who == LIVE:
        return _SERVER
    return ours("replay", "-q", file) if who == TAPE else [program(RIVAL) or RIVAL, "replay", file]


def _recordings(bench: Bench, count: int) -> dict[str, str]:
    """Recordings by contestant, made by the recorders themselves."""
    files = {}
    rival = program(RIVAL)
    for who in (TAPE, RIVAL):
        if who == RIVAL and not rival:
            bench.notes.append(f"- {RIVAL} is not installed: nothing was compared with it")
            continue
        files[who] = file = str(bench.place / f"{who}-{count}")
        command = ours("record", "-q", "-o", file) if who == TAPE else [rival or "", "record", "-o", file]
        with Client([*command, "--", *_SERVER], _SECONDS) as client:
            check(client.ask(lines(recorded(count))), recorded(count))
            client.close()
    return files


def _large(bench: Bench, count: int) -> dict[str, str]:
    """Recordings of many calls, made without running the recorders."""
    requests = lines(recorded(count))
    with Client(_SERVER, _SECONDS) as client:
        answers = client.ask_at_once(requests).splitlines(keepends=True)
        client.close()
    if len(answers) != len(requests):
        raise FailedError("the server did not answer each request")
    said = [
        (side, line)
        for request, answer in zip(requests, answers, strict=True)
        for side, line in (*(("client", each) for each in request.splitlines(keepends=True)), ("server", answer))
    ]
    files = {TAPE: str(bench.place / f"{TAPE}-large"), RIVAL: str(bench.place / f"{RIVAL}-large")}
    write(files[TAPE], ((side, line, 1) for side, line in said))
    ways = {"client": "client->server", "server": "server->client"}
    with open(files[RIVAL], "w", encoding="utf-8") as out:
        out.writelines(
            json.dumps({"ts": 0.0, "dir": ways[side], "msg": json.loads(line)}) + "\n" for side, line in said
        )
    return files if program(RIVAL) else {TAPE: files[TAPE]}

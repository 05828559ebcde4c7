"""Over HTTP: a replay compared with the SDK's server, and the recording proxy with a plain one."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from time import perf_counter, perf_counter_ns

from calls import ORDERS, WAYS, Call, Talk, Way, recorded
from http_programs import STEPS
from measure import TAPE, Bench, FailedError, Figure
from processes import Connection, Served, ask_on_all, cpu, family, open_files, ours, python, resident

SDK, PLAIN, RECORDED, SAMPLED = "mcp SDK", "plain proxy", "record", "record --sample 0%"
_SECONDS = 90
_CONNECTIONS = 8
_FASTER = 4.0  # relative to the SDK's server
_CPU, _SAMPLED_CPU = 1.25, 1.1  # relative to the plain proxy


def http(bench: Bench) -> None:
    """Requests per second: one at a time, and on eight connections."""
    warm, alone, count = bench.pick((100, 400, 1_200), (30, 150, 450), (2, 6, 24))
    cases = [(way, "recorded order") for way in WAYS] + [(WAYS[0], order) for order in list(ORDERS)[1:]]
    tapes: dict[str, str] = {}
    for way, order in cases:
        if bench.only not in f"{way.name}, {order}":
            continue
        if way.name not in tapes:
            tapes[way.name] = _recorded(bench, way, count)
        calls = ORDERS[order](recorded(count))
        one, many = f"{way.name}, {order}, one at a time", f"{way.name}, {order}, {_CONNECTIONS} connections"
        bench.figures += [Figure(name, "requests/s", _FASTER, SDK) for name in (one, many)]
        for who in bench.rounds(bench.pick(7, 3, 1), [SDK, TAPE]):
            command = ours("replay", "-q", "--listen", "127.0.0.1:0", tapes[way.name])
            with bench.measure(one, who), Served(_sdk(way) if who == SDK else command, _SECONDS) as served:
                talk = Talk(served.url, way)
                with ExitStack() as stack:
                    connections = [stack.enter_context(Connection(served.url)) for _ in range(_CONNECTIONS)]
                    talk.begin(connections[0])
                    requests = talk.requests(calls)
                    answers = [connections[0].ask(request) for request in requests[:warm]]
                    times = [perf_counter()]
                    answers += [connections[0].ask(request) for request in requests[warm : warm + alone]]
                    times.append(perf_counter())
                    answers += ask_on_all(connections, requests[warm + alone :])
                    times.append(perf_counter())
                    talk.check(answers, calls)
                served.stop()
                bench.add(one, who, alone / (times[1] - times[0]))
                bench.add(many, who, (count - warm - alone) / (times[2] - times[1]))
        bench.say(f"{way.name}, {order}")


def proxy(bench: Bench) -> None:
    """Processor time per call through a proxy, round trip, and memory of open streams."""
    count, streams = bench.pick((4_000, 1_000), (1_500, 300), (20, 20))
    for path, answer in (("/json", "JSON"), ("/sse", "SSE"), ("/progress", f"{STEPS} steps and the answer")):
        bench.figures += [
            Figure(f"CPU of a call, {answer}", "µs", _CPU, PLAIN, who=RECORDED),
            Figure(f"CPU of a call, {answer}, sampled", "µs", _SAMPLED_CPU, PLAIN, who=SAMPLED),
            Figure(f"CPU of a call, {answer}, with the recording process", "µs"),
            Figure(f"round trip, {answer}", "µs"),
        ]
        for who in bench.rounds(bench.pick(7, 3, 1), [PLAIN, RECORDED, SAMPLED]):
            _pass_through(bench, who, path, answer, count)
        bench.say(answer)
    bench.figures.append(Figure(f"memory with {streams:,} open streams", "MB"))
    with open_files(3 * streams + 100):
        for who in (PLAIN, RECORDED):
            _hold_open(bench, who, streams)


def _pass_through(bench: Bench, who: str, path: str, answer: str, count: int) -> None:
    figure = f"CPU of a call, {answer}"
    way = Way(answer, as_json=path == "/json", steps=STEPS if path == "/progress" else 0)
    with (
        bench.measure(figure, who),
        Served(python("http_programs.py", "upstream", path), _SECONDS) as server,
        Served(_proxy(bench, who, server.url), _SECONDS) as served,
        Connection(served.url) as connection,
    ):
        talk = Talk(served.url, way)
        warm = count // 10
        calls = recorded(warm + count)
        requests = talk.requests(calls)
        answers = [connection.ask(request) for request in requests[:warm]]
        alone, together = [served.process.pid], family(served.process.pid)
        spent = [cpu(alone), cpu(together)]
        times = []
        for request in requests[warm:]:
            before = perf_counter_ns()
            answers.append(connection.ask(request))
            times.append(perf_counter_ns() - before)
        one = (cpu(alone) - spent[0]) / count * 1e6
        talk.check(answers, calls)
        bench.add(figure, who, one)
        if who != RECORDED:
            bench.add(f"{figure}, sampled", who, one)
        resident(together)  # the recording process has caught up
        bench.add(f"{figure}, with the recording process", who, (cpu(together) - spent[1]) / count * 1e6)
        bench.add(f"round trip, {answer}", who, median(times) / 1e3)
        served.stop()


def _hold_open(bench: Bench, who: str, streams: int) -> None:
    figure = f"memory with {streams:,} open streams"
    with (
        bench.measure(figure, who),
        Served(python("http_programs.py", "upstream", "/streams"), _SECONDS) as server,
        Served(_proxy(bench, who, server.url), _SECONDS) as served,
        ExitStack() as stack,
    ):
        talk = Talk(served.url, WAYS[0])
        for number in range(streams):
            connection = stack.enter_context(Connection(served.url))
            connection.send(talk.stream(number + 1))
            if b"text/event-stream" not in _head(connection):
                raise FailedError("it opened no stream")
        bench.add(figure, who, resident(family(served.process.pid)))


def _head(connection: Connection) -> bytes:
    return connection.receive() or connection.unread


def _proxy(bench: Bench, who: str, url: str) -> list[str]:
    if who == PLAIN:
        return python("http_programs.py", "proxy", url)
    file = bench.place / f"{who}.db"
    for old in bench.place.glob(f"{file.name}*"):
        old.unlink()
    sample = ["--sample", "0%"] if who == SAMPLED else []
    return ours("record", "-q", "--url", url, "-o", str(file), *sample)


def _recorded(bench: Bench, way: Way, count: int) -> str:
    """Record the SDK's server."""
    file: Path = bench.place / f"{way.name}.db"
    with (
        Served(_sdk(way), _SECONDS) as live,
        Served(ours("record", "-q", "--url", live.url, "-o", str(file)), _SECONDS) as proxy,
    ):
        talk = Talk(proxy.url, way)
        with Connection(proxy.url) as connection:
            talk.begin(connection)
            calls: Sequence[Call] = recorded(count)
            talk.check([connection.ask(request) for request in talk.requests(calls)], calls)
        proxy.stop()
    return str(file)


def _sdk(way: Way) -> list[str]:
    return python("http_programs.py", "sdk", "json" if way.as_json else "stream")

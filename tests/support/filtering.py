"""Filters: a talk, the rows that each filter keeps, and filters that do not parse: one table for the command line and
the page.
"""

from __future__ import annotations

from tests.support.reading import Frames, call, message, said

TALK = (
    Frames()
    .client(message(id=1, method="initialize", params={"protocolVersion": "2025-11-25"}))
    .server(message(id=1, result={"serverInfo": {"name": "x", "version": "1"}}), at=52_000)
    .client(call(2, "search", city="Bern"), at=60_000)
    .server(message(method="notifications/message", params={"data": "Looking"}), at=61_000)
    .server(message(id=7, method="roots/list"), at=62_000)
    .client(message(id=7, result={"roots": []}), at=63_000)
    .server(said(2, "no such city", isError=True), at=160_000)
    .client(call("two", "search_all", text='Grüezi 日本 "q"' + "x" * 2000), at=170_000)
    .server(message(id="two", error={"code": -1, "message": "No"}), at=2_170_000)
    .client(message(id=4, method="ping"), at=2_200_000)
    .server(message(id=4, result={}), at=2_200_500)
    .client(call(5, "slow"), at=2_201_000)
    .client(message(method="notifications/cancelled", params={"requestId": 5}), at=2_202_000)
    .client(call(6, "never"), at=2_203_000)
    .server(b"Hello on stdout", kind="noise", at=2_204_000)
    .stderr("warning: Bern")
    .server(b"\xff\x00 bytes", channel="stderr", kind="stderr")
    .happened("client", "stdio", event="close")
)

KEEPS = [
    ("", list(range(1, 19))),
    ("  \t ", list(range(1, 19))),
    ("tool:search", [3, 7]),
    ("tool:search*", [3, 7, 8, 9]),
    ("tool:*arch", [3, 7]),
    ("tool:*", [3, 7, 8, 9, 12, 14]),
    ("tool:Search", []),
    ("tool:sear?h", []),
    ("tool:[s]earch", []),
    ("method:tools/call status:error", [3, 7, 8, 9]),
    ("status:tool-error", [3, 7]),
    ("status:rpc-error", [8, 9]),
    ("status:unanswered", [14]),
    ("status:cancelled", [12]),
    ("status:ok -method:ping", [1, 2, 5, 6]),
    ("method:notifications/*", [4, 13]),
    ("id:2", [3, 7]),
    ("id:two", [8, 9]),
    ("from:client kind:response", [6]),
    ("kind:message from:server", [2, 4, 5, 7, 9, 11]),
    ("kind:notification", [4, 13]),
    ("kind:noise", [15]),
    ("kind:stderr", [16, 17]),
    ("kind:control", [18]),
    ("dur:>50", [1, 2, 3, 7, 8, 9]),
    ("dur:>50ms dur:<1s", [1, 2, 3, 7]),
    ("dur:>=100 dur:<=100", [3, 7]),
    ("dur:51", [1, 2]),
    ("dur:2s", [8, 9]),
    ("dur:500us", [10, 11]),
    ("dur:60..1s", [3, 7]),
    ("dur:1s..", [8, 9]),
    ("dur:..0.6", [10, 11]),
    ("size:>2k", [8]),
    ("size:2000..1M", [8]),
    ("size:<=17", [15, 16, 17]),
    ("session:1 tool:never", [14]),
    ("session:>1", []),
    ("bern", [3, 16]),
    ("BERN", [3, 16]),
    ('"no such"', [7]),
    ("Grüezi", [8]),
    ("日本", [8]),
    ('"\\"q"', [8]),
    ("bytes", [17]),
    ("-kind:message -kind:stderr", [15, 18]),
    ('-"o"', [16, 17]),
    ("tool:search status:error -method:ping dur:>50", [3, 7]),
    ("-tool:* -status:ok", [4, 13, 15, 16, 17, 18]),
]  # fmt: skip

REFUSES = [
    ("tool:a metod:x", 7, "method, tool, id, from, kind, status, dur, size, session"),
    ("http://host", 0, "in quotes"),
    ("tool:", 5, "tool: needs a value"),
    ("tool: x", 5, "tool: needs a value"),
    ("a - b", 3, "leave out"),
    ("-", 1, "leave out"),
    ('x "open', 2, "closed"),
    ('tool:"a"b', 5, "closed"),
    ('tool:""', 5, "quotes"),
    ("status:bad", 7, "unanswered"),
    ("-status:bad", 8, "unanswered"),
    ("kind:thing", 5, "notification"),
    ("from:me", 5, "client, server"),
    ("dur:soon", 4, "dur:>50"),
    ("dur:>", 5, "dur:>50"),
    ("dur:>=x", 6, "dur:>50"),
    ("dur:1..x", 7, "dur:>50"),
    ("dur:..", 4, "dur:>50"),
    ("size:10q", 5, "size:>10k"),
    ("session:x", 8, "session:2"),
    ("session:1.5", 8, "session:2"),
    ("dur:-5", 4, "dur:>50"),
    ("tool:\udcff", 5, "UTF-8"),
    ("x" * 20_000, 10_000, "longer"),
]

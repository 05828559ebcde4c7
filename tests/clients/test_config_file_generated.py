"""Generated JSON with comments, and TOML: a round trip changes nothing, a repeat has no effect, only the entry
differs."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mcp_tape.clients.table import BY_NAME
from tests.support.configs import can_be_wrapped, of_text, parsed, server, unwrapped, without, wrapped
from tests.support.fuzzing import examples

EXAMPLES = examples(150, suppress_health_check=[HealthCheck.too_slow])
SPACE = st.sampled_from(
    ["", "", "", " ", "  ", "\t", "\n", "\r\n", "\n    ", "/* c */", " // l\n", "/*,]}*/ ", '//"[{\r\n']
)
# Letters with a meaning elsewhere, escapes and unusual characters.
WORD = st.text(st.sampled_from("ab/*,:[]{}\"\\\n\té日😀\x7f#' ="), max_size=6)
NAME = st.sampled_from(["a", "b", "command", "args", "mcpServers", "x y", "é", 'q"', ""])


@st.composite
def string(draw: st.DrawFn, words: st.SearchStrategy[str] = WORD) -> str:
    return json.dumps(draw(words), ensure_ascii=draw(st.booleans()))


@st.composite
def joined(draw: st.DrawFn, brackets: str, parts: list[str]) -> str:
    """A list or an object with spaces and comments anywhere, and perhaps a trailing comma."""
    text = brackets[0] + draw(SPACE)
    for index, part in enumerate(parts):
        text += part + draw(SPACE)
        if index < len(parts) - 1 or draw(st.booleans()):
            text += "," + draw(SPACE)
    return text + brackets[1]


@st.composite
def pair(draw: st.DrawFn, key: str, value: str) -> str:
    return f"{json.dumps(key)}{draw(SPACE)}:{draw(SPACE)}{value}"


@st.composite
def list_of(draw: st.DrawFn, items: st.SearchStrategy[str]) -> str:
    return draw(joined("[]", draw(st.lists(items, max_size=4))))


@st.composite
def object_of(draw: st.DrawFn, values: st.SearchStrategy[str]) -> str:
    names = draw(st.lists(NAME, max_size=3))  # including duplicates
    return draw(joined("{}", [draw(pair(name, draw(values))) for name in names]))


ANY = st.recursive(
    string() | st.sampled_from(["1", "-0.5e3", "true", "null"]),
    lambda inner: list_of(inner) | object_of(inner),
    max_leaves=6,
)


@st.composite
def entry(draw: st.DrawFn) -> str:
    members = [
        draw(pair(draw(st.sampled_from(["env", "type", "x"])), draw(ANY))) for _ in range(draw(st.integers(0, 2)))
    ]
    if draw(st.booleans()):
        members.append(draw(pair("command", draw(joined("[]", draw(st.lists(string(), min_size=1, max_size=3)))))))
    else:
        members.append(draw(pair("command", draw(string()))))
        if draw(st.booleans()):
            members.append(draw(pair("args", draw(list_of(string())))))
    return draw(joined("{}", draw(st.permutations(members))))


@st.composite
def jsonc(draw: st.DrawFn) -> str:
    servers = draw(object_of(entry() | ANY))
    members = [draw(pair(draw(NAME), draw(ANY))) for _ in range(draw(st.integers(0, 2)))]
    parts = draw(st.permutations([*members, draw(pair("mcpServers", servers))]))
    return draw(st.sampled_from(["", "\ufeff"])) + draw(SPACE) + draw(joined("{}", parts)) + draw(SPACE)


# TOML ---------------------------------------------------------------------------------------------------

LINE = st.sampled_from(["\n", "\r\n"])
BLANK = st.sampled_from(["", "", " ", "\t", "  "])
INSIDE = st.sampled_from(["", " ", "\n", "\n  ", " # c ]\n", "\t"])


@st.composite
def toml_string(draw: st.DrawFn) -> str:
    kind = draw(st.sampled_from(["basic", "literal", "lines", "raw lines"]))
    plain = draw(st.text(st.sampled_from("ab/#[]{}=,. é😀"), max_size=5))
    return {
        "basic": json.dumps(draw(WORD), ensure_ascii=False).replace("\x7f", "\\u007f"),
        "literal": f"'{plain}\\\"'",
        "lines": f'"""\n{plain}\\"""""',
        "raw lines": f"'''{plain}\n'a\\'''",
    }[kind]


@st.composite
def toml_list(draw: st.DrawFn) -> str:
    text, items = "[" + draw(INSIDE), draw(st.lists(toml_string(), max_size=3))
    for index, item in enumerate(items):
        text += item + draw(INSIDE) + ("," + draw(INSIDE) if index < len(items) - 1 or draw(st.booleans()) else "")
    return text + "]"


@st.composite
def toml_server(draw: st.DrawFn, name: str) -> str:
    command, args = draw(toml_string()), draw(st.none() | toml_list())
    values = [("command", command), *([("args", args)] if args else []), ("odd", "{ a.b = [ {c = 1} ], d = '}' }")]
    values = list(draw(st.permutations(values)))
    key = name if name.isalnum() else json.dumps(name, ensure_ascii=False)
    form = draw(st.sampled_from(["table", "dotted", "inline"]))
    if form == "inline":
        flat = [(name, value) for name, value in values if name != "args" or "#" not in value]
        inner = ", ".join(f"{name} = {value}" for name, value in flat)
        return (
            f"[mcp_servers]\n{key} = {{ {inner} }}\n" if draw(st.booleans()) else f"mcp_servers.{key} = {{{inner}}}\n"
        )
    prefix = f"mcp_servers . {key}." if form == "dotted" else ""
    head = "" if form == "dotted" else f"[ mcp_servers.{key} ] # head\n"
    lines = [
        f"{draw(BLANK)}{prefix}{one}{draw(BLANK)}={draw(BLANK)}{value}{draw(st.sampled_from(['', ' # c']))}"
        for one, value in values
    ]
    return head + "".join(line + "\n" for line in lines)


@st.composite
def toml(draw: st.DrawFn) -> str:
    body = draw(toml_server(draw(st.sampled_from(["a", "b c", "é"]))))
    before = draw(st.sampled_from(["", "# first\n", 'x = "[y]"\n', "at = 1979-05-27 07:32:00 # then\n"]))
    behind = draw(
        st.sampled_from(["", '[mcp_servers.other]\ncommand = "o"\n', "[[more]]\nx = 1\n[more.sub]\ny = 2\n[[more]]\n"])
    )
    text = before + body + behind
    return draw(st.sampled_from(["", "\ufeff"])) + (text.replace("\n", "\r\n") if draw(st.booleans()) else text)


def expect_there_and_back(text: str, client: str) -> None:
    found = of_text(text, client)
    row = BY_NAME[client]
    for name in can_be_wrapped(found):
        if server(found, name).is_wrapped:
            continue
        new = wrapped(found, name)
        assert wrapped(new, name).text == new.text != text
        assert unwrapped(new, name).text == text
        way = (*found.way, name)
        assert without(parsed(new.text, row), way) == without(parsed(text, row), way)


@EXAMPLES
@given(jsonc())
def test_generated_json_with_comments_comes_back_to_the_byte(text: str) -> None:
    parsed(text, BY_NAME["cursor"])  # the expected content
    expect_there_and_back(text, "cursor")


@EXAMPLES
@given(toml())
def test_generated_toml_comes_back_to_the_byte(text: str) -> None:
    try:
        parsed(text, BY_NAME["codex"])
    except ValueError:  # a duplicate inline table, or one that is extended
        return
    expect_there_and_back(text, "codex")


@pytest.mark.parametrize("client", ["cursor", "codex"])
@pytest.mark.slow
def test_the_generators_make_servers_that_can_be_wrapped(client: str) -> None:
    """Otherwise the other tests would test nothing."""
    seen = []

    @settings(max_examples=50, database=None, derandomize=True)
    @given(jsonc() if client == "cursor" else toml())
    def look(text: str) -> None:
        try:
            seen.append(len(list(can_be_wrapped(of_text(text, client)))))
        except ValueError:
            seen.append(0)

    look()
    assert sum(map(bool, seen)) > len(seen) / 5

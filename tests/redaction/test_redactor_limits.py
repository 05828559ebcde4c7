"""Properties for every text: the quick check misses nothing, redaction is idempotent and bounded, other text stays."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from mcp_tape.redaction import hiding_rules, shapes
from mcp_tape.redaction.redactor import RedactedText, Redactor
from mcp_tape.wire import jsontext, match, protocol, secret_names
from mcp_tape.wire.jsonpath import JsonPath
from mcp_tape.wire.secret_names import MARK
from tests.redaction.test_redactor import TOKEN, message
from tests.support.running import python


class Thorough(Redactor):
    """Always makes the full check, never the quick one."""

    def _look(self, text: bytes, names_only: bool = False) -> Any:
        return self._rules(shapes.ALL, True)


class Labelling(Redactor):
    """Always makes the full check for names of neighbours, never the quick one."""

    def _may_label(self, *_: Any) -> bool:
        return True


PLAIN = st.text("abcxyz 0189-_.:=\"'\\/{}[]\n\u00e9\u20ac<>&%", max_size=12)
SECRETS = st.sampled_from(
    [TOKEN, "kJ8mN2pQ4", "AK" + "IAFAKEFAKEFAKE2345", "postgres://u:kJ8mN2pQ4@h", "Bearer kJ8mN2pQ4"]
)
NAMES = st.sampled_from(
    ["password", "API_KEY", "x", "token", "progressToken", "name", "value", "id", "pwd", "inputSchema"]
)
GLUE = st.sampled_from(
    ["", "=", ": ", '="', '": "', " ", "\\n", "--", "://", "-----BEGIN PRIVATE KEY-----", "[redacted:x]"]
)
TEXTS = st.lists(PLAIN | SECRETS | NAMES | GLUE, max_size=8).map("".join)
DOCUMENTS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(NAMES | PLAIN, inner, max_size=4) | inner.map(json.dumps)
    ),
    max_leaves=12,
)
ENVIRON = {"X_TOKEN": "kJ8mN2pQ4", "Y_PASSWORD": 'qu"ote\\1x'}
SPELL = st.sampled_from(
    [
        json.dumps,
        lambda value: json.dumps(value, ensure_ascii=False, indent=1).replace("/", "\\/"),
        lambda value: (
            json.dumps(value).replace("e", "\\u0065").replace("tru\\u0065", "true").replace("fals\\u0065", "false")
        ),
    ]
)


def wire(spell: Any, document: Any) -> bytes:
    text: bytes = spell({"document": document}).encode()
    try:
        json.loads(text)
        return text
    except ValueError:  # the e of a number
        return json.dumps({"document": document}).encode()


@given(SPELL, DOCUMENTS)
def test_the_quick_look_misses_nothing_in_json(spell: Any, document: Any) -> None:
    text = wire(spell, document)
    assert Redactor(ENVIRON).redact(text) == Thorough(ENVIRON).redact(text)


@given(TEXTS)
def test_the_quick_look_misses_nothing_in_running_text(text: str) -> None:
    assert Redactor(ENVIRON).redact(text.encode()) == Thorough(ENVIRON).redact(text.encode())


@given(SPELL, DOCUMENTS)
@example(json.dumps, [{"name": "token", "value": "kJ8mN2pQ4"}, {"value": "kJ8mN2pQ4", "header": "X-Api-Key"}])
@example(json.dumps, [{"n\\u0061me": "token", "value": "kJ8mN2pQ4"}])
@example(json.dumps, ["--token", "kJ8mN2pQ4", "x"])
@example(json.dumps, ["a,", ",apikey", "kJ8mN2pQ4"])
@example(lambda value: json.dumps(value).replace("key", "k\\u0065y"), {"key": "token", "value": "kJ8mN2pQ4"})
@example(lambda value: json.dumps(value).replace("token", "t\\u006fken"), {"name": "token", "value": "kJ8mN2pQ4"})
@example(json.dumps, {"key": "x" * 91 + "api_key", "value": "kJ8mN2pQ4"})  # the longest possible name
@example(json.dumps, ["-mcp-param-token", "kJ8mN2pQ4"])
def test_the_quick_look_misses_no_name_of_a_neighbour(spell: Any, document: Any) -> None:
    text = wire(spell, document)
    assert Redactor({}).redact(text) == Labelling({}).redact(text)


@given(SPELL, DOCUMENTS, st.booleans())
@example(json.dumps, {"x": "\u212a 12345678/abc"}, False)
def test_the_quick_check_misses_no_seen_value(spell: Any, document: Any, many: bool) -> None:
    quick, thorough = Redactor({}), Thorough({})
    seen = ["kJ8mN2pQ4", "12345678/abc", 'qu"ote\\1x', *([f"{n}-seen-{n}" for n in range(100)] if many else [])]
    for redactor in (quick, thorough):
        redactor.redact(json.dumps({"token": seen}).encode())
    text = wire(spell, document)
    assert quick.redact(text) == thorough.redact(text)


@pytest.mark.slow
def test_one_letter_beyond_ascii_is_one_of_ascii_in_lower_case() -> None:
    assert [letter for letter in map(chr, range(128, 0x110000)) if letter.lower().isascii()] == ["\u212a"]


def without_z(text: str) -> str:
    return text.replace("z", "[redacted:z]")


# Rules of a user, each alone: together, one rule would hide what another misses.
OWN: list[dict[str, Any]] = [
    {"keys": ["x"]},
    {"keys": ["Na_me"]},
    {"keys": ["\u00e9"]},
    {"keys": ["a/b"]},
    {"paths": ["$.document.name"]},
    {"paths": ["$..value"]},
    {"paths": ["$.document[0]"]},
    {"paths": ["$.document['a/b'].x"]},
    {"values": ["^a"]},
    {"values": ["c$"]},
    {"values": [r"(?<!\w)x|0+1"]},
    {"values": ['"']},
    {"values": ["\u00e9"]},
    {"functions": [without_z]},
]


@given(SPELL, DOCUMENTS, st.sampled_from(OWN))
@example(json.dumps, {"n": "abc"}, {"values": ["^a"]})
@example(json.dumps, '{"n": "abc"}', {"values": ["^a"]})
@example(json.dumps, {"\u00e9": "v"}, {"keys": ["\u00e9"]})
@example(json.dumps, {"\u00e9": "v"}, {"paths": ["$.document['\u00e9']"]})
@example(json.dumps, {"n": "[redacted:x]abc"}, {"values": ["^a"]})  # placeholders divide a text
@example(json.dumps, 'say {"n": "x"} abc', {"values": ["^ a"]})  # and so does JSON in a text
@example(json.dumps, {"\u212a": "v"}, {"keys": ["k"]})  # a Kelvin sign, in lower case
@example(json.dumps, json.dumps({"\u212a": "v"}), {"keys": ["k"]})
@example(lambda value: json.dumps(value, ensure_ascii=False), {"\u212a": "v"}, {"keys": ["k"]})
@example(json.dumps, {"X": "v"}, {"keys": ["x"]})
@example(json.dumps, {"N-A_m.e ": "v"}, {"keys": ["Na_me"]})
def test_the_quick_look_misses_nothing_of_the_users_own_in_json(spell: Any, document: Any, own: dict[str, Any]) -> None:
    text = wire(spell, document)
    assert Redactor({}, **own).redact(text) == Thorough({}, **own).redact(text)


@given(TEXTS, st.sampled_from(OWN))
@example("name=kJ8mN2pQ4", {"keys": ["Na_me"]})
def test_the_quick_look_misses_nothing_of_the_users_own_in_running_text(text: str, own: dict[str, Any]) -> None:
    assert Redactor({}, **own).redact(text.encode()) == Thorough({}, **own).redact(text.encode())


@pytest.mark.parametrize(
    "text",
    [
        '{"a":"x","a":"y"}',  # parsers keep only one
        '{"a":"x"',
        ' \n[{"b":"x"}]',
        ' ["x",{"b":1}]',
        '{"a":"\ud800x"}',
        '{"a":"' + "A" * 70_000 + '","b":"x"}',
        '{"a":"' + "A" * 70_000 + 'x"}',
        "[" * 300 + '"x"' + "]" * 300,
        "[" * 300 + '"x"',
        '{"a":"\x01x"}',
        "x\udcff",
        "{x} [x]",
    ],
)
@pytest.mark.parametrize("own", [{"values": ["x"]}, {"values": ["^x$"]}, {"keys": ["a"]}, {"paths": ["$.a"]}], ids=str)
def test_the_quick_look_misses_nothing_in_odd_texts(text: str, own: dict[str, Any]) -> None:
    raw = text.encode("utf-8", "surrogateescape" if "\udcff" in text else "surrogatepass")
    assert Redactor({}, **own).redact(raw) == Thorough({}, **own).redact(raw)


@pytest.mark.parametrize("end", ['"', "", '"' + "]" * 300])
def test_deeply_nested_text_that_may_not_be_json_is_checked(end: str) -> None:
    text = "[" * 300 + '{"password":"kJ8mN2pQ4' + end
    assert b"kJ8mN2pQ4" not in Redactor({}).redact(text.encode()).text


@pytest.mark.parametrize(
    "name", ["password", "\\u0070assword", "\\u005cu0070assword", "\\u005c\\u005c\\u0075005cu0070assword"]
)
def test_an_escaped_backslash_hides_nothing(name: str) -> None:
    inner = f'{{\\"{name}\\":\\"kJ8mN2pQ4\\"}}'
    text = f'{{"a":"{inner}"}}'.encode()
    assert Redactor({}).redact(text) == Thorough({}).redact(text)


SLOW: list[dict[str, Any]] = [{"keys": ["\u00e9"]}, {"keys": ["a/b"]}, {"paths": ["$.document[0]"]}]


@pytest.mark.parametrize("own", [own for own in OWN if own not in SLOW])
def test_a_text_without_signs_of_the_users_rules_is_not_checked_closely(own: dict[str, Any]) -> None:
    class Quick(Redactor):
        def _static(self, *_: Any) -> str | None:
            raise AssertionError("a closer look")

    assert Quick({}, **own).redact(b'{"k":"m n","o":{"p":["q",1,"{\\"r\\": 2}"]}}').hidden == 0


@settings(suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
@given(st.data())
def test_the_quick_look_misses_no_token(data: st.DataObject) -> None:
    shape = data.draw(st.sampled_from(shapes.ALL))
    token = data.draw(st.from_regex(shapes.compile_shape(shape), fullmatch=True))
    assume("\\" not in token)  # escaped text is checked unescaped
    text = token.encode("utf-8", "surrogatepass")
    assert shape in shapes.hinted_shapes(text, secret_names.may_name_secrets(text))


@given(SPELL, DOCUMENTS)
def test_redacting_twice_changes_nothing_more(spell: Any, document: Any) -> None:
    once = Redactor(ENVIRON).redact(wire(spell, document)).text
    assert Redactor(ENVIRON).redact(once) == RedactedText(once, once, 0)


@given(TEXTS)
@example('password="a{b1c2d3" {"token": "x"}')
def test_redacting_a_text_twice_changes_nothing_more(text: str) -> None:
    once = Redactor(ENVIRON).redact(text.encode()).text
    assert Redactor(ENVIRON).redact(once) == RedactedText(once, once, 0)


@given(SPELL, DOCUMENTS)
def test_all_but_the_replaced_strings_stays_verbatim(spell: Any, document: Any) -> None:
    before = wire(spell, document).decode()
    after = Redactor(ENVIRON).redact(before.encode()).text.decode()
    json.loads(after)
    old, new = list(jsontext.values(before, sys.maxsize)), list(jsontext.values(after, sys.maxsize))
    assert [path for path, *_ in old] == [path for path, *_ in new]
    assert outside_strings(before) == outside_strings(after)
    for (_, start, end), (_, begin, stop) in zip(old, new, strict=True):
        if before[start] == '"' and before[start:end] != after[begin:stop]:
            assert MARK in after[begin:stop]


class ByPath(Redactor):
    """Finds neighbours and places by their whole paths, written out for each value."""

    def _labelled(self, source: str, values: Any) -> dict[int, str]:
        labels: dict[jsontext.Path, str] = {}
        found = list(jsontext.values(source, sys.maxsize))
        for path, start, end in found:
            word = json.loads(source[start:end]) if source[start] == '"' else ""
            named = path[-1:] and len(word) <= 98 and self._names[word.lstrip("-")]
            if named and path[-1] in ("name", "key", "header"):
                labels[(*path[:-1], "value")] = word
            elif named and (path[-1] == 0 or (isinstance(path[-1], int) and secret_names.is_flag(word))):
                labels[(*path[:-1], int(path[-1]) + 1)] = word
        return {start: labels[path] for path, start, _ in found if path in labels}

    def _hide_places(self, source: str) -> str:
        splices = []
        for path, start, end in jsontext.values(source, sys.maxsize):
            inner = path[1:] if path and isinstance(path[0], int) else path
            names = tuple(step for step in path if isinstance(step, str))
            fits = [place for place in PLACES if JsonPath(place)(inner)]
            if fits and names not in protocol.UNTOUCHED:
                splices.append((start, end, json.dumps(f"[redacted:path:{fits[0].replace(']', '_')}]")))
        return jsontext.splice(source, splices)


PLACES = ["$.params..name", "$..value", "$[0]", "$.x.*", "$.id"]


@given(DOCUMENTS, st.booleans(), st.booleans())
@example([{"name": "token", "value": "kJ8mN2pQ4"}, [["x", "--token", "kJ8mN2pQ4"]]], False, False)
@example({"x": {"value": "kJ8mN2pQ4"}}, True, True)
def test_places_equal_their_paths(document: Any, own: bool, batch: bool) -> None:
    params = {"jsonrpc": "2.0", "id": "i", "params": document, "value": [document]}
    text = json.dumps([params, [params]] if batch else params)
    for source in (text, text.replace('"name"', '"value"')):  # including duplicate keys
        paths = PLACES if own else []
        expected = ByPath({}, paths=paths).redact(source.encode())
        assert Redactor({}, paths=paths).redact(source.encode()) == expected


def outside_strings(text: str) -> str:
    """A JSON text without its string values; keys stay."""
    spans = jsontext.walk(text, 0, lambda *_: 0)
    return jsontext.splice(text, [(start, end, "") for _, start, end in spans if text[start] == '"'])


@given(
    st.sampled_from(sorted(secret_names.SECRET_KEYS)),
    st.text(min_size=1),
    st.dictionaries(st.sampled_from("abc"), st.integers()),
)
def test_a_request_has_the_same_key_with_and_without_redaction(key: str, secret: str, more: dict[str, int]) -> None:
    text = message(arguments={**more, "deep": [{key: secret}]}).encode()
    keys = {match.request_key("tools/call", json.loads(t)["params"]) for t in (text, Redactor({}).redact(text).matched)}
    assert len(keys) == 1


@given(st.lists(DOCUMENTS, max_size=3), DOCUMENTS)
def test_match_keys_do_not_depend_on_seen_values(earlier: list[Any], document: Any) -> None:
    redactor = Redactor({})
    for seen in earlier:
        redactor.redact(json.dumps({"token": seen}).encode())
    text = json.dumps({"document": document}).encode()
    assert redactor.redact(text).matched == Redactor({}).redact(text).matched


# --- time ---

BOUND = 30  # seconds of processor time; anything worse than linear takes hours
WITHIN = f"import resource\nresource.setrlimit(resource.RLIMIT_CPU, ({BOUND}, {BOUND}))\n"


def ends_in_time(program: str, *arguments: str) -> None:
    subprocess.run([*python(WITHIN + program), *arguments], check=True, timeout=20 * BOUND)


SHAPES_AT_LENGTH = """
from mcp_tape.redaction import hiding_rules, shapes
SIZE = 800_000
def repeated(text): return (text * (SIZE // len(text) + 1))[:SIZE]
for shape in %s:
    hide = hiding_rules.shape_rule(shape)
    sign = shape.signs.split()[0]
    for text in (repeated(sign + "aA1-"), sign + repeated("a")):
        hide(text)
"""


@pytest.mark.slow
@pytest.mark.parametrize("part", range(8))
def test_no_shape_takes_more_than_linear_time(part: int) -> None:
    shapes_of_part = f"shapes.ALL[{part}::8]"
    ends_in_time(SHAPES_AT_LENGTH % shapes_of_part)


TEXTS_AT_LENGTH = """
import json, sys
from mcp_tape.redaction.redactor import Redactor
SIZE = 400_000
for piece in json.loads(sys.argv[1]):
    text = (piece * (SIZE // len(piece) + 1))[:SIZE]
    for whole in (text, json.dumps({"token": "x", "text": text})):
        Redactor({"X_TOKEN": "kJ8mN2pQ4"}).redact(whole.encode(), "stderr")
    Redactor({}, keys=["own"], paths=["$..own"], values=["ow+n"]).redact(json.dumps({"x": text[: SIZE // 4]}).encode())
"""
PIECES = [
    "token=", 'token="', "token='token=\"", 'token=\\"', "password:", "password: ", "--token ", "<password>",
    "API_KEY=abc", "API_KEY=\n", "\\", "\\\\u0041", "a.b=", "ab cd ", "{", "[", '{"a":', "]", "[redacted:",
    "[redacted:key:x]", "-----BEGIN PRIVATE KEY-----", "-----BEGIN A B C ", "Cookie: a=b", "Bearer ",
    "Authorization: Basic ", "://a:b", "://a:b@", " -u a:", "=", "kJ8mN2pQ4",
]  # fmt: skip


@pytest.mark.slow
def test_no_text_takes_more_than_linear_time() -> None:
    ends_in_time(TEXTS_AT_LENGTH, json.dumps(PIECES))


def test_a_secret_behind_each_secret_takes_a_bounded_number_of_passes() -> None:
    passes = []

    def first_letter(text: str) -> str:
        passes.extend([text] if text else [])
        return text.replace("x", "[redacted:x]", 1)

    assert hiding_rules.settle("x" * 30, [first_letter]) == "[redacted:x]" * 30
    assert hiding_rules.settle("x" * 5_000, [first_letter]) == "[redacted:failed]"
    assert len(passes) < 1_000


@pytest.mark.slow
def test_of_many_tokens_without_anything_between_them_nothing_is_kept() -> None:
    token = "1/1234567890:" + "0123456789abcdef" * 2
    for times in (1, 50, 2_000):
        assert b"1234567890" not in Redactor({}).redact((token * times).encode()).text
        assert b"1234567890" not in Redactor({}).redact(json.dumps({"x": token * times}).encode()).text


DEEP = """
from mcp_tape.wire import frames, match
from mcp_tape.redaction.redactor import Redactor
DEPTH = 80_000
for before, inner, after in (("[", "[]", "]"), ('{"a":', '{"password":"kJ8mN2pQ4"}', "}")):
    params = before * DEPTH + inner + after * DEPTH
    text = ('{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":%s}}' % params).encode()
    redacted = Redactor({}, paths=["$..b..c", "$.params.pin"]).redact(text)
    assert redacted.hidden == ("password" in inner)
    kind, (message,) = frames.parse(redacted.text)
    match.message_key(message, redacted.text)
"""


@pytest.mark.slow
def test_depth_takes_no_more_than_linear_time() -> None:
    ends_in_time(DEEP)


LARGE = """
import base64, os
from mcp_tape.redaction.redactor import Redactor
data = base64.b64encode(os.urandom(750_000) * 100)
for name, count in ((b"size", 0), (b"token", 1)):
    text = b'{"jsonrpc":"2.0","id":1,"result":{"type":"image","data":"' + data + b'","' + name + b'":"x"}}'
    redacted = Redactor({"X_TOKEN": "kJ8mN2pQ4"}).redact(text)
    assert redacted.hidden == count and data in redacted.text
"""


@pytest.mark.slow
def test_a_message_of_100_mb_with_a_picture_is_no_obstacle() -> None:
    ends_in_time(LARGE)

"""Hidden values with the rules that find them, and values that stay: the redactor alone."""

from __future__ import annotations

import json
from random import Random
from string import ascii_letters
from typing import Any

import pytest

from mcp_tape.record.tape import Tape
from mcp_tape.redaction import hiding_rules
from mcp_tape.redaction.redactor import FAILED, Redactor
from mcp_tape.wire import protocol, secret_names
from mcp_tape.wire.frames import Frame
from mcp_tape.wire.secret_names import PLACEHOLDER

TOKEN = "gh" + "p_" + "0Fake1" * 6


def redacted(text: str, **options: Any) -> str:
    return Redactor(options.pop("environ", {}), **options).redact(text.encode()).text.decode()


def message(**params: Any) -> str:
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "x", **params}})


# --- names ---


@pytest.mark.parametrize(
    "name",
    "api_key apiKey API-KEY x-api-key openai_api_key Password db_password token access_token refreshToken clientSecret "
    "authorization Proxy-Authorization cookie Set-Cookie aws_secret_access_key private_key GITHUB_TOKEN PAT".split(),
)
def test_a_string_under_a_secret_key_is_hidden_and_the_placeholder_names_the_key(name: str) -> None:
    assert json.loads(redacted(json.dumps({"a": {name: "x"}}))) == {"a": {name: f"[redacted:key:{name}]"}}


@pytest.mark.parametrize(
    "name",
    "progressToken maxTokens nextPageToken continuation_token tokenCount tokenizer token_type secretName "
    "password_hint reset_password hasApiKey get_access_token keyId public_key PUBLIC_KEY PAGE_TOKEN author".split(),
)
def test_a_name_that_only_resembles_a_secret_ones_hides_nothing(name: str) -> None:
    text = json.dumps({name: "some-Value-17"})
    assert redacted(text) == text


def test_the_quick_look_knows_every_secret_name() -> None:
    for name in secret_names.SECRET_KEYS | secret_names.AMBIGUOUS_KEYS | set(secret_names.ENDINGS):
        for spelled in (name, name.upper(), "-".join(name), f"my_{name}"):
            assert secret_names.may_name_secrets(f'{{"{spelled}":1}}'.encode()), spelled


def test_a_personal_access_token_is_one_in_capitals_only() -> None:
    assert secret_names.is_hidden_key("PAT") and secret_names.is_secret_env("PAT")
    assert not secret_names.is_hidden_key("pat") and not secret_names.is_secret_key("PAT")  # nor in match keys
    assert secret_names.may_name_secrets(b'{"PAT": "x"}')


@pytest.mark.parametrize("name", ["X_KEY", "MY_PAT", "SENTRY_DSN", "API_KEYS", "PGPASSWORD", "NPM_AUTHTOKEN"])
def test_the_quick_look_knows_the_names_of_variables(name: str) -> None:
    assert secret_names.is_secret_key(name)
    assert secret_names.may_name_secrets(f"{name}=1".encode())


def test_under_a_secret_key_only_strings_are_hidden_and_those_directly_in_a_list() -> None:
    document = {"token": ["a", 1, {"kind": "b"}, None], "password": {"min": "c"}, "secret": 5, "api_key": ""}
    hidden = json.loads(redacted(json.dumps(document)))
    assert hidden == document | {"token": ["[redacted:key:token]", 1, {"kind": "b"}, None]}


@pytest.mark.parametrize("key", sorted(protocol.SCHEMA_KEYS))
def test_names_mean_nothing_in_a_json_schema_but_tokens_do(key: str) -> None:
    schema = {"properties": {"password": {"default": "x1-y2-z3"}}, "default": {"token": "abc-123-def"}, "title": "k"}
    assert redacted(json.dumps({"result": {key: schema}})) == json.dumps({"result": {key: schema}})
    assert TOKEN not in redacted(json.dumps({"result": {key: schema | {"examples": [TOKEN]}}}))


@pytest.mark.parametrize("path", sorted(protocol.UNTOUCHED, key=str), ids=".".join)
def test_values_that_the_protocol_needs_are_never_touched(path: tuple[str, ...]) -> None:
    document: Any = TOKEN
    for step in reversed(path):
        document = {step: document}
    text = json.dumps(document | {"more": {"token": "x"}})
    here = "$" + "".join(f"['{step}']" for step in path)
    changed = json.loads(redacted(text, environ={"A_TOKEN": TOKEN}, paths=[here], values=["."]))
    for step in path:
        changed = changed[step]
    assert changed == TOKEN
    assert TOKEN not in Redactor({}).redact(json.dumps(document).encode(), "stderr").text.decode()


def test_keys_are_never_touched() -> None:
    assert redacted(json.dumps({TOKEN: 1})) == json.dumps({TOKEN: 1})


@pytest.mark.parametrize("value", ["${TOKEN}", "<token>", "your-api-key", "***", "{{ token }}", "none"])
def test_a_mask_or_example_is_not_a_secret(value: str) -> None:
    text = json.dumps({"token": value})
    assert redacted(text) == text


@pytest.mark.parametrize(("value", "hides"), [("/home/bob/src", False), ("include", False), ("x1!y2-z3", True)])
def test_under_an_ambiguous_key_the_value_decides(value: str, hides: bool) -> None:
    for name in ("pwd", "credentials"):
        assert (value not in redacted(json.dumps({name: value}))) is hides


def test_a_placeholder_stays_whatever_it_names() -> None:
    for source in ("x" * 300, "a]b\r\n"):
        assert PLACEHOLDER.fullmatch(hiding_rules.mark(source))


# --- the environment, and values seen before ---


@pytest.mark.parametrize("name", "GITHUB_TOKEN AWS_SECRET_ACCESS_KEY DB_PASSWORD PGPASSWORD SENTRY_DSN X_KEY".split())
def test_the_value_of_a_secret_variable_is_hidden_by_its_name(name: str) -> None:
    assert redacted("it is kJ8-mN2-pQ4!", environ={name: "kJ8-mN2-pQ4"}) == f"it is [redacted:env:{name}]!"


@pytest.mark.parametrize(
    ("name", "value"),
    [("HOME", "kJ8-mN2-pQ4"), ("X_TOKEN", "short"), ("X_KEY", "production"), ("X_KEY", "/run/secrets/key-1"),
     ("X_TOKEN", "20240101"), ("PUBLIC_KEY", "kJ8-mN2-pQ4"), ("PWD", "kJ8-mN2-pQ4")],
)  # fmt: skip
def test_other_variables_words_paths_and_numbers_are_not(name: str, value: str) -> None:
    assert redacted(f"it is {value}", environ={name: value}) == f"it is {value}"


@pytest.mark.parametrize("value", ['quo"te\\back-1', "schlüssel-1", "sla/sh+plus=", "two\nlines-1", "\ud83d half-1"])
def test_a_known_value_is_found_however_it_is_spelled(value: str) -> None:
    environ = {"X_TOKEN": value}
    for spelled in (
        json.dumps(value),
        json.dumps({"a": json.dumps([value])}),
        json.dumps({"a": value}).replace("/", r"\/"),
    ):
        document = f'{{"x":{spelled}}}'
        assert "[redacted:env:X_TOKEN]" in redacted(document, environ=environ)
    assert "env:X_TOKEN" in redacted(f"broken {json.dumps(value)}", environ=environ)


def test_a_value_seen_under_a_key_is_hidden_later_but_not_in_match_keys() -> None:
    redactor = Redactor({})
    redactor.redact(message(arguments={"password": "kJ8-mN2-pQ4"}).encode())
    later = redactor.redact(message(arguments={"q": "is kJ8-mN2-pQ4 right?"}).encode())
    assert b"is [redacted:key:password] right?" in later.text
    assert later.matched == message(arguments={"q": "is kJ8-mN2-pQ4 right?"}).encode()
    assert redactor.redact(b"debug kJ8-mN2-pQ4", "stderr").text == b"debug [redacted:key:password]"


@pytest.mark.parametrize(
    ("said", "repeated"),
    [
        ('{"authorization": "Bearer kJ8-mN2-pQ4"}', "kJ8-mN2-pQ4"),
        ('{"Authorization": "Basic YWRhOmtKOC1tTjItcFE0"}', "kJ8-mN2-pQ4"),
        ('{"cookie": "theme=dark; sid=kJ8-mN2-pQ4"}', "kJ8-mN2-pQ4"),
        ("> Authorization: Bearer kJ8-mN2-pQ4", "kJ8-mN2-pQ4"),
        ("DB_PASSWORD=XjRKcwefUgtu", "XjRKcwefUgtu"),
    ],
)
def test_a_seen_value_is_hidden_later_without_the_text_around_it(said: str, repeated: str) -> None:
    redactor = Redactor({})
    redactor.redact(said.encode())
    assert repeated.encode() not in redactor.redact(f"never heard of {repeated}".encode(), "stderr").text


@pytest.mark.parametrize("known", [0, 300])
@pytest.mark.parametrize(
    ("value", "spelled"),
    [
        ("kJ8-mN2/pQ4", r"\u006bJ8-mN2/pQ4"),
        ("kJ8-mN2/pQ4", r"kJ8-mN2\/pQ4"),
        ("kJ8-mN2/pQ4", r"k\u004A8-mN2\u002fpQ4"),
        ("kJ8-mN2/pQ4", r"a kJ8-mN2/pQ4 token"),
        ("schl\u00fcssel-1", r"schl\u00FCssel-1"),
        ("two\nlines-1", r"two\u000Alines-1"),
    ],
)
def test_a_value_seen_under_a_key_is_hidden_later_however_it_is_escaped(value: str, spelled: str, known: int) -> None:
    redactor = Redactor({}, most_seen=1_000)
    for seen in [value, *(f"{number}-other-{number}" for number in range(known))]:
        redactor.redact(json.dumps({"password": seen}).encode())
    later = redactor.redact(f'{{"q":"{spelled}","r":[1,"kept-1"]}}'.encode())
    assert json.loads(later.text)["q"].removeprefix("a ").removesuffix(" token") == "[redacted:key:password]"
    assert b'"r":[1,"kept-1"]' in later.text


@pytest.mark.parametrize("value", ["short-1", "password", "read-only", "accessToken", "12345678"])
def test_a_short_value_a_word_or_a_number_is_hidden_only_under_its_key(value: str) -> None:
    redactor = Redactor({})
    assert value.encode() not in redactor.redact(json.dumps({"token": value}).encode()).text
    assert redactor.redact(f"see {value}".encode()).text == f"see {value}".encode()


@pytest.mark.slow
def test_the_number_of_remembered_values_is_limited_to_the_newest() -> None:
    redactor = Redactor({})
    for number in range(2_000):
        redactor.redact(json.dumps({"token": f"kJ8-mN2-{number}-end"}).encode())
    assert redactor.redact(b"kJ8-mN2-1999-end").text == b"[redacted:key:token]"
    assert redactor.redact(b"kJ8-mN2-1-end").text == b"kJ8-mN2-1-end"
    redactor.redact(json.dumps({"token": "x1" * 100_000}).encode())
    assert sum(len(value) for value in redactor._seen._known) < 100_000


# --- texts ---


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("DB_PASSWORD=kJ8mN2,pQ4(x", "DB_PASSWORD=[redacted:key:DB_PASSWORD]"),
        ("url: http://h/?token=kJ8mN2pQ4&x=1", "url: http://h/?token=[redacted:key:token]&x=1"),
        ('{"password": "two words 1", "cut', '{"password": "[redacted:key:password]", "cut'),
        (r'"a\nAPI_KEY=kJ8mN2pQ4"', r'"a\nAPI_KEY=[redacted:key:API_KEY]"'),
        ('see {"password":"abc"} there', 'see {"password":"[redacted:key:password]"} there'),
        ("http://h/login?password=XjRKcwefUgtu&x=1", "http://h/login?password=[redacted:key:password]&x=1"),
        ("user=ada&user%5Bpassword%5D=sunshine", "user=ada&user%5Bpassword%5D=[redacted:key:password]"),
        ("DB_PASSWORD=zqOZWBILTXfZdl", "DB_PASSWORD=[redacted:key:DB_PASSWORD]"),
        ("DB_PASSWORD=sunshine", "DB_PASSWORD=[redacted:key:DB_PASSWORD]"),
        ("host=db user=ada password=sunshine dbname=x", "host=db user=ada password=[redacted:key:password] dbname=x"),
        ("Server=db;Uid=sa;Pwd=two words;Timeout=3", "Server=db;Uid=sa;Pwd=[redacted:key:Pwd];Timeout=3"),
        ("password: XjRKcwefUgtu", "password: [redacted:key:password]"),
        ("password: x7Kq9Z", "password: [redacted:key:password]"),
        ("the password is q7Hs2vLm40tKe9", "the password is [redacted:key:password]"),
        ("pwd=hunter22 and PWD=/srv/app", "pwd=[redacted:key:pwd] and PWD=/srv/app"),
        ("db_password='sunshine'", "db_password='[redacted:key:db_password]'"),
        ("otp: 123456", "otp: [redacted:key:otp]"),
        ("postgres://u:p@ss/w@h", "postgres://u:p@ss/w@h"),
        ("postgres://u:p@ss1@h/d", "postgres://u:[redacted:shape:url-password]@h/d"),
        ("Cookie: a=1; b=" + TOKEN + "; c=3", "Cookie: [redacted:shape:cookie]"),
    ],
)  # fmt: skip
def test_a_secret_in_running_text_is_hidden_and_the_rest_stays(text: str, hidden: str) -> None:
    assert redacted(text) == hidden


@pytest.mark.parametrize(
    "text",
    [
        "connect(user=user, password=password)", "Client(token=pick, timeout=3)", "    private_key=sign_key,\n",
        "token=$TOKEN", "auth=oauth2",
        "?token={token}", "https://h/cb?token=:token", "PASSWORD=$(cat /run/pw)", "password=self.password",
        "SECRET=/run/secrets/pw", "tokens=1234", "pin=D13", "the token is Base64-encoded", "--token=TOKEN",
        "password=none", "password: x7Kq9",
        'headers["Authorization"] = "Basic %s" % auth', 'credentials = "{0}:{1}"', "storage_key=uploads/2026/photo.png",
        "pat='test_*.py'", "https://h/?pageToken=kJ8mN2pQ4&nextPageToken=kJ8mN2pQ4&maxTokens=4096&cursor=kJ8mN2pQ4",
    ],
)  # fmt: skip
def test_code_references_and_names_that_only_resemble_secret_ones_stay(text: str) -> None:
    assert redacted(text) == text


@pytest.mark.parametrize("name", ["DB_PASSWORD=", "https://h/?user=ada&password=", "Server=h;Password="])
def test_any_value_behind_a_secret_name_is_hidden(name: str) -> None:
    for seed in range(500):
        secret = "".join(Random(seed).choices(ascii_letters, k=8 + seed % 9))
        assert secret not in redacted(f"{name}{secret}")


def test_json_within_json_within_json_is_looked_into() -> None:
    inner = json.dumps({"b": json.dumps({"password": "abc"}), "n": 1.50})
    changed = json.loads(redacted(json.dumps({"a": inner})))
    assert json.loads(json.loads(changed["a"])["b"]) == {"password": "[redacted:key:password]"}
    assert '"n": 1.5' in changed["a"]


@pytest.mark.parametrize("names", [["Authorization", "X-Api-Key"], ["--token", "--api-key"]])
def test_a_value_that_its_neighbour_names_is_hidden(names: list[str]) -> None:
    pairs = [{"value": "kJ8mN2pQ4", "name": names[0]}, {"name": names[1], "value": "kJ8mN2pQ4"}, ["-v", names[0], "-x"]]
    flat = [names[1], "kJ8mN2pQ4", "keep-me-1"]
    changed = redacted(json.dumps([*pairs, flat]))
    assert "kJ8mN2pQ4" not in changed
    assert "-x" in changed and "keep-me-1" in changed


def test_a_private_key_over_several_lines_hides_its_lines_and_not_the_messages_between() -> None:
    redactor = Redactor({})
    ping = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
    body = [b"MIIE" + b"a1B2" * 15, ping, b"[x] " + b"a1B2" * 16, b"c3D4=="]
    lines = [b"-----BEGIN RSA PRIVATE KEY-----", *body, b"-----END RSA PRIVATE KEY-----", b"a1B2" * 16]
    hidden = [redactor.redact(line, "stderr").text for line in lines]
    assert hidden[2] == ping and hidden[-1] == lines[-1]
    assert {*hidden[:2], *hidden[3:-1]} == {b"[redacted:shape:private-key]"}


def test_a_private_key_that_never_ends_does_not_swallow_the_log() -> None:
    redactor = Redactor({})
    redactor.redact(b"-----BEGIN PRIVATE KEY-----", "stderr")
    assert redactor.redact(b"started; all is well.", "stderr").text == b"started; all is well."
    last = [redactor.redact(b"word", "stderr").text for _ in range(1_000)][-1]
    assert last == b"word"


def test_base64_data_is_not_searched_for_tokens() -> None:
    data = "iVBORw0KGgo" * 100 + "/AK" + "IAABCDEFGHIJKLMNOP/" + "AA=="
    for text in (data, "data:image/png;base64," + data):
        document = json.dumps({"result": {"content": [{"type": "image", "data": text}]}, "token": 1})
        assert redacted(document) == document


@pytest.mark.parametrize(
    "text", ["[" * 5000 + '"token"' + "]" * 6000, "[" * 5000 + '{"password": "kJ8mN2pQ4"}' + "]" * 5000]
)
def test_depth_is_no_obstacle(text: str) -> None:
    assert redacted(text) == text.replace("kJ8mN2pQ4", "[redacted:key:password]")


# --- the user's own rules ---


def test_redact_key_hides_strings_under_that_key_however_it_is_written() -> None:
    assert redacted('{"Pin-Code": "1234", "pin": "5"}', keys=["pin_code"]) == (
        '{"Pin-Code": "[redacted:key:Pin-Code]", "pin": "5"}'
    )


def test_redact_path_hides_any_value_at_its_place_also_in_a_batch() -> None:
    one = {"jsonrpc": "2.0", "id": 1, "method": "m", "params": {"pin": 1234, "all": [{"x": 1}]}}
    for document in (one, [one, one]):
        changed = redacted(json.dumps(document), paths=["$.params.pin", "$.params.all"])
        first = json.loads(changed) if isinstance(document, dict) else json.loads(changed)[1]
        assert first["params"] == {"pin": "[redacted:path:$.params.pin]", "all": "[redacted:path:$.params.all]"}


def test_redact_value_hides_the_matches_of_a_pattern_and_only_those() -> None:
    assert redacted('{"a": "customer C-17, C-18"}', values=[r"C-\d+", "z*"]) == (
        '{"a": "customer [redacted:value], [redacted:value]"}'
    )


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (["--api-key", "V", "x"], ["--api-key", "[redacted:key:api-key]", "x"]),
        (["--api-key=V"], ["--api-key=[redacted:key:api-key]"]),
        (["-e", "DB_PASSWORD=V"], ["-e", "DB_PASSWORD=[redacted:key:DB_PASSWORD]"]),
        (["--token", "--verbose"], ["--token", "--verbose"]),
        (["--token", "-Zk9"], ["--token", "[redacted:key:token]"]),
        (["--token", "--Zk9mQ2pLx7Rt"], ["--token", "[redacted:key:token]"]),
        (["--token", "${TOKEN}", "--token="], ["--token", "${TOKEN}", "--token="]),
        (["-H", "Authorization: Bearer kJ8mN2pQ4"], ["-H", "Authorization: Bearer [redacted:shape:bearer]"]),
        (['{"apiKey":"V"}'], ['{"apiKey":"[redacted:key:apiKey]"}']),
        (["--use", TOKEN], ["--use", "[redacted:shape:github]"]),
        (["--max-tokens", "5", "--token-file", "f"], ["--max-tokens", "5", "--token-file", "f"]),
    ],
)  # fmt: skip
def test_a_command_line_is_kept_without_its_secrets(given: list[str], kept: list[str]) -> None:
    assert Redactor({}).arguments(given) == kept


# --- fails closed ---


class Failing(Redactor):
    def _rules(self, found: Any, named: bool) -> Any:
        raise LookupError("a bug")


def test_a_frame_that_cannot_be_redacted_is_not_kept_and_the_session_says_so() -> None:
    kept: list[Frame] = []
    tape = Tape(lambda frame, entries: kept.append(frame), Failing({}))
    tape.feed("client", "stdio", message(arguments={"password": "x"}).encode() + b"\nharmless\n", 0)
    assert [frame.text for frame in kept] == [FAILED, b"harmless"]
    assert tape.incomplete

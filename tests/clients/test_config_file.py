"""Configuration files of every client, original or hand-edited: wrapped, unwrapped, refused, replaced."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest

from mcp_tape.clients import config_file
from mcp_tape.clients.table import BY_NAME, CLIENTS, YAML
from mcp_tape.errors import TapeError
from tests.support.configs import (
    FILES,
    PROGRAM,
    can_be_wrapped,
    of_text,
    parsed,
    read,
    server,
    unwrapped,
    without,
    wrapped,
)

# Clients without a format of their own use the most common one.
PLAIN = {"antigravity", "kiro", "amazon-q", "lmstudio", "kimi", "pi", "mcporter", "trae"}


def file_of(client: str) -> Path:
    return next(FILES.glob(f"{'plain' if client in PLAIN else client}.*"))


UGLY = {
    "one line": '{"mcpServers":{"a":{"command":"x","args":["y"]}}}',
    "tabs": '{\n\t"mcpServers":\t{'
    '\n\t\t"a":\t{\n\t\t\t"command":\t"x",\n\t\t\t"args":\t[\n\t\t\t\t"y"\n\t\t\t]\n\t\t}\n\t}\n}\n',
    "CRLF": '{\r\n  "mcpServers": {\r\n    "a": {\r\n      "command": "x"\r\n    }\r\n  }\r\n}\r\n',
    "CRLF, args": '{\r\n "mcpServers": {"a": {"command": "x", "args": [\r\n "y",\r\n "z"\r\n]}}\r\n}',
    "a byte order mark": '\ufeff{"mcpServers": {"a": {"command": "x"}}}',
    "comments everywhere": '/*1*/{/*2*/"mcpServers"/*3*/:/*4*/{/*5*/"a"/*6*/:/*7*/{/*8*/"command"/*9*/:/*10*/"x"/*11*/,'
    '/*12*/"args"/*13*/:/*14*/[/*15*/"y"/*16*/,/*17*/]/*18*/,/*19*/}/*20*/,/*21*/}/*22*/}//23',
    "comments, no args": '{"mcpServers": {"a": {\n  // one\n  "command" /*two*/ : "x" // three\n  /* four */ }}}',
    "comments in an empty list": '{"mcpServers": {"a": {"command": "x", "args": [ // none\n ]}}}',
    "strings like comments": '{"mcpServers": {"a": {"command": "x//\\"*/", "args": ["/*", "]", "//", ",}"]}}}',
    "equal keys": '{"mcpServers": {"a": {"command": "no"}, '
    '"a": {"command": "n", "command": "x", "args": [], "args": ["y"]}}}',
    "equal maps": '{"mcpServers": {"a": {"command": "no"}}, "mcpServers": {"a": {"command": "x"}}}',
    "args first": '{"mcpServers": {"a": {"args": ["y"], "env": {"command": "no", "args": []}, "command": "x"}}}',
    "escapes": '{"mcp\\u0053ervers": {"\\u0061": {"comm\\u0061nd": "\\u0078", "args": ["\\ud83d\\ude00", "\\/"]}}}',
    "unicode": '{"mcpServers": {"a": {"command": "größe/日本/😀", "args": ["\u2028", "\x7f"]}}}',
    "spaces in the list": '{"mcpServers": {"a": {"command": "x", "args": [  "y"  ,  "z"  ]}}}',
    "an empty list": '{"mcpServers": {"a": {"command": "x", "args": []}}}',
    "an empty list with a space": '{"mcpServers": {"a": {"command": "x", "args": [ ]}}}',
    "deep": '{"deep": ' + "[" * 150 + "]" * 150 + ', "mcpServers": {"a": {"command": "x"}}}',
    "numbers": '{"n": [1e300, 1.0, 10000000000000000000000000000001, -0.0], "mcpServers": {"a": {"command": "x"}}}',
}  # fmt: skip


def expect_there_and_back(found: config_file.Config) -> None:
    """Wrap and unwrap each server alone, then all of them in turn."""
    client, names = found.place.client, list(can_be_wrapped(found))
    assert names
    for name in names:
        new = wrapped(found, name)
        assert server(new, name).is_wrapped and wrapped(new, name).text == new.text
        assert unwrapped(new, name).text == found.text
        way = (*found.way, name)
        assert without(parsed(new.text, client), way) == without(parsed(found.text, client), way)
        changed, old = server(new, name).parts, server(found, name).parts
        if server(found, name).remote:
            continue
        assert (
            changed
            and old
            and changed.words[0] == PROGRAM
            and changed.words[-len(old.words) - 1 :] == ["--", *old.words]
        )
    every = found
    for name in names:
        every = wrapped(every, name)
    for name in names:
        every = unwrapped(every, name)
    assert every.text == found.text


@pytest.mark.parametrize("client", [client.name for client in CLIENTS if client.kind != YAML])
def test_a_file_as_its_client_writes_it_comes_back_to_the_byte(client: str) -> None:
    expect_there_and_back(read(file_of(client), client))


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
@pytest.mark.parametrize("client", ["vscode", "zed", "codex"])
def test_so_it_does_with_other_ends_of_lines_and_a_mark(client: str, ending: str) -> None:
    text = file_of(client).read_text().replace("\n", ending)
    expect_there_and_back(of_text("\ufeff" + text, client))


@pytest.mark.slow
def test_two_megabytes_of_other_settings_come_back_to_the_byte() -> None:
    settings = ",".join(['{"k": "' + "v // /* ,]" * 20 + '"}'] * 10_000)
    expect_there_and_back(of_text(f'{{"more": [{settings}], "mcpServers": {{"a": {{"command": "x"}}}}}}'))


@pytest.mark.parametrize("text", UGLY.values(), ids=UGLY)
def test_an_ugly_file_comes_back_to_the_byte(text: str) -> None:
    expect_there_and_back(of_text(text))


@pytest.mark.parametrize("mode", ["record", "use"])
@pytest.mark.parametrize("text", [UGLY["tabs"], UGLY["comments, no args"], UGLY["an empty list"]])
def test_a_tape_with_a_cassette_of_its_own_comes_out_too(mode: str, text: str) -> None:
    found = of_text(text)
    new = wrapped(found, "a", mode, "/tmp/a b.db")
    assert unwrapped(new, "a").text == text != new.text


REMOTE = {
    "plain": ('{"mcpServers": {"a": {"url": "https://example.com/mcp"}}}', "cursor"),
    "all": ('{"mcpServers": {"a": {"type": "http", /*u*/ '
            '"url" : "https:\\/\\/e.com" , "headers": {"X-Key": "${K}"}}}}', "cursor"),
    "last": ('{"mcpServers": {"a": {\n  "headers": {},\n  "httpUrl": "https://e.com",\n  "timeout": 5,\n}}}', "gemini"),
    "sse": ('{"servers": {"a": {"url": "https://e.com/sse", "type": "sse"}}}', "vscode"),
    "windsurf": ('{"mcpServers":{"a":{"serverUrl":"https://e.com/mcp","disabled":false}}}', "windsurf"),
    "a list": ('{"mcp": {"a": {"type": "remote", // far\n "url": "https://e", '
               '"headers": {"X-K": "{env:K}"},}}}', "kilo"),
    "toml": ('[mcp_servers.a]\nurl = "https://e.com" # c\nhttp_headers = { "X-Region" = "eu" }\n', "codex"),
    "toml, inline": ("mcp_servers.a = { url = 'https://e.com', enabled = true }\n", "codex"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "client"), REMOTE.values(), ids=REMOTE)
def test_a_server_with_a_url_becomes_a_command_and_comes_back_to_the_byte(text: str, client: str) -> None:
    found = of_text(text, client)
    expect_there_and_back(found)
    new = parsed(wrapped(found, "a").text, BY_NAME[client])
    old = parsed(text, BY_NAME[client])
    for key in found.way:
        new, old = new[key], old[key]
    made, was = new["a"], old["a"]
    headers = was.get("headers", was.get("http_headers", {}))
    url = next(was[key] for key in ("url", "httpUrl", "serverUrl") if key in was)
    program, *args = made["command"] if isinstance(made["command"], list) else (made["command"], *made["args"])
    assert program == PROGRAM and made.get("type", "stdio") == ("local" if client == "kilo" else "stdio")
    assert made.get("environment" if client == "kilo" else "env", {}) == {
        name.replace("-", "_"): value for name, value in headers.items()
    }
    words = [word for name in headers for word in ("--header-env", f"{name}={name.replace('-', '_')}")]
    assert args[args.index("--url") :] == ["--url", url, "--stdio", *words]
    assert not set(made) & {"url", "httpUrl", "serverUrl", "headers", "http_headers"}


def test_a_file_at_the_path_of_the_backup_does_not_matter(tmp_path: Path) -> None:
    path, other = tmp_path / "mcp.json", tmp_path / "other"
    backup = Path(f"{path}{config_file.BACKUP}")
    other.write_text("not yours")
    for make in (lambda: backup.symlink_to(other), lambda: backup.write_text("old"), lambda: backup.symlink_to("none")):
        path.write_text(UGLY["one line"])
        make()
        found = read(path)
        config_file.write(found, wrapped(found, "a").text)
        assert backup.read_text() == UGLY["one line"] and not backup.is_symlink()
        assert stat.S_IMODE(backup.stat().st_mode) == 0o600 and other.read_text() == "not yours"
        backup.unlink()


@pytest.mark.parametrize("text", ['{"a": {"command": "x"}, "b": {"url": "https://e.com"}}', '{"a": {"command": "x"}}'])
def test_a_file_that_is_nothing_but_a_map_of_servers_is_wrapped_too(text: str) -> None:
    expect_there_and_back(of_text(text, "copilot"))


@pytest.mark.parametrize("text", ["{}", '{"a": {"command": "x"}, "version": 1}', '{"a": {"b": {"command": "x"}}}'])
def test_a_file_of_other_things_has_no_servers(text: str) -> None:
    assert not list(config_file.servers(of_text(text, "copilot")))


def test_headers_in_a_table_of_their_own_are_left_alone() -> None:
    text = '[mcp_servers.a]\nurl = "https://e.com"\n[mcp_servers.a.http_headers]\nX = "y"\n'
    with pytest.raises(TapeError, match="cannot be changed safely"):
        wrapped(of_text(text, "codex"), "a")


def test_a_url_that_was_changed_while_it_was_wrapped_stays_changed() -> None:
    text = wrapped(of_text('{"mcpServers": {"a": {"url": "https://one"}}}'), "a").text
    assert unwrapped(of_text(text.replace("https://one", "https://two")), "a").text == (
        '{"mcpServers": {"a": {"url": "https://two"}}}'
    )


# Edits in between ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "now", "then"),
    [
        ('"y"', '"y", "more"', '{"m": 1, "mcpServers": {"a": {"command": "x", "args": ["y", "more"]}}}'),
        (', "y"]', "]", '{"m": 1, "mcpServers": {"a": {"command": "x", "args": []}}}'),
        ('"m": 1', '"m": 2, "n": {}', '{"m": 2, "n": {}, "mcpServers": {"a": {"command": "x", "args": ["y"]}}}'),
        ('"args"', '"env": {"A": "b"}, "args"',
         '{"m": 1, "mcpServers": {"a": {"command": "x", "env": {"A": "b"}, "args": ["y"]}}}'),
        ('"x"', '"other"', '{"m": 1, "mcpServers": {"a": {"command": "other", "args": ["y"]}}}'),
        ('"--for"', '"--note", "mine", "--for"', '{"m": 1, "mcpServers": {"a": {"command": "x", "args": ["y"]}}}'),
        ('"--",', '/* here */ "--",', '{"m": 1, "mcpServers": {"a": {"command": "x", "args": [   /* here */   "y"]}}}'),
    ],
)  # fmt: skip
def test_later_changes_of_the_user_stay_and_only_the_tape_goes(old: str, now: str, then: str) -> None:
    found = of_text('{"m": 1, "mcpServers": {"a": {"command": "x", "args": ["y"]}}}')
    text = wrapped(found, "a").text
    assert text.count(old) == 1
    assert unwrapped(of_text(text.replace(old, now)), "a").text == then


def test_a_list_that_was_made_for_the_tape_goes_wherever_it_was_moved_to() -> None:
    text = wrapped(of_text('{"mcpServers": {"a": {"command": "x", "env": {}}}}'), "a").text
    assert '["record", "--for=client/a", "--", "x"]' in text
    args = '"args": ["record", "--for=client/a", "--", "x"]'
    moved = text.replace(f", {args}", "").replace('"env": {}', f'"env": {{}}, {args}')
    assert unwrapped(of_text(moved), "a").text == '{"mcpServers": {"a": {"command": "x", "env": {}}}}'
    first = text.replace(f"{args}, ", "").replace('"command"', f'{args}, "command"')
    assert parsed(unwrapped(of_text(first), "a").text, BY_NAME["cursor"]) == {
        "mcpServers": {"a": {"command": "x", "env": {}}}
    }


def test_a_list_that_was_made_for_the_tape_stays_if_it_has_got_more() -> None:
    text = wrapped(of_text('{"mcpServers": {"a": {"command": "x"}}}'), "a").text
    more = text.replace('"x"]', '"x", "y"]')
    assert unwrapped(of_text(more), "a").text == '{"mcpServers": {"a": {"command": "x", "args": ["y"]}}}'


def test_a_formatter_that_breaks_lines_does_no_harm() -> None:
    text = wrapped(of_text('{"mcpServers": {"a": {"command": "x", "args": ["y"]}}}'), "a").text
    broken = text.replace("[", "[\n  ").replace('", ', '",\n  ').replace("]", "\n]")
    value = parsed(unwrapped(of_text(broken), "a").text, BY_NAME["cursor"])
    assert value == {"mcpServers": {"a": {"command": "x", "args": ["y"]}}}


def test_a_table_line_that_was_made_for_the_tape_goes_with_its_line() -> None:
    text = wrapped(of_text('[mcp_servers.a]\ncommand = "x"\nenabled = true\n', "codex"), "a").text
    head, made, rest = (
        (*text.splitlines(keepends=True)[:2],),
        text.splitlines(keepends=True)[2],
        text.splitlines(keepends=True)[3],
    )
    assert made.startswith("args = [")
    moved = of_text("".join([*head, rest, made]), "codex")
    assert unwrapped(moved, "a").text == '[mcp_servers.a]\ncommand = "x"\nenabled = true\n'


# Refusals -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    ["{", '{"a": 1,,}', "{'a': 1}", "[,]", '{"a": NaN}', "[" * 100_000, '{"a": "\n"}', '{"mcpServers": {}} x', "/*"],
    ids=repr,
)  # fmt: skip
def test_an_unparsable_file_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "mcp.json"
    path.write_text(text)
    with pytest.raises(TapeError, match="was not changed: it cannot be read"):
        read(path)


def test_a_file_that_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    path.write_bytes('{"mcpServers": {}}'.encode("utf-16"))
    with pytest.raises(TapeError, match="not UTF-8"):
        read(path)


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ('{"url": "https://example.com", "serverUrl": "https://example.com"}', "not exactly one URL"),
        ('{"url": "https://example.com", "command": "x", "args": []}', "parts of a command"),
        ('{"url": "https://example.com", "headers": {}, "env": {}}', "parts of a command"),
        ('{"url": "https://example.com", "headers": {"a": 1}}', "not made of texts"),
        ('{"url": "https://example.com", "headers": {"a b": "c"}}', "that no variables can have"),
        ('{"url": "https://example.com", "headers": {"X-A": "1", "X_A": "2"}}', "that no variables can have"),
        ('{"url": "https://example.com", "auth": {"CLIENT_ID": "x"}}', "signs in"),
        ('{"t\\u0079pe": "h\\u0074tp", "url": "https://example.com"}', "cannot be changed safely"),
        ('{"source": "extension"}', "has no command"),
        ('{"command": "npx", "args": ["-y", "mcp-recorder@1.2", "--", "x"]}', "mcp-recorder is in front"),
        ('{"command": "/usr/bin/mcp-rec", "args": ["x"]}', "mcp-rec is in front"),
        ('{"command": "uvx", "args": ["mcp-tape", "record", "--", "x"]}', "mcp-tape is in front"),
        ('{"command": "x", "args": "y"}', "not made of texts"),
        ('{"command": "x", "args": null}', "not made of texts"),
        ('{"command": "x", "args": [1]}', "not made of texts"),
        ('{"command": []}', "is empty"),
        ('{"command": ""}', "is empty"),
        ('{"command": ["", "x"]}', "is empty"),
        ("null", "not an object"),
    ],
)
def test_an_entry_that_is_no_command_or_has_another_recorder_is_refused(entry: str, why: str) -> None:
    found = of_text(f'{{"mcpServers": {{"a": {entry}}}}}')
    with pytest.raises(TapeError, match=f"a in nowhere was not changed: .*{why}"):
        wrapped(found, "a")


def test_a_server_that_is_named_like_a_recorder_in_its_arguments_is_not_refused() -> None:
    assert wrapped(of_text('{"mcpServers": {"a": {"command": "x", "args": ["1", "2", "3", "4", "mcp-rec"]}}}'), "a")


# Writing ------------------------------------------------------------------------------------------------

TEXT = '{"mcpServers": {"a": {"command": "x"}, "b": {"command": "y"}}}'


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "mcp.json"
    made.write_text(TEXT)
    made.chmod(0o640)
    return made


def test_writing_keeps_mode_and_link_and_one_backup_that_only_the_user_reads(path: Path) -> None:
    link = path.parent / "link.json"
    link.symlink_to(path.name)
    found = read(link)
    new = wrapped(found, "a")
    config_file.write(found, new.text)
    backup = Path(f"{path}{config_file.BACKUP}")
    assert link.is_symlink() and path.read_text() == new.text and backup.read_text() == TEXT
    assert stat.S_IMODE(path.stat().st_mode) == 0o640 and stat.S_IMODE(backup.stat().st_mode) == 0o600
    again = read(link)
    config_file.write(again, wrapped(again, "b").text)
    assert backup.read_text() == TEXT  # from before the first tape
    for name in "ab":
        now = read(link)
        config_file.write(now, unwrapped(now, name).text)
    assert path.read_text() == TEXT and sorted(os.listdir(path.parent)) == ["link.json", "mcp.json"]


def test_the_backup_stays_if_the_restored_file_differs_from_it(path: Path) -> None:
    found = read(path)
    config_file.write(found, wrapped(found, "a").text)
    path.write_text(path.read_text().replace('"y"', '"z"'))
    now = read(path)
    config_file.write(now, unwrapped(now, "a").text)
    assert path.read_text() == TEXT.replace('"y"', '"z"') and Path(f"{path}{config_file.BACKUP}").read_text() == TEXT


def test_a_file_changed_by_another_process_is_not_overwritten(path: Path) -> None:
    found = read(path)
    path.write_text("{}")
    with pytest.raises(TapeError, match="another process has changed it meanwhile"):
        config_file.write(found, wrapped(found, "a").text)
    assert path.read_text() == "{}"


def test_a_file_that_another_process_is_writing_is_refused(path: Path) -> None:
    found = read(path)
    Path(f"{path}.lock").mkdir()
    with pytest.raises(TapeError, match="another process is writing it"):
        config_file.write(found, wrapped(found, "a").text)
    assert path.read_text() == TEXT and not Path(f"{path}{config_file.BACKUP}").exists()


def test_others_wait_while_a_file_is_written_and_the_lock_of_a_killed_writer_is_taken_over(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock, locked = Path(f"{path}.lock"), []

    def put(*words: Any) -> None:
        locked.append(lock.is_dir())
        real(*words)

    real = config_file._put
    monkeypatch.setattr(config_file, "_put", put)
    lock.mkdir()
    os.utime(lock, (1, 1))
    config_file.write(found := read(path), wrapped(found, "a").text)
    assert locked == [True, True] and not lock.exists()  # the backup, and the file
    assert path.read_text() == wrapped(found, "a").text

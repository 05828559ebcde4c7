"""Text that git, an editor or a cut has changed: harmless changes are read, others are errors that name the line."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcp_tape.cassette.reader import Cassette
from mcp_tape.errors import CassetteError
from tests.support.texts import everything, several, tape

LINE = b'{"sender":"client","text":"{}"}\n'
SESSION = b'{"kind":"session","sender":null,"session":1}\n'


@pytest.fixture
def text(tmp_path: Path) -> Path:
    tape("convert", several(tmp_path / "tape.db"), tmp_path / "tape.jsonl")
    return tmp_path / "tape.jsonl"


@pytest.mark.parametrize("change", [
    lambda data: data.replace(b"\n", b"\r\n"), lambda data: b"\xef\xbb\xbf" + data, lambda data: data.rstrip(b"\n"),
    lambda data: data.replace(b"\n", b"\n\n"), lambda data: data + b"\n \n",
], ids=["CRLF", "BOM", "no last newline", "empty lines", "spaces"])  # fmt: skip
def test_harmless_variations_change_nothing(text: Path, change: object) -> None:
    before = everything(text)
    text.write_bytes(change(text.read_bytes()))  # type: ignore[operator]
    assert everything(text) == before


@pytest.mark.parametrize(("data", "line", "said"), [
    (LINE + b"<<<<<<< HEAD\n" + LINE, 2, "a conflict"),
    (b"<<<<<<< HEAD\n" + LINE + b"=======\n" + LINE + b">>>>>>> theirs\n", 1, "a conflict"),
    (LINE + b"=======\n", 2, "a conflict"),
    (LINE + LINE[:20], 2, "cut off"),
    (SESSION + LINE + SESSION, 3, "session 1 is here twice"),
    (SESSION.replace(b'"session":1', b'"session":1,"format":99'), 1, "a newer mcp-tape wrote this"),
    (LINE + b'{"sender":"nobody","text":"x"}\n', 2, "needs a sender"),
    (LINE + b"[1]\n", 2, "not a JSON object"),
    (LINE + LINE.replace(b"{", b'{"at":1.5,', 1), 2, "at is not a whole number"),
    (LINE + LINE.replace(b"{", b'{"at":%d,' % 2**63, 1), 2, "at is not a whole number"),
    (LINE + b"\xff\xfe\n", 2, "not UTF-8"),
])  # fmt: skip
def test_an_error_names_its_line(tmp_path: Path, data: bytes, line: int, said: str) -> None:
    path = tmp_path / "tape.jsonl"
    path.write_bytes(data)
    with pytest.raises(CassetteError, match=rf"tape\.jsonl, line {line}: .*{said}"):
        Cassette(path)
    assert path.read_bytes() == data


def test_an_empty_text_is_empty(tmp_path: Path) -> None:
    path = tmp_path / "tape.jsonl"
    path.touch()
    with pytest.raises(CassetteError, match="is empty"):
        Cassette(path)

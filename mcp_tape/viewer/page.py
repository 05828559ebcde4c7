"""The page as one file: joined from the files beside this one, and all that it may do said in its policy."""

from __future__ import annotations

import re
import zlib
from base64 import b64encode
from collections.abc import Iterable, Iterator
from functools import cache
from hashlib import sha256
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import Any

import orjson

from .. import __version__
from ..cassette.query.filters import EVERYTHING, Filter
from ..cassette.reader import Cassette
from .pack import Packer, head, rows_of

# In the order in which they need each other. The first names are common to all: a name may be given only once.
MODULES = "text store filters tree content list details waterfall tables live app".split()
_HERE = Path(__file__).parent
_IMPORT = re.compile(r"^import .*?;\n", re.M | re.S)
_IN_MEMORY = 64 << 20  # bytes of packed texts
# https://www.w3.org/TR/CSP3/: nothing is loaded, asked for or run but the page's own script and style.
_POLICY = (
    "default-src 'none'; script-src '{script}'; style-src '{style}'; img-src data:; media-src data:; "
    "base-uri 'none'; form-action 'none'{more}"
)


@cache
def script() -> str:
    """The modules as one script, in a scope of its own."""
    joined = "".join(_IMPORT.sub("", _read(f"{name}.mjs")).replace("\nexport ", "\n") for name in MODULES)
    return f'\n"use strict";\n(() => {{\n{joined}start();\n}})();\n'


def page(data: Iterable[bytes], *, may_ask: bool = False) -> Iterator[bytes]:
    """The page around its data. `may_ask`: it is served, and asks its server for more."""
    style = _read("app.css")
    policy = _POLICY.format(script=_hash(script()), style=_hash(style), more="; connect-src 'self'" if may_ask else "")
    before, after = _read("page.html").split("{{data}}")
    yield before.replace("{{policy}}", policy).replace("{{style}}", style).encode()
    yield from data
    yield after.replace("{{script}}", script()).encode()


def export(cassette: Cassette, numbers: list[int], kept: Filter, name: str) -> Iterator[bytes]:
    """Sessions of a cassette as a page that needs nothing else."""
    packer = Packer(whole=kept == EVERYTHING)
    with SpooledTemporaryFile(_IN_MEMORY) as packed:
        for blocks in packer.pack(cassette, rows_of(cassette, numbers, kept)), packer.rest():
            for block in blocks:
                packed.write(b64encode(block) + b"\n")
        packed.seek(0)
        yield from page(_elements(index(cassette, numbers, name, kept != EVERYTHING) | packer.index(), packed))


def index(cassette: Cassette, numbers: list[int], name: str, filtered: bool = False) -> dict[str, Any]:
    """What is said of a recording as a whole."""
    wanted = set(numbers)
    found = [head(session) | {"open": False} for session in cassette.each_session() if session.id in wanted]
    name = name.encode("utf-8", "replace").decode()
    return {"file": name, "by": f"mcp-tape {__version__}", "filtered": filtered, "sessions": found}


def _elements(whole: dict[str, Any], blocks: Iterable[bytes]) -> Iterator[bytes]:
    """Data that a browser does not run: base64 has nothing that ends an element."""
    yield b'<script type="text/plain" id="index">' + b64encode(zlib.compress(orjson.dumps(whole), 9)) + b"</script>\n"
    for block in blocks:
        yield b'<script type="text/plain" class="block">' + block.rstrip() + b"</script>\n"


def _hash(text: str) -> str:
    return "sha256-" + b64encode(sha256(text.encode()).digest()).decode()


@cache
def _read(name: str) -> str:
    return (_HERE / name).read_text("utf-8")

"""The page of a cassette in a real browser."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import zlib
from base64 import b64decode
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from mcp_tape.viewer import pack
from mcp_tape.viewer.pack import unpack_columns
from tests.support.reading import invoke
from tests.support.running import WAIT

if TYPE_CHECKING:
    from playwright.sync_api import Page

SCRIPTS = Path(pack.__file__).parent
READY = "html[data-ready]"


def exported(tape: Path, file: Path, *more: str) -> Path:
    result = invoke("convert", tape, *more, file, "--to", "html")
    assert (result.exit_code, result.stdout) == (0, "")
    return file


def show(page: Page, tape: Path, directory: Path, **state: Any) -> None:
    """Open the page of a cassette, with its state in the URL fragment: by default, all messages."""
    file = exported(tape, directory / f"{tape.stem}.html")
    page.goto(f"{file.as_uri()}#{urlencode({'rows': 'messages'} | state)}")
    page.wait_for_selector(READY)


def index_of(html: bytes) -> tuple[dict[str, Any], dict[str, list[int | None]]]:
    """The facts and columns that are packed in a page."""
    (index,) = re.findall(rb'id="index">(.*?)</script>', html)
    return unpack_columns(zlib.decompress(b64decode(index)))


def report_of(page: str) -> str:
    """A page's report of a comparison."""
    return page[page.index("<article>") : page.rindex("</article>")] + "</article>\n"


def places(page: Page) -> list[str]:
    """Session and number of the rows in the list."""
    found: list[str] = page.locator("#rows .row").evaluate_all(
        "rows => rows.sort((a, b) => a.dataset.at - b.dataset.at).map(row => row.dataset.place)"
    )
    return found


def numbers(page: Page) -> list[int]:
    """The numbers of the frames in the list."""
    return [int(place.split(".")[1]) for place in places(page)]


def evaluated(module: str, expression: str) -> Any:
    """The value of an expression in node, with the names that a module exports."""
    code = f"import * as m from {json.dumps((SCRIPTS / module).as_uri())}; console.log(JSON.stringify({expression}))"
    node = shutil.which("node")
    assert node
    done = subprocess.run([node, "--input-type=module", "-e", code], capture_output=True, timeout=WAIT, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)

"""Firefox with its developer tools open, driven by Marionette, as in its own tests.

https://firefox-source-docs.mozilla.org/testing/marionette/Protocol.html
"""

from __future__ import annotations

import contextlib
import json
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from tests.support import provision
from tests.support.page import SCRIPT
from tests.support.running import WAIT, until

NAMES = ("firefox-esr", "firefox")
PREFERENCES = {
    "marionette.port": 0,  # any free port, which Firefox writes to a file
    "devtools.jsonview.enabled": False,  # its own page, which may request nothing
    "datareporting.policy.dataSubmissionEnabled": False,
}
OPEN = """
    const {require} = ChromeUtils.importESModule("resource://devtools/shared/loader/Loader.sys.mjs");
    const {gDevTools} = require("devtools/client/framework/devtools");
    window.toolbox = await gDevTools.showToolboxForTab(gBrowser.selectedTab, {toolId: "netmonitor"});
"""
# Its list is incomplete while requests are pending.
PENDING = """
    const {connector, store} = await toolbox.getNetMonitorAPI();
    return connector.dataProvider.hasPendingRequests() || store.getState().requests.requests.length < arguments[0];
"""
# The same output as "Save All As HAR".
EXPORT = """
    return JSON.stringify(await (await toolbox.getNetMonitorAPI()).getHar(), null, "  ");
"""


class Marionette:
    """A connection. A command is a list preceded by its length, and so is its answer."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._read()  # its greeting

    def command(self, name: str, **parameters: Any) -> Any:
        text = json.dumps([0, 1, name, parameters]).encode()
        self._stream.write(b"%d:%s" % (len(text), text))
        self._stream.flush()
        _, _, error, result = self._read()
        if error:
            sys.exit(f"Firefox refuses {name}: {json.dumps(error)}")
        return result

    def run(self, script: str, *arguments: Any, context: str = "content") -> Any:
        """The result of a script in the page, or in the browser itself (`chrome`)."""
        self.command("Marionette:SetContext", value=context)
        wrapped = f"return (async function () {{ {script} }}).apply(null, arguments)"
        return self.command("WebDriver:ExecuteScript", script=wrapped, args=arguments, sandbox=None)["value"]

    def _read(self) -> Any:
        length = b""
        while (byte := self._stream.read(1)) not in (b":", b""):
            length += byte
        return json.loads(self._stream.read(int(length)))


def called(url: str, calls: Sequence[Mapping[str, Any]], place: Path, har: Path | None = None) -> Any:
    """The answers to a page, as by `page.called`.

    The page is the server's answer to a GET: its other pages forbid all.
    """
    with _opened(place) as firefox:
        firefox.run(OPEN, context="chrome")
        firefox.command("Marionette:SetContext", value="content")
        firefox.command("WebDriver:Navigate", url=url)
        seen = firefox.run(f"return ({SCRIPT})(arguments[0])", [url, calls])
        asked = firefox.run("return performance.getEntriesByType('resource').length") + 1
        until(lambda: not firefox.run(PENDING, asked, context="chrome"), "Firefox to list all requests")
        if har:
            har.write_text(firefox.run(EXPORT, context="chrome"), "utf-8")
    return seen


@contextlib.contextmanager
def _opened(place: Path) -> Iterator[Marionette]:
    program = next(filter(None, map(shutil.which, NAMES)), None) or sys.exit("there is no Firefox")
    profile = place / "profile"
    profile.mkdir()
    lines = [f"user_pref({json.dumps(name)}, {json.dumps(value)});\n" for name, value in PREFERENCES.items()]
    (profile / "user.js").write_text("".join(lines))
    options = ["--headless", "--no-remote", "--marionette", "--remote-allow-system-access", "--profile", str(profile)]
    env = provision.environment() | {"HOME": str(place), "TZ": "UTC"}
    with (place / "firefox.log").open("wb") as log:
        process = subprocess.Popen([program, *options, "about:blank"], cwd=place, env=env, stdout=log, stderr=log)
        try:
            port = profile / "MarionetteActivePort"
            until(lambda: process.poll() is not None or (port.exists() and port.read_text()), "Firefox to listen")
            if process.poll() is not None:
                sys.exit(f"Firefox has ended:\n{(place / 'firefox.log').read_text(errors='replace')}")
            with socket.create_connection(("127.0.0.1", int(port.read_text())), WAIT) as connection:
                marionette = Marionette(connection.makefile("rwb"))
                marionette.command("WebDriver:NewSession", timeouts={"script": WAIT * 1000})
                yield marionette
        finally:
            process.terminate()
            process.wait(WAIT)

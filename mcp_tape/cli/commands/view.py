"""mcp-tape view"""

from __future__ import annotations

import click

from ...cassette.reader import Cassette
from ...console import say
from ..click_options import expand_cassettes, files
from ..newest import cassette_or_newest_argument


@click.command(
    "view",
    epilog="\b\nExamples:\n"
    "  mcp-tape view tape.db\n"
    "  mcp-tape view client.db server.db\n"
    "  mcp-tape view tape.db --no-open",
)  # fmt: skip
@cassette_or_newest_argument
@click.argument("more", metavar="[CASSETTE]...", nargs=-1, shell_complete=files, callback=expand_cassettes)
@click.option("--no-open", is_flag=True, help="Print the URL, and do not open a browser.")
def command(file: str, more: list[str], no_open: bool) -> None:
    """Open a recording in the browser, even while it is being recorded.

    Prints the URL of a page on this machine, opens it, and serves it until Ctrl-C. The page follows the recording; it
    can pause, and save the filtered messages as a cassette. Only this machine can reach it, and only with the secret
    in the URL. Several cassettes are one page, merged by time. Without a file, choose from the newest cassettes; if
    there is only one, it is shown.

    To write the page to a file that needs no server: mcp-tape convert tape.db tape.html
    """
    from ...viewer.page_server import Viewer  # only where it is used

    for one in (file, *more):
        with Cassette(one):
            pass  # report errors here, not in the browser
    viewer = Viewer(file, *more, report=say)
    click.echo(viewer.url)
    if not no_open:
        import webbrowser

        if not webbrowser.open(viewer.url):
            say("cannot open a browser; open the URL above yourself")
    say("serving the page; Ctrl-C to stop")
    viewer.serve()

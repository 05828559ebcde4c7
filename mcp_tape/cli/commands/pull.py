"""mcp-tape pull"""

from __future__ import annotations

import click

from ...transports.signals import exit_on_signal
from ..click_options import DestinationCommand, changed_place, files, json_option
from .push import OutcomePrinter


@click.command(
    "pull",
    cls=DestinationCommand,
    epilog="\b\nExamples:\n"
    "  mcp-tape pull s3://team/tapes cassettes/\n"
    "  mcp-tape pull s3://team/tapes cassettes/ --date 2026-11 --server github\n"
    "  mcp-tape pull https://example.com/tapes/github.db .",
)
@click.argument("urls", metavar="URL...", nargs=-1, required=True)
@click.argument("directory", metavar="DIR", shell_complete=files, callback=changed_place)
@click.option(
    "--date",
    "dates",
    metavar="DATE",
    multiple=True,
    help="Fetch only cassettes of this day, month or year. May be repeated.",
)
@click.option(
    "--server", "servers", metavar="NAME", multiple=True, help="Fetch only cassettes of this server. May be repeated."
)
@click.option("--force", is_flag=True, help="Replace files that differ.")
@json_option
def command(
    urls: tuple[str, ...], directory: str, dates: tuple[str, ...], servers: tuple[str, ...], force: bool, as_json: bool
) -> None:
    """Fetch cassettes from a bucket into a directory, under the names that they have in the bucket.

    A URL that ends in .db or .jsonl, and every https:// URL, is one cassette. Any other URL is a prefix: all cassettes
    below it are fetched. Files that you have are left alone, so you can repeat and resume a pull; a file that differs
    is reported, and replaced only with --force. A cassette is put in place once it is whole, and only if its content
    fits its name.

    Exit code 1: a file differs. 3: there is nothing to fetch, or a name is not a valid file name. 4: a cassette could
    not be fetched.
    Buckets need obstore: pip install 'mcp-tape[remote]'
    """
    from ...fleet.pulling import pull  # only where it is used

    click.get_current_context().with_resource(exit_on_signal())
    with OutcomePrinter(f"pulling into {directory}", 0, as_json) as tally:
        code = pull(urls, directory, dates, servers, tally, tally.begin, force)
    tally.end()
    raise SystemExit(code)

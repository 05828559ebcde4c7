"""lake_one: puts one cassette into a lake, as Parquet files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from time import monotonic
from types import TracebackType
from typing import Any, NamedTuple

from ...cassette import file, journals
from ...cassette.query.integrity import Finding
from ...cassette.reader import Cassette
from ...cassette.schema import LEFT
from ...errors import CassetteError, TapeError
from .. import cache, stores
from ..cassette_paths import printable_place
from ..many.results import Result, failed_result
from ..partitions import partition
from ..shards import content_hash
from .columns import LAST, TABLES, VERSION, content
from .lakes import Lake, LakeError, open_lake, report_errors
from .row_blocks import ColumnBlock, RowSource, blocks

_COMMAND = "lake"
UNWRITTEN = "unwritten"  # a result after which no other cassette can be added either
_TRIES = 5
_BESIDE = ("", "-wal", LEFT)  # suffixes of the files that a cassette may consist of


class _FinishedFile(NamedTuple):
    """A finished file of a source: its table, its name in the lake, and its rows."""

    table: str
    file: str
    name: str
    rows: int


def lake_one(path: str | os.PathLike[str], dest: str | os.PathLike[str], *, content: bool = True) -> Result:
    """Put the rows of a cassette into a lake, unless they are there. Without `content`, leave texts out. See
    docs/lake.md.

    Safe to repeat, and to call from many processes or machines at once. `details["lake"]` of the result: `added`;
    `there` (it was added before); `busy` (it is being recorded: add it later); `unwritten` (the lake cannot be
    written).
    """
    began, path, dest = monotonic(), printable_place(os.fspath(path)), os.fspath(dest)
    try:
        result = _add(path, open_lake(dest, content), content)
    except LakeError as error:
        result = failed_result(_COMMAND, path, "failed", str(error))._replace(details={"lake": UNWRITTEN})
    except CassetteError as error:
        result = failed_result(_COMMAND, path, "unreadable", str(error))
    except (OSError, ValueError, OverflowError) as error:  # from the path itself, or from odd numbers in a foreign file
        result = failed_result(_COMMAND, path, "unreadable", f"cannot read {path}: {error}")
    return result._replace(seconds=round(monotonic() - began, 6))


def prepare(dest: str, content: bool) -> None:
    """Begin a run: create the lake if it is missing, and remove leftovers of killed runs.

    Raises LakeError if it is another kind of lake, or cannot be written.
    """
    with open_lake(dest, content).staging():
        pass


def _add(path: str, place: Lake, with_content: bool) -> Result:
    local = cache.local(path) if stores.is_url(path) else path
    for _ in range(_TRIES):
        before = _look(local)
        with Cassette(path) as cassette:
            if _is_unfinished(local):
                why = f"{path} is being recorded; it can be added when that is over"
                return _result(path, "busy", notes=(why,), findings=(Finding("busy", why, level="info"),))
            digest = content_hash(local)
            if _look(local) != before:
                continue  # opening it has tidied it up, or it was replaced
            partitions = _partitions(cassette)
            if not partitions or place.has(max(_name(LAST, one, digest) for one in partitions)):
                return _result(path, "there", hash=digest)
            source = RowSource(
                digest, os.path.basename(path if local == path else path.partition("?")[0]), with_content
            )
            with place.staging() as directory, _odd_rows(path):
                made = list(_make(cassette, partitions, source, directory, place.name))
                if _look(local) == before:
                    return _result(path, "added", counts=_put(place, made), hash=digest)
    raise CassetteError(f"{path} changes while it is read; try again")


def _result(path: str, what: str, **more: Any) -> Result:
    return Result(_COMMAND, path, details={"lake": what}, **more)


def _look(path: str) -> list[tuple[int, ...] | None]:
    """A fingerprint that changes when the cassette does."""
    return [file.file_state(path + beside) for beside in _BESIDE]


def _is_unfinished(path: str) -> bool:
    """Return whether a cassette consists of more than its file, so that the file's hash is not final.

    It is being recorded, or leftovers of a killed recorder cannot be put into it.
    """
    return os.path.exists(path + LEFT) or file.header_says_wal(path) or journals.is_hot(path)


def _partitions(cassette: Cassette) -> dict[str, list[int]]:
    """The sessions of each partition."""
    found: dict[str, list[int]] = {}
    for session in cassette.each_session():
        found.setdefault(partition(session), []).append(session.id)
    return found


def _name(table: str, place: str, digest: str) -> str:
    """The name of a source's file in one partition of a table."""
    return f"{table}/{place}/{digest[:32]}-v{VERSION}{ENDING}"


def _make(
    cassette: Cassette, partitions: dict[str, list[int]], source: RowSource, directory: str, dest: str
) -> Iterator[_FinishedFile]:
    """Make the files of all partitions, one partition at a time, so that few files are open."""
    for number, (place, sessions) in enumerate(sorted(partitions.items())):
        below = os.path.join(directory, f"{number}-")
        with report_errors(dest), Tables(below, source.with_content) as tables:
            for session in sessions:
                for block in blocks(cassette, cassette.session(session), source):
                    tables.add(block)
        for table, (made, rows) in tables.finished_files().items():
            yield _FinishedFile(table, made, _name(table, place, source.digest), rows)


def _put(place: Lake, made: list[_FinishedFile]) -> dict[str, int]:
    """Put the files into the lake in order of their names, those of the last table at the end; return the counts."""
    counts = dict.fromkeys((*TABLES, "bytes"), 0)
    for one in sorted(made, key=lambda one: (one.table == LAST, one.name)):
        counts[one.table] += one.rows
        counts["bytes"] += os.path.getsize(one.file)
        place.put(one.file, one.name)
    return counts


@contextmanager
def _odd_rows(path: str) -> Iterator[None]:
    """Report numbers and texts that no recorder writes and no table can hold."""
    try:
        yield
    except (OverflowError, ValueError) as error:  # pyarrow's are ValueErrors
        raise CassetteError(f"cannot read {path}: one of its rows has an invalid value ({error})") from None


# -- writes rows to Parquet files, in bounded memory: https://parquet.apache.org/docs/file-format/

try:
    import pyarrow
    from pyarrow import parquet
except ImportError:
    raise TapeError("a lake needs pyarrow; install it with: pip install 'mcp-tape[lake]'") from None

_FEW_ROWS, _FEW_BYTES = 1_000, 4 << 20  # rows to collect before they become columns
_MOST_ROWS, _MOST_BYTES = 100_000, 16 << 20  # per row group, which is in memory until it is written
_TYPES = {
    "string": pyarrow.string(),
    "int64": pyarrow.int64(),
    "timestamp": pyarrow.timestamp("us", "UTC"),
    "binary": pyarrow.binary(),
}
ENDING = ".parquet"


def arrow_schema(table: str) -> Any:
    """The schema of a table."""
    return pyarrow.schema([(column.name, _TYPES[column.type]) for column in TABLES[table]])


class Tables:
    """A file for each table that has rows. `below`: the start of their paths."""

    def __init__(self, below: str, with_content: bool) -> None:
        self._below, self._with_content = below, with_content
        self._open: dict[str, _Table] = {}

    def __enter__(self) -> Tables:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        with ExitStack() as all_of_them:
            for table in self._open.values():
                all_of_them.callback(table.close, is_whole=kind is None)

    def add(self, block: ColumnBlock) -> None:
        if block.table not in self._open:
            self._open[block.table] = _Table(self._below + block.table, block.table, self._with_content)
        self._open[block.table].add(block)

    def finished_files(self) -> dict[str, tuple[str, int]]:
        """The path and the number of rows of each file."""
        return {name: (table.path, table.rows) for name, table in self._open.items()}


class _Table:
    """A file being written. Rows are collected for a batch of columns, and batches for a row group."""

    def __init__(self, path: str, table: str, with_content: bool) -> None:
        self.path, self.rows = path, 0
        self._schema, self._texts = arrow_schema(table), content(table)
        self._blocks: list[ColumnBlock] = []
        self._columns: list[Any] = []
        self._block_rows = self._block_size = self._size = self._count = 0
        short = [name for name in self._schema.names if name not in self._texts]
        options: Any = {
            "compression": "zstd",
            "use_dictionary": short,
            "write_statistics": short,
            "store_schema": False,
        }
        with ExitStack() as opened:  # if the disk is full, pyarrow leaves its own file open
            file = opened.enter_context(pyarrow.OSFile(path, "wb"))
            self._writer = opened.enter_context(closing(parquet.ParquetWriter(file, self._schema, **options)))
            self._opened = opened.pop_all()
        facts = {"table": table, "schema": str(VERSION), "content": str(with_content).lower()}
        self._writer.add_key_value_metadata({f"mcp_tape.{name}": value for name, value in facts.items()})

    def add(self, block: ColumnBlock) -> None:
        self._blocks.append(block)
        self._block_rows += block.rows
        self._block_size += sum(len(text) for name in self._texts for text in block.column(name) if text is not None)
        if self._block_rows >= _FEW_ROWS or self._block_size >= _FEW_BYTES:
            self._convert()
        if self._size >= _MOST_BYTES or self._count >= _MOST_ROWS:
            self._write()

    def close(self, is_whole: bool) -> None:
        with self._opened:
            if is_whole:
                self._convert()
                self._write()

    def _convert(self) -> None:
        """Convert the collected rows to columns. Sessions may be tiny, and columns of few rows waste memory."""
        arrays = [
            pyarrow.array([value for block in self._blocks for value in block.column(field.name)], field.type)
            for field in self._schema
        ]
        self._columns.append(pyarrow.record_batch(arrays, schema=self._schema))
        self._size += self._columns[-1].nbytes
        self._count += self._block_rows
        self._blocks, self._block_rows, self._block_size = [], 0, 0

    def _write(self) -> None:
        self._writer.write_table(pyarrow.Table.from_batches(self._columns, self._schema))
        self.rows += self._count
        self._columns, self._size, self._count = [], 0, 0

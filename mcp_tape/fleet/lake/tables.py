"""Writes rows to Parquet files, in bounded memory: https://parquet.apache.org/docs/file-format/"""

from __future__ import annotations

from contextlib import ExitStack, closing
from types import TracebackType
from typing import Any

from ...errors import TapeError
from .columns import TABLES, VERSION, content
from .rows import Block

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

    def add(self, block: Block) -> None:
        if block.table not in self._open:
            self._open[block.table] = _Table(self._below + block.table, block.table, self._with_content)
        self._open[block.table].add(block)

    def made(self) -> dict[str, tuple[str, int]]:
        """The path and the number of rows of each file."""
        return {name: (table.path, table.rows) for name, table in self._open.items()}


class _Table:
    """A file being written. Rows are collected for a batch of columns, and batches for a row group."""

    def __init__(self, path: str, table: str, with_content: bool) -> None:
        self.path, self.rows = path, 0
        self._schema, self._texts = arrow_schema(table), content(table)
        self._blocks: list[Block] = []
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

    def add(self, block: Block) -> None:
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

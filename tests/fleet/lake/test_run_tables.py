"""Rows in Parquet files: each file has the schema, and memory holds at most a row group."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyarrow import parquet

from mcp_tape.cassette import pages
from mcp_tape.fleet.lake import run
from mcp_tape.fleet.lake.columns import TABLES, VERSION, content
from mcp_tape.fleet.lake.row_blocks import ColumnBlock
from mcp_tape.fleet.lake.run import Tables, lake_one
from tests.support.decks import make_cassette
from tests.support.golden import path_of
from tests.support.lakes import files
from tests.support.messages import call, result

TYPES = {"string": "string", "int64": "int64", "timestamp": "timestamp[us, tz=UTC]", "binary": "binary"}


@pytest.mark.parametrize("with_content", [True, False])
def test_a_file_describes_itself(tmp_path: Path, with_content: bool) -> None:
    lake_one(str(path_of("everything")), str(tmp_path), content=with_content)
    for table, columns in TABLES.items():
        (path,) = files(tmp_path, table)
        schema = parquet.read_schema(path)
        told = {name.decode(): value.decode() for name, value in parquet.read_metadata(path).metadata.items()}
        assert told["mcp_tape.table"] == table and told["mcp_tape.schema"] == str(VERSION)
        assert told["mcp_tape.content"] == ("true" if with_content else "false")
        assert [(field.name, str(field.type)) for field in schema] == [
            (column.name, TYPES[column.type]) for column in columns
        ]


def test_texts_are_not_repeated_in_statistics(tmp_path: Path) -> None:
    lake_one(str(path_of("everything")), str(tmp_path))
    (path,) = files(tmp_path, "calls")
    group = parquet.ParquetFile(path).metadata.row_group(0)
    stated = {group.column(n).path_in_schema: group.column(n).is_stats_set for n in range(group.num_columns)}
    assert {name for name, is_set in stated.items() if not is_set} == set(content("calls"))


@pytest.mark.slow
def test_large_texts_are_written_some_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "_MOST_BYTES", 1 << 20)
    monkeypatch.setattr(run, "_FEW_BYTES", 1 << 18)
    monkeypatch.setattr(pages, "_PAGE_BYTES", 1 << 18)
    large = "x" * (1 << 17)
    said = [one for n in range(24) for one in (("client", call(n)), ("server", result(n, large)))]
    lake_one(str(make_cassette(tmp_path / "tape.db", said)), str(tmp_path / "lake"))
    for table, rows in (("messages", 48), ("calls", 24)):
        (path,) = files(tmp_path / "lake", table)
        found = parquet.ParquetFile(path).metadata
        sizes = [found.row_group(n).num_rows for n in range(found.num_row_groups)]
        assert sum(sizes) == rows and max(sizes) <= 20  # half of which are large


def test_a_table_without_rows_has_no_file(tmp_path: Path) -> None:
    with Tables(str(tmp_path / "some-"), True) as none:
        pass
    assert none.finished_files() == {} and list(tmp_path.iterdir()) == []


def test_a_value_of_another_type_is_refused(tmp_path: Path) -> None:
    columns = dict.fromkeys(column.name for column in TABLES["sessions"]) | {"session": "no number"}
    with pytest.raises(ValueError), Tables(str(tmp_path / "some-"), True) as odd:  # noqa: PT011
        odd.add(ColumnBlock("sessions", 1, columns))


def test_many_small_sessions_share_their_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    converted = []
    really = run._Table._convert
    monkeypatch.setattr(run._Table, "_convert", lambda self: (converted.append(self._block_rows), really(self)))
    tape = make_cassette(tmp_path / "tape.db", *[[("client", call(1)), ("server", result(1))]] * 20)
    assert lake_one(tape, tmp_path / "lake").counts["messages"] == 40
    assert sorted(converted) == [20, 20, 40]

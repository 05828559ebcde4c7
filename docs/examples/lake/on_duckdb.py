"""Four questions to a lake, answered by DuckDB: python on_duckdb.py LAKE"""

import json
import sys

import duckdb

SLOWEST = """
    SELECT server_name, server_version, name, count(*) AS number, max(microseconds) AS slowest
    FROM calls WHERE method = 'tools/call' AND microseconds IS NOT NULL
    GROUP BY ALL ORDER BY slowest DESC, name LIMIT 5
"""
ERRORS = """
    SELECT CAST(date AS VARCHAR) AS day, count(*) AS number,
        count(*) FILTER (status IN ('error', 'tool-error', 'refused')) AS errors, round(errors / number, 4) AS rate
    FROM calls GROUP BY day ORDER BY day
"""
# What a version answers to a question, in all its answers; then each question that two versions answer differently.
CHANGED = """
    WITH answers AS (
        SELECT server_name, server_version, name, key, min(answer_hash) AS first, max(answer_hash) AS last
        FROM calls WHERE method = 'tools/call' GROUP BY ALL)
    SELECT o.server_name, o.name, o.server_version AS old, n.server_version AS new, count(*) AS questions
    FROM answers o JOIN answers n ON o.server_name = n.server_name AND o.key = n.key
    WHERE o.server_version < n.server_version AND (o.first <> n.first OR o.last <> n.last)
    GROUP BY ALL ORDER BY o.server_name, o.name, old, new
"""
LARGEST = """
    SELECT kind, server_name, name, max(bytes) AS size, max(tokens) AS tokens
    FROM definitions GROUP BY ALL ORDER BY size DESC, name, server_name LIMIT 5
"""


def connected(lake, db=None):
    """A connection with a view of each table. A lake may be a directory or, with httpfs, a URL."""
    db = db or duckdb.connect()
    for table in ("sessions", "calls", "messages", "definitions"):
        db.execute(
            f"CREATE VIEW {table} AS FROM read_parquet('{lake}/{table}/*/*/*.parquet', hive_partitioning = true)"
        )
    return db


def answers(db):
    """The answers to the four questions, as rows by column."""
    for sql in (SLOWEST, ERRORS, CHANGED, LARGEST):
        found = db.execute(sql)
        names = [column for column, *_ in found.description]
        yield [dict(zip(names, row, strict=True)) for row in found.fetchall()]


if __name__ == "__main__":
    for answer in answers(connected(sys.argv[1])):
        print(json.dumps(answer))

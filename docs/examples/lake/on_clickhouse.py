"""Four questions to a lake, answered by ClickHouse in this process (chDB): python on_clickhouse.py LAKE"""

import json
import os
import sys

import chdb

SLOWEST = """
    SELECT server_name, server_version, name, count() AS number, max(microseconds) AS slowest
    FROM {calls} WHERE method = 'tools/call' AND microseconds IS NOT NULL
    GROUP BY server_name, server_version, name ORDER BY slowest DESC, name LIMIT 5
"""
ERRORS = """
    SELECT toString(date) AS day, count() AS number,
        countIf(status IN ('error', 'tool-error', 'refused')) AS errors, round(errors / number, 4) AS rate
    FROM {calls} GROUP BY day ORDER BY day
"""
CHANGED = """
    WITH answers AS (
        SELECT server_name, server_version, name, key, min(answer_hash) AS first, max(answer_hash) AS last
        FROM {calls} WHERE method = 'tools/call' GROUP BY server_name, server_version, name, key)
    SELECT o.server_name AS server_name, o.name AS name, o.server_version AS old, n.server_version AS new,
        count() AS questions
    FROM answers o JOIN answers n ON o.server_name = n.server_name AND o.key = n.key
    WHERE o.server_version < n.server_version AND (o.first <> n.first OR o.last <> n.last)
    GROUP BY server_name, name, old, new ORDER BY server_name, name, old, new
"""
LARGEST = """
    SELECT kind, server_name, name, max(bytes) AS size, max(tokens) AS tokens
    FROM {definitions} GROUP BY kind, server_name, name ORDER BY size DESC, name, server_name LIMIT 5
"""
SETTINGS = "SETTINGS use_hive_partitioning = 1, output_format_json_quote_64bit_integers = 0"


def answers(lake):
    """The answers to the four questions, as rows by column."""
    tables = {
        table: f"file('{os.path.abspath(lake)}/{table}/*/*/*.parquet', Parquet)" for table in ("calls", "definitions")
    }
    for sql in (SLOWEST, ERRORS, CHANGED, LARGEST):
        found = chdb.query(sql.format(**tables) + SETTINGS, "JSONEachRow").bytes()
        yield [json.loads(row) for row in found.decode().splitlines()]


if __name__ == "__main__":
    for answer in answers(sys.argv[1]):
        print(json.dumps(answer))

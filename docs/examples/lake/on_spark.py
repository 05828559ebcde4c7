"""A lake made by a cluster of Spark, one cassette a task, and four questions: spark-submit on_spark.py LAKE TAPE..."""

import json
import sys

from pyspark.sql import SparkSession

SLOWEST = """
    SELECT server_name, server_version, name, count(*) AS number, max(microseconds) AS slowest
    FROM calls WHERE method = 'tools/call' AND microseconds IS NOT NULL
    GROUP BY server_name, server_version, name ORDER BY slowest DESC, name LIMIT 5
"""
ERRORS = """
    SELECT CAST(date AS STRING) AS day, count(*) AS number,
        count_if(status IN ('error', 'tool-error', 'refused')) AS errors,
        round(count_if(status IN ('error', 'tool-error', 'refused')) / count(*), 4) AS rate
    FROM calls GROUP BY day ORDER BY day
"""
CHANGED = """
    WITH answers AS (
        SELECT server_name, server_version, name, key, min(answer_hash) AS first, max(answer_hash) AS last
        FROM calls WHERE method = 'tools/call' GROUP BY server_name, server_version, name, key)
    SELECT o.server_name, o.name, o.server_version AS old, n.server_version AS new, count(*) AS questions
    FROM answers o JOIN answers n ON o.server_name = n.server_name AND o.key = n.key
    WHERE o.server_version < n.server_version AND (o.first <> n.first OR o.last <> n.last)
    GROUP BY o.server_name, o.name, old, new ORDER BY o.server_name, o.name, old, new
"""
LARGEST = """
    SELECT kind, server_name, name, max(bytes) AS size, max(tokens) AS tokens
    FROM definitions GROUP BY kind, server_name, name ORDER BY size DESC, name, server_name LIMIT 5
"""


def add(lake):
    """The task: put one cassette into the lake. Tried again, or by two workers at once, it adds nothing twice."""

    def one(path):
        import mcp_tape  # on the worker

        return mcp_tape.lake_one(path, lake).as_dict()

    return one


def answers(spark, lake):
    """The answers to the four questions, as rows by column."""
    for table in ("sessions", "calls", "messages", "definitions"):
        spark.read.parquet(f"{lake}/{table}").createOrReplaceTempView(table)
    for sql in (SLOWEST, ERRORS, CHANGED, LARGEST):
        yield [row.asDict() for row in spark.sql(sql).collect()]


if __name__ == "__main__":
    lake, *paths = sys.argv[1:]
    spark = SparkSession.builder.appName("lake").getOrCreate()
    for row in spark.sparkContext.parallelize(paths, max(1, len(paths))).map(add(lake)).collect():
        print(row["cassette"], row["status"], row["counts"].get("calls"))
    for answer in answers(spark, lake):
        print(json.dumps(answer))
    spark.stop()

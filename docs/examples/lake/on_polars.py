"""Four questions to a lake, answered by polars: python on_polars.py LAKE"""

import json
import sys

import polars as pl

FAILED = ("error", "tool-error", "refused")


def answers(lake):
    """The answers to the four questions, as rows by column."""
    calls = pl.scan_parquet(f"{lake}/calls/*/*/*.parquet", hive_partitioning=True)
    definitions = pl.scan_parquet(f"{lake}/definitions/*/*/*.parquet", hive_partitioning=True)
    of_tools = calls.filter(pl.col("method") == "tools/call")
    yield rows(slowest(of_tools))
    yield rows(errors(calls))
    yield rows(changed(of_tools))
    yield rows(largest(definitions))


def slowest(calls):
    answered = calls.filter(pl.col("microseconds").is_not_null())
    by_tool = answered.group_by("server_name", "server_version", "name")
    found = by_tool.agg(pl.len().alias("number"), pl.col("microseconds").max().alias("slowest"))
    return found.sort("slowest", "name", descending=[True, False]).head(5)


def errors(calls):
    by_day = calls.group_by(pl.col("date").cast(pl.String).alias("day"))
    found = by_day.agg(pl.len().alias("number"), pl.col("status").is_in(FAILED).sum().alias("errors"))
    return found.with_columns((pl.col("errors") / pl.col("number")).round(4).alias("rate")).sort("day")


def changed(calls):
    given = pl.col("answer_hash")
    by_question = calls.group_by("server_name", "server_version", "name", "key")
    answers = by_question.agg(given.min().alias("first"), given.max().alias("last"))
    both = answers.join(answers, on=["server_name", "key"], suffix="_new")
    differ = (pl.col("first") != pl.col("first_new")) | (pl.col("last") != pl.col("last_new"))
    pairs = both.filter((pl.col("server_version") < pl.col("server_version_new")) & differ)
    pairs = pairs.rename({"server_version": "old", "server_version_new": "new"})
    found = pairs.group_by("server_name", "name", "old", "new").agg(pl.len().alias("questions"))
    return found.sort("server_name", "name", "old", "new")


def largest(definitions):
    by_name = definitions.group_by("kind", "server_name", "name")
    found = by_name.agg(pl.col("bytes").max().alias("size"), pl.col("tokens").max())
    return found.sort("size", "name", "server_name", descending=[True, False, False]).head(5)


def rows(frame):
    return frame.collect().to_dicts()


if __name__ == "__main__":
    for answer in answers(sys.argv[1]):
        print(json.dumps(answer))

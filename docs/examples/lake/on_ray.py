"""A lake made by a cluster of Ray, one cassette a task, and a question to it: python on_ray.py LAKE TAPE..."""

import json
import sys

import mcp_tape
import ray


@ray.remote
def add(path, lake):
    """Put one cassette into the lake. Tried again, or by two workers at once, it adds nothing twice."""
    return mcp_tape.lake_one(path, lake).as_dict()


def slowest(lake):
    """The slowest tools of each version, as on_duckdb.py has them."""
    columns = ["method", "server_name", "server_version", "name", "microseconds"]
    calls = ray.data.read_parquet(f"{lake}/calls", columns=columns)
    of_tools = calls.filter(lambda row: row["method"] == "tools/call" and row["microseconds"] is not None)
    by_tool = of_tools.groupby(["server_name", "server_version", "name"])
    found = by_tool.aggregate(
        ray.data.aggregate.Count(alias_name="number"), ray.data.aggregate.Max("microseconds", alias_name="slowest")
    )
    return sorted(found.take_all(), key=lambda row: (-row["slowest"], row["name"]))[:5]


if __name__ == "__main__":
    lake, *paths = sys.argv[1:]
    ray.init(include_dashboard=False, log_to_driver=False)
    for row in ray.get([add.remote(path, lake) for path in paths]):
        print(row["cassette"], row["status"], row["counts"].get("calls"))
    print(json.dumps(slowest(lake)))

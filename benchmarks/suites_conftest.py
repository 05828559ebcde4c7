"""Keeps how long each test took, its fixtures included: copied beside the tests as their conftest.py."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from typing import Any

_seconds: defaultdict[str, float] = defaultdict(float)


def pytest_runtest_logreport(report: Any) -> None:
    _seconds[report.nodeid] += report.duration


def pytest_sessionfinish() -> None:
    with open(os.environ["SUITE_TIMES"], "w") as file:
        json.dump(list(_seconds.values()), file)

"""Keeps how long each test took, with all that pytest does for it: copied beside the tests as their conftest.py."""

from __future__ import annotations

import json
import os
from collections.abc import Generator
from time import perf_counter
from typing import Any

import pytest

_milliseconds: list[float] = []


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol() -> Generator[None, Any, Any]:
    before = perf_counter()
    result = yield
    _milliseconds.append((perf_counter() - before) * 1e3)
    return result


def pytest_sessionfinish() -> None:
    with open(os.environ["SUITE_TIMES"], "w") as file:
        json.dump(_milliseconds, file)

"""Fixtures for all tests of verify."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def forked(forked_recorders: None) -> None:
    """Fork the recorder that stands between a play and its server."""

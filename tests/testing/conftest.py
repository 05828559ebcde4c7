"""Fixtures for tests of tapes in use."""

from __future__ import annotations

import sys

import pytest

from tests.support import suites


@pytest.fixture
def forked_recorders(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fork the recorders that a tape starts itself, for a URL."""
    monkeypatch.setattr(sys, "executable", suites.python())

"""Functions by name, so that a process can be told of them."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any


def named_function(name: str) -> Callable[..., Any]:
    """The function `module:function`; ValueError where there is none."""
    module, _, path = name.partition(":")
    try:
        found: Any = importlib.import_module(module)
        for step in path.split("."):
            found = getattr(found, step)
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(f"{name!r} is no function that can be imported: {error}") from None
    if not callable(found):
        raise ValueError(f"{name!r} is not a function")
    return found  # type: ignore[no-any-return]


def name_of(function: Callable[..., Any]) -> str:
    """The other way round; ValueError for one that no other process could import."""
    name = f"{function.__module__}:{function.__qualname__}"
    if function.__module__ == "__main__" or named_function(name) is not function:
        raise ValueError(f"{name} cannot be imported by another process; define it at the top of a module")
    return name

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
    module, path = getattr(function, "__module__", None), getattr(function, "__qualname__", None)
    name = f"{module}:{path}"
    try:
        if module != "__main__" and path and named_function(name) is function:
            return name
    except ValueError:
        pass  # it is within another function, or nowhere
    shown = name if path else repr(function)
    raise ValueError(f"{shown} cannot be imported by another process; define it at the top of a module")

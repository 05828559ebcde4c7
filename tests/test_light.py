"""The light replacements in `light` behave like the originals."""

from __future__ import annotations

import contextlib
import copy
import hashlib
import pickle
import re
import signal
import socket
import typing
from typing import Any

import pytest

from mcp_tape import light
from tests.support.running import python, run


class Ours(light.NamedTuple):
    """A place."""

    name: str
    size: int = 3
    more: tuple[str, ...] = ()

    @property
    def double(self) -> int:
        return 2 * self.size

    def grown(self, by: int) -> Ours:
        return self._replace(size=self.size + by)


class Theirs(typing.NamedTuple):
    """A place."""

    name: str
    size: int = 3
    more: tuple[str, ...] = ()

    @property
    def double(self) -> int:
        return 2 * self.size

    def grown(self, by: int) -> Theirs:
        return self._replace(size=self.size + by)


class Child(Ours):
    __slots__ = ()

    def shout(self) -> str:
        return self.name.upper()


both = pytest.mark.parametrize("kind", [Ours, Theirs])


@both
def test_a_named_tuple_is_made_read_and_compared(kind: Any) -> None:
    one = kind("x")
    assert one == ("x", 3, ()) == kind(name="x") == kind("x", 3, more=()) and hash(one) == hash(("x", 3, ()))
    assert (one.name, one.size, one.double, one[0], one[-1], len(one)) == ("x", 3, 6, "x", (), 3)
    name, *rest = one
    assert (name, rest) == ("x", [3, ()])
    assert one.grown(2) == ("x", 5, ()) and type(one.grown(2)) is kind
    assert kind._make(["y", 1, ()]) == kind("y", 1)
    assert one._asdict() == {"name": "x", "size": 3, "more": ()}
    assert repr(one) == f"{kind.__name__}(name='x', size=3, more=())"
    assert kind._fields == kind.__match_args__ == ("name", "size", "more")
    assert kind._field_defaults == {"size": 3, "more": ()}
    assert kind.__doc__ == "A place." and kind.__module__ == __name__ and kind.__qualname__ == kind.__name__
    assert not hasattr(one, "__dict__")
    match one:
        case kind(name, size=size):
            assert (name, size) == ("x", 3)


@both
@pytest.mark.parametrize("given", [((), {}), (("x", 1, (), 4), {}), (("x",), {"other": 1}), (("x",), {"name": "y"})])
def test_a_named_tuple_refuses_invalid_fields(kind: Any, given: tuple[tuple[Any, ...], dict[str, Any]]) -> None:
    values, named = given
    with pytest.raises(TypeError):
        kind(*values, **named)


@both
def test_a_named_tuple_refuses_to_be_changed(kind: Any) -> None:
    with pytest.raises(AttributeError):
        kind("x").name = "y"
    with pytest.raises(AttributeError):
        kind("x").other = 1
    with pytest.raises((ValueError, TypeError)):  # depends on the version of Python
        kind("x")._replace(other=1)
    with pytest.raises(TypeError):
        kind._make(["x"])


@both
def test_a_named_tuple_can_be_copied_and_pickled(kind: Any) -> None:
    one = kind("x", more=("a",))
    for other in (copy.copy(one), copy.deepcopy(one), pickle.loads(pickle.dumps(one))):
        assert other == one and type(other) is kind


def test_a_child_of_a_named_tuple_is_made_first_or_later() -> None:
    one = Child("x")
    assert (one.shout(), type(one), type(one.grown(1)), type(Ours("x"))) == ("X", Child, Child, Ours)


@pytest.mark.parametrize("source", ["(a+)b", b"(?s)x.y"])
def test_a_pattern_finds_the_same_as_a_compiled_one(source: Any) -> None:
    ours, theirs = light.pattern(source), re.compile(source)
    for text in ("caab ab", "x\ny", ""):
        asked = text if isinstance(source, str) else text.encode()
        for how in ("search", "match", "fullmatch"):
            found, expected = getattr(ours, how)(asked), getattr(theirs, how)(asked)
            assert (found and found.span()) == (expected and expected.span())
        assert ours.findall(asked) == theirs.findall(asked) and ours.split(asked) == theirs.split(asked)
    assert ours.pattern == source


def test_a_pattern_is_not_compiled_before_it_is_used() -> None:
    source = "import sys; from mcp_tape.light import pattern; one = pattern('('); assert 're' not in sys.modules"
    assert run(python(source)).stderr == b""


@pytest.mark.parametrize("suppress", [light.suppress, contextlib.suppress])
def test_errors_of_some_kinds_are_suppressed(suppress: Any) -> None:
    with suppress(KeyError, OSError):
        raise FileNotFoundError
    with suppress(KeyError):
        pass
    with pytest.raises(ValueError, match="x"), suppress(KeyError, OSError):
        raise ValueError("x")


@pytest.mark.parametrize("closing", [light.closing, contextlib.closing])
def test_a_resource_is_closed_after_an_error_too(closing: Any) -> None:
    class Thing:
        is_open = True

        def close(self) -> None:
            self.is_open = False

    one, other = Thing(), Thing()
    with closing(one) as same:
        assert same is one and one.is_open
    with pytest.raises(KeyError), closing(other):
        raise KeyError
    assert not one.is_open and not other.is_open


def test_modules_of_the_interpreter_work_as_the_usual_ones() -> None:
    assert light.sha256(b"tape").digest() == hashlib.sha256(b"tape").digest()
    assert light.signal.SIGTERM == signal.SIGTERM and light.socket.AF_UNIX == socket.AF_UNIX
    with contextlib.closing(light.sqlite3.connect(":memory:")) as db:  # Python 3.13 reports one that is left open
        assert db.execute("SELECT 1").fetchone() == (1,)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        light.nothing  # type: ignore[attr-defined]  # noqa: B018


@pytest.mark.parametrize("name", ["sqlite3", "signal", "socket", "json", "ctypes"])
def test_without_the_interpreter_s_module_the_usual_one_is_used(name: str) -> None:
    hidden = f"import sys, {name}; sys.modules['_{name}'] = None"
    done = run(python(f"{hidden}; from mcp_tape import light; print(light.{name}.__name__)"))
    assert (done.stdout, done.stderr) == (f"{name}\n".encode(), b"")

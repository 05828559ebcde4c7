"""Small replacements for parts of `typing`, `re`, `collections`, `contextlib` and others, which are slow to load.

They are used like the originals, which type checkers see. `sqlite3`, `signal`, `socket`, `json` and `ctypes` are the
interpreter's private C modules: without date adapters, enums, selectors, decoders and structures.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as in the package's __init__
if TYPE_CHECKING:
    import re
    import signal as signal
    import socket as socket
    import sqlite3 as sqlite3
    from collections import deque as deque
    from contextlib import closing as closing
    from contextlib import suppress as suppress
    from hashlib import sha256 as sha256
    from typing import Any, AnyStr
    from typing import NamedTuple as NamedTuple

    ctypes: Any
    json: Any

    def pattern(source: AnyStr) -> re.Pattern[AnyStr]: ...

else:
    try:
        # `collections` takes longer to load than this whole module.
        from _collections import _tuplegetter, deque
    except ImportError:  # not CPython: use its substitute
        from collections import _tuplegetter, deque  # noqa: F401

    class _Tuple(tuple):
        """The base of all named tuples; see collections.namedtuple."""

        __slots__ = ()

        def __new__(cls, /, *given, **named):
            """Compile the `__new__` of a class for its first instance: most classes never get one."""
            owner = next(one for one in cls.__mro__ if "_fields" in vars(one))
            fields, defaults = ", ".join(owner._fields), owner._field_defaults
            made = eval(f"lambda _cls, {fields}: _new(_cls, ({fields},))", {"_new": tuple.__new__, "__builtins__": {}})
            made.__defaults__ = tuple(defaults.values())
            made.__name__ = "__new__"
            owner.__new__ = staticmethod(made)
            return made(cls, *given, **named)

        @classmethod
        def _make(cls, values):
            made = tuple.__new__(cls, values)
            if len(made) != len(cls._fields):
                raise TypeError(f"Expected {len(cls._fields)} arguments, got {len(made)}")
            return made

        def _replace(self, /, **values):
            made = self._make(map(values.pop, self._fields, self))
            if values:
                raise ValueError(f"Got unexpected field names: {list(values)!r}")
            return made

        def _asdict(self):
            return dict(zip(self._fields, self, strict=True))

        def __repr__(self):
            return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self._asdict().items())})"

        def __getnewargs__(self):
            return tuple(self)

    class _Tuples(type):
        """Makes a named tuple of each class that has `NamedTuple` as its base."""

        def __new__(cls, name, bases, space):
            if not bases:
                return super().__new__(cls, name, bases, space)
            fields = tuple(space["__annotations__"])
            space["_field_defaults"] = {field: space[field] for field in fields if field in space}
            space["_fields"] = space["__match_args__"] = fields
            for place, field in enumerate(fields):
                space[field] = _tuplegetter(place, None)
            return type(name, (_Tuple,), {"__slots__": (), **space})

    class NamedTuple(metaclass=_Tuples):
        """The base class to write. The resulting class is a tuple, not a subclass of this."""

    class pattern:  # noqa: N801 - as re.compile is written
        """A regular expression that is compiled on first use. Write flags inline, as in `(?s)`."""

        def __init__(self, source):
            self.pattern = source

        def __getattr__(self, name):
            import re

            found = getattr(re.compile(self.pattern), name)  # `re` caches it for other names
            setattr(self, name, found)  # later look-ups bypass this method
            return found

    class closing:  # noqa: N801 - as contextlib has it
        def __init__(self, thing):
            self._thing = thing

        def __enter__(self):
            return self._thing

        def __exit__(self, *_):
            self._thing.close()

    class suppress:  # noqa: N801 - as contextlib has it
        def __init__(self, *errors):
            self._errors = errors

        def __enter__(self):
            pass

        def __exit__(self, kind, *_):
            return kind is not None and issubclass(kind, self._errors)

    def __getattr__(name):
        """Load a module on first use: the private C module, or outside CPython the public one."""
        # hashlib loads OpenSSL, which takes longer than this package.
        for module in ("_sha2", "_sha256", "hashlib") if name == "sha256" else (f"_{name}", name):
            with suppress(ImportError):
                found = __import__(module)
                return found.sha256 if name == "sha256" else found
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

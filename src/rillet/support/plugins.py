"""Objects that packages add to Rillet under a name: the built-in ones, then those that entry points announce.

An entry point names a callable that makes the object without arguments, usually a class::

    [project.entry-points."rillet.backends"]
    toy = "rillet_toy:ToyBackend"

An object is imported on first use only. A name has one owner: two packages that claim it are an error naming both.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from importlib.metadata import EntryPoint, entry_points
from typing import Generic, TypeVar, cast

from rillet.errors import CompileError
from rillet.support.suggestions import did_you_mean

_OWN = "rillet"  # the package of the built-in ones

T = TypeVar("T")


class Plugins(Generic[T]):
    """The objects of one kind, by name."""

    def __init__(self, kind: str, protocol: type, built_in: Mapping[str, str]):
        """``kind``: the word for one object, such as "backend"; its entry-point group is ``rillet.backends``.
        ``protocol``: a runtime-checkable protocol with a ``name``. ``built_in``: module and object by name, as entry
        points write them."""
        self._kind = kind
        self._protocol = protocol
        self._group = f"rillet.{kind}s"
        self._built_in = built_in
        self._made: dict[str, T] = {}

    def names(self) -> list[str]:
        """All names, the built-in ones first. Raises ``CompileError`` where two packages claim one."""
        return list(self._points)

    def get(self, name: str) -> T:
        """The object of that name.

        Raises ``CompileError`` for an unknown name, naming the known ones, and for a package whose object cannot be
        loaded or is of another kind.
        """
        if name not in self._points:
            close = did_you_mean(name, self._points)
            raise CompileError(f"unknown {self._kind} '{name}'{close}; known {self._kind}s: {', '.join(self._points)}")
        if name not in self._made:
            self._made[name] = self._load(name)
        return self._made[name]

    def package(self, name: str) -> str | None:
        """The package whose entry point announces ``name``; None for a built-in name."""
        return None if name in self._built_in else _owner(self._points[name])

    @cached_property
    def _points(self) -> dict[str, EntryPoint]:
        points = {name: EntryPoint(name, path, self._group) for name, path in self._built_in.items()}
        for point in sorted(entry_points(group=self._group), key=lambda p: p.name):
            if point.name in points:
                owners = f"{_owner(points[point.name])} and {_owner(point)}"
                raise CompileError(
                    f"the packages {owners} both have a {self._kind} named '{point.name}': uninstall one of them"
                )
            points[point.name] = point
        return points

    def _load(self, name: str) -> T:
        point = self._points[name]
        try:
            made = point.load()()
        except Exception as error:
            if name in self._built_in:
                raise
            raise CompileError(
                f"the {self._kind} '{name}' of the package {_owner(point)} cannot be loaded "
                f"({type(error).__name__}: {error}): mend or uninstall it"
            ) from error
        if not isinstance(made, self._protocol) or getattr(made, "name", None) != name:
            raise CompileError(
                f"the package {_owner(point)} names '{name}' as a {self._kind}, but {point.value} is not one"
            )
        return cast(T, made)


def _owner(point: EntryPoint) -> str:
    """The package that an entry point belongs to."""
    return point.dist.name if point.dist else _OWN

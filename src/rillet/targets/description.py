"""Reads a target from a TOML file with the tables ``[packing]``, ``[deployment]`` and ``[machine]``; their fields are
those of the dataclasses."""

from __future__ import annotations

import dataclasses
import tomllib
import typing
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar

from rillet.errors import CompileError
from rillet.targets.backends import BACKENDS
from rillet.targets.target import Deployment, Machine, Packing, Target

_KINDS = {bool: "true or false", int: "a whole number", str: "a string", tuple[str, ...]: "a list of strings"}

T = TypeVar("T")


def read(path: Path | resources.abc.Traversable) -> Target[Machine]:
    """The target that a TOML file describes, named after the file.

    Raises ``CompileError`` naming the file and the field where one is unknown, missing or of the wrong type.
    """
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise CompileError(f"cannot read the target description '{path}': {error.strerror}") from error
    except ValueError as error:
        raise CompileError(f"the target description '{path}' is no TOML: {error}") from error
    where = f"the target description '{path}'"
    known = ("backend", "packing", "deployment", "machine")
    if unknown := [name for name in tables if name not in known]:
        raise CompileError(f"{where} has an unknown field '{unknown[0]}'; fields and tables: {', '.join(known)}")
    backend = tables.get("backend")
    if not isinstance(backend, str):
        raise CompileError(f'{where} names no backend: write backend = "cpu" on top')
    if backend not in BACKENDS.names():
        raise CompileError(f"{where}: unknown backend '{backend}'; known backends: {', '.join(BACKENDS.names())}")
    return Target(
        name=path.name.removesuffix(".toml"),
        backend=backend,
        packing=_record(Packing, tables.get("packing", {}), f"{where}: [packing]"),
        deployment=_record(Deployment, tables.get("deployment", {}), f"{where}: [deployment]"),
        machine=_record(BACKENDS.get(backend).machine, tables.get("machine", {}), f"{where}: [machine]"),
    )


def _record(kind: type[T], table: Any, where: str) -> T:
    """A frozen dataclass from a table with its fields."""
    if not isinstance(table, Mapping):
        raise CompileError(f"{where} must be a table, not {table!r}")
    types = typing.get_type_hints(kind)
    fields = {f.name: f for f in dataclasses.fields(kind)}  # type: ignore[arg-type]  # any dataclass
    if unknown := [name for name in table if name not in fields]:
        raise CompileError(f"{where} has an unknown field '{unknown[0]}'; fields: {', '.join(fields)}")
    if missing := [n for n, f in fields.items() if f.default is dataclasses.MISSING and n not in table]:
        raise CompileError(f"{where} lacks the field '{missing[0]}', {_KINDS[types[missing[0]]]}")
    return kind(**{name: _value(value, types[name], f"{where} field '{name}'") for name, value in table.items()})


def _value(value: Any, kind: Any, where: str) -> Any:
    if kind == tuple[str, ...]:
        is_right = isinstance(value, list) and all(isinstance(item, str) for item in value)
    else:
        is_right = type(value) is kind  # a bool is an int, but not here
    if not is_right:
        raise CompileError(f"{where} must be {_KINDS[kind]}, not {value!r}")
    return tuple(value) if isinstance(value, list) else value

"""MLIR as a frontend: a model is a parsed module, and each program is a copy of it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from torch_mlir import ir

from rillet.errors import CompileError
from rillet.frontends.frontend import InputSpec, Shapes, Survey, Values
from rillet.frontends.mlir.pin import pin
from rillet.frontends.mlir.survey import inputs, survey
from rillet.frontends.pinned_dimensions import pinned_inputs
from rillet.frontends.source_path import checked_path
from rillet.ir import Program


class MlirFrontend:
    """Opens linalg on tensors, TOSA and StableHLO."""

    name = "mlir"
    sources = "MLIR (the path of an .mlir file, its text, or an ir.Module)"

    def accepts(self, source: Any) -> bool:
        """Whether it is a module, text of several lines or with a function, or a path that ends in ``.mlir``."""
        if isinstance(source, str) and _is_text(source):
            return True
        return isinstance(source, ir.Module) or (
            isinstance(source, str | os.PathLike) and os.fsdecode(source).endswith(".mlir")
        )

    def open(self, source: Any) -> MlirModel:
        """Parse it. Raises CompileError when it cannot be read or is invalid."""
        from rillet.frontends.mlir.text import parse  # lazy: every frontend is asked what it opens, few open anything

        if isinstance(source, ir.Module):  # its context may lack dialects
            return MlirModel(parse(source.operation.get_asm()))
        if isinstance(source, str) and _is_text(source):
            return MlirModel(parse(source))
        path = checked_path(source)
        return MlirModel(parse(_read_text(path), path))


class MlirModel:
    """A module that has been parsed; ``read`` is the one before shapes were pinned in it."""

    def __init__(self, module: ir.Module, read: ir.Module | None = None):
        self._module = module
        self._read = read or module

    @cached_property
    def inputs(self) -> tuple[InputSpec, ...]:
        """The entry's arguments, by their ``rillet.name`` and ``rillet.dims`` where the module has these."""
        return inputs(self._module)

    def pinned(self, shapes: Shapes, dims: Mapping[str, int]) -> MlirModel:
        """The module with sizes in place of dynamic dimensions of its entry's arguments."""
        module = _copy(self._module)
        pin(module, pinned_inputs(self.inputs, shapes, dims))
        return MlirModel(module, self._read)

    def survey(self) -> Survey:
        """The survey of the ops of all functions."""
        return survey(self._read)

    def program(self, values: Values | None = None) -> Program:
        """A copy in the tensor form. Raises CompileError, also for ``values``: nothing here relies on them."""
        if values:
            raise CompileError("values= is not for MLIR: make the inputs constants of the function instead")
        from rillet.frontends.mlir.importer import import_module

        return import_module(_copy(self._module))


def _copy(module: ir.Module) -> ir.Module:
    with module.context, ir.Location.unknown():
        copy = ir.Module.create()
        for name in module.operation.attributes:
            copy.operation.attributes[name] = module.operation.attributes[name]
        for op in module.body.operations:
            copy.body.append(op.operation.clone())
    return copy


def _is_text(text: str) -> bool:
    return "\n" in text or "func.func" in text


def _read_text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CompileError(
            f"cannot read {path}: {getattr(error, 'strerror', None) or 'it is no UTF-8 text'}"
        ) from error

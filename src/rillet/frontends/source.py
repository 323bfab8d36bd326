"""Finds the frontend for a source: ONNX (path, bytes or ModelProto) or MLIR (path, text or module)."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from torch_mlir import ir

from rillet.errors import CompileError
from rillet.ir import Program
from rillet.support.files import path_text

if TYPE_CHECKING:
    import onnx

    Source: TypeAlias = str | os.PathLike[str] | bytes | onnx.ModelProto | ir.Module

Shapes = Mapping[str, Sequence[int | str]]
Values = Mapping[str, np.ndarray]


def import_source(source: Source, inputs: Shapes | None = None, values: Values | None = None) -> Program:
    """Import ``source`` into the tensor form; ``values`` are inputs whose value the code may rely on (ONNX only).

    Raises ``CompileError`` when it is none of the accepted kinds.
    """
    from rillet.frontends.mlir import text as mlir

    if isinstance(source, ir.Module):
        return mlir.import_text(source.operation.get_asm(), inputs)
    if isinstance(source, str) and _is_mlir_text(source):
        return mlir.import_text(source, inputs)
    given = onnx_source(source)
    if isinstance(given, Path) and given.suffix == ".mlir":
        return mlir.import_text(_read_text(given), inputs)
    return _import_onnx(given, inputs, values)


def onnx_source(source: Source) -> Path | bytes | onnx.ModelProto:
    """A source that is no MLIR module and no MLIR text: the path of a file that is there, bytes, or a ModelProto.

    Raises ``CompileError`` when it is none of these.
    """
    if isinstance(source, str | os.PathLike):
        return checked_path(source)
    if isinstance(source, bytes | bytearray | memoryview):
        return bytes(source)
    if hasattr(source, "SerializeToString") and hasattr(source, "graph"):
        return source
    raise CompileError(
        f"cannot compile an object of type {type(source).__name__}: "
        "give a path, ONNX bytes, an onnx.ModelProto, or MLIR text"
    )


def checked_path(source: str | os.PathLike[str]) -> Path:
    """The path of a model file, which is there and no folder. Raises ``CompileError``."""
    name = path_text(source, "cannot compile", CompileError)
    if os.path.isdir(name):
        raise CompileError(f"{name} is a folder; give a model file")
    try:
        os.stat(name)
    except FileNotFoundError:
        raise CompileError(f"{name}: no such file") from None
    except OSError as error:
        raise CompileError(f"cannot read {name}: {error.strerror}") from error
    return Path(name)


def _read_text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CompileError(
            f"cannot read {path}: {getattr(error, 'strerror', None) or 'it is no UTF-8 text'}"
        ) from error


def _import_onnx(source: Path | bytes | onnx.ModelProto, inputs: Shapes | None, values: Values | None) -> Program:
    from rillet.frontends.onnx import import_model

    return import_model(source, inputs=inputs, values=values)


def is_mlir(source: Source) -> bool:
    """Whether ``import_source`` would read ``source`` as MLIR."""
    if isinstance(source, str) and _is_mlir_text(source):
        return True
    return isinstance(source, ir.Module) or (isinstance(source, str | os.PathLike) and Path(source).suffix == ".mlir")


def _is_mlir_text(text: str) -> bool:
    return "\n" in text or "func.func" in text

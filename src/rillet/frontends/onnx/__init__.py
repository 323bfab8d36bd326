"""The ONNX frontend: models become the tensor form, straight to linalg/tensor/arith/math/scf.

``loader.py`` reads, ``importer.py`` walks the graph, ``ops/`` has the importers, one op family per file.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from torch_mlir.ir import MLIRError

from rillet.errors import CompileError, UnsupportedError, UnsupportedNode
from rillet.ir import Program

if TYPE_CHECKING:
    import onnx

__all__ = ["coverage", "import_model"]


def import_model(
    source: str | os.PathLike[str] | bytes | onnx.ModelProto,
    inputs: Mapping[str, Sequence[int | str | None]] | None = None,
    values: Mapping[str, np.ndarray] | None = None,
) -> Program:
    """Import a model: a path, the bytes of a file, or a ModelProto.

    ``inputs`` pins dynamic dimensions of inputs by name; a string names a dynamic dimension, -1 or None leaves it
    dynamic. Naming an initializer makes it an input. Dimensions of one name have one size at run time; pinning one pins
    those of the inputs left out. ``values``
    specializes the program on the value of inputs (axes, shapes, pads, ... that shape the code): they stay arguments
    of @main but are not read.

    Raises CompileError when the model cannot be read or is invalid, and UnsupportedError, which lists every node that
    cannot be compiled. Warns (RuntimeWarning) of values whose declared types contradict what the nodes compute.
    """
    program, unsupported = _import(source, inputs, values)
    if unsupported:
        raise UnsupportedError(unsupported)
    try:
        program.module.operation.verify()
    except MLIRError as error:
        raise CompileError(
            f"the imported module does not verify; this is a defect in Rillet's frontend: {error}"
        ) from error
    return program


def coverage(
    source: str | os.PathLike[str] | bytes | onnx.ModelProto,
    inputs: Mapping[str, Sequence[int | str | None]] | None = None,
    values: Mapping[str, np.ndarray] | None = None,
) -> list[UnsupportedNode]:
    """Every node of the model that cannot be compiled; empty when all can. Raises CompileError for an invalid model."""
    return _import(source, inputs, values)[1]


def _import(
    source: str | os.PathLike[str] | bytes | onnx.ModelProto,
    inputs: Mapping[str, Sequence[int | str | None]] | None,
    values: Mapping[str, np.ndarray] | None,
) -> tuple[Program, list[UnsupportedNode]]:
    from rillet.frontends.onnx.importer import GraphImporter
    from rillet.frontends.onnx.loader import load_model

    importer = GraphImporter(load_model(source), inputs, values)
    program = importer.run()
    return program, importer.unsupported

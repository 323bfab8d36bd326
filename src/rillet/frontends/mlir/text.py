"""MLIR text becomes the tensor form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch_mlir import ir

from rillet.errors import CompileError, advice
from rillet.frontends.arguments import checked_shapes
from rillet.frontends.mlir import dialects
from rillet.frontends.mlir.importer import import_module
from rillet.ir import Program, make_context


def import_text(text: str, inputs: Mapping[str, Sequence[int | str]] | None = None) -> Program:
    """Parse MLIR text and bring it to the tensor form.

    Raises ``CompileError`` when the text does not parse or verify, for ``inputs``, and as ``import_module`` does.
    """
    if checked_shapes(inputs):
        what = advice("inputs=", "--shape")
        raise CompileError(f"{what} cannot override shapes of MLIR: change the function's types instead")
    return import_module(parse(text))


def parse(text: str) -> ir.Module:
    """The module that MLIR text holds, in a context of its own that knows every dialect of the frontend."""
    context = make_context()
    dialects.load(context)
    try:
        return ir.Module.parse(text, context)
    except ir.MLIRError as error:
        raise CompileError(f"the MLIR text is invalid: {error}") from error

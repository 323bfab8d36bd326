"""Reads MLIR text."""

from __future__ import annotations

from torch_mlir import ir

from rillet.errors import CompileError
from rillet.frontends.mlir import dialects
from rillet.ir import make_context


def parse(text: str) -> ir.Module:
    """The module that MLIR text holds, in a context of its own that knows every dialect of the frontend.

    Raises ``CompileError`` when the text does not parse or verify.
    """
    context = make_context()
    context.allow_unregistered_dialects = True  # unknown ones are reported later, all ops at once
    dialects.load(context)
    try:
        return ir.Module.parse(text, context)
    except ir.MLIRError as error:
        raise CompileError(f"the MLIR text is invalid: {error}") from error

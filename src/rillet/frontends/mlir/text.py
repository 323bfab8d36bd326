"""Reads MLIR text."""

from __future__ import annotations

from pathlib import Path

from torch_mlir import ir

from rillet.errors import CompileError
from rillet.frontends.mlir import dialects
from rillet.ir import make_context

_UNNAMED = "-"  # what the parser calls the file of a text


def parse(text: str, path: Path | None = None) -> ir.Module:
    """The module that MLIR text holds, in a context of its own that knows every dialect of the frontend.

    Raises ``CompileError``, which names the file ``path`` where the text is of one, when the text is empty, and when it
    does not parse or verify.
    """
    what = "the MLIR text" if path is None else str(path)
    if not text.strip():
        raise CompileError(f"{what} is empty, not an MLIR module")
    context = make_context()
    context.allow_unregistered_dialects = True  # unknown ones are reported later, all ops at once
    dialects.load(context)
    try:
        return ir.Module.parse(text, context)
    except ir.MLIRError as error:
        reason = str(error) if path is None else str(error).replace(f'"{_UNNAMED}":', f"{path}:")
        raise CompileError(f"the MLIR text is invalid: {reason}") from error

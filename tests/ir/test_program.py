"""A program: a module and its constants."""

from __future__ import annotations

import numpy as np
import pytest
from torch_mlir import ir

from rillet.ir import Program
from rillet.ir.program import Constants


def test_constants_get_names_of_their_own() -> None:
    constants = Constants()
    array = np.zeros(2)
    hints = ["layer/w:0", "layer/w:0", "layer_w_0_1", "", "main", "kernels"]
    names = [constants.add(array, hint) for hint in hints]
    assert names == ["layer_w_0", "layer_w_0_1", "layer_w_0_1_1", "constant", "main_1", "kernels_1"]
    assert list(constants) == names and all(constants[name] is array for name in names)
    del constants["main_1"]
    assert "main_1" not in constants and constants.get("main_1") is None and len(constants) == 5


def test_functions_are_found_by_name() -> None:
    program = Program.parse("func.func @main() { return } func.func private @other()")
    assert [ir.StringAttr(f.attributes["sym_name"]).value for f in (program.main(), program.function("other"))] == [
        "main",
        "other",
    ]
    with pytest.raises(KeyError, match="no function @third"):
        program.function("third")


def test_text_that_is_no_module() -> None:
    with pytest.raises(ir.MLIRError):
        Program.parse("func.func @main( {")

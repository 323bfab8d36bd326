"""The builder on its own: any frontend uses it, and nothing of ONNX comes with it."""

from __future__ import annotations

import subprocess
import sys

import numpy as np

from rillet.frontends.building.main_function import Result, main_function
from rillet.frontends.building.scalars import maximum
from rillet.frontends.frontend import InputSpec
from rillet.ir import Program
from tests.support.onnx_interpreter import evaluate

_WITHOUT_ONNX = """
import importlib, pkgutil, sys
import numpy as np
import rillet
from rillet.frontends import building
for module in pkgutil.walk_packages(building.__path__, f"{building.__name__}."):
    importlib.import_module(module.name)
from tests.support.affine_frontend import Affine, AffineModel

layer = Affine(np.ones((8, 4), np.float32), np.full(4, -7, np.float32))
result = rillet.compile(AffineModel(layer), threads=1, jobs=1)(np.ones((3, 8), np.float32))
np.testing.assert_array_equal(result, np.ones((3, 4), np.float32))
found = [name for name in sys.modules if name.partition(".")[0] == "onnx" or name.startswith("rillet.frontends.onnx")]
assert not found, found
"""


def test_a_program_is_built_and_compiled_without_onnx() -> None:
    subprocess.run([sys.executable, "-c", _WITHOUT_ONNX], check=True, timeout=120)


def _sums() -> Program:
    """The sum of two inputs of as many rows, above zero, and both after each other."""
    inputs = [InputSpec("a", "float32", ("N", 2)), InputSpec("b", "float32", ("N", 2))]
    with main_function(inputs) as main:
        a, b = main.arguments
        total = main.b.map(lambda v, w: maximum(v + w, 0), a, b)
        main.finish([Result("sum", total), Result("both", main.b.concat([a, b], 0), ("rows",))])
    return main.program


def test_dimensions_of_one_name_are_one_extent() -> None:
    program = _sums()
    text = str(program.module)
    assert text.count("tensor.dim") == 1 and "cf.assert" not in text
    assert '"rillet.name" = "a"' in text or 'rillet.name = "a"' in text
    a, b = np.arange(6, dtype=np.float32).reshape(3, 2) - 4, np.ones((3, 2), np.float32)
    total, both = evaluate(program, [a, b])
    np.testing.assert_array_equal(total, np.maximum(a + b, 0))
    np.testing.assert_array_equal(both, np.concatenate([a, b]))


def test_results_name_their_dimensions() -> None:
    attributes = str(_sums().main().attributes["res_attrs"])
    assert 'rillet.dims = ["N", "2"]' in attributes and 'rillet.dims = ["rows", "2"]' in attributes

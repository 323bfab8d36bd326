"""Results of one dispatch that turn out to be the same tensor."""

from __future__ import annotations

import numpy as np
import onnx
from torch_mlir import ir

import rillet
from rillet.ir.kernels import functions
from tests.support.importing import import_model
from tests.support.stages import passes

_MODEL = """<ir_version: 11, opset_import: ["" : 23]>
same (float[N,16,5] x) => (int64[N,5] y, int64[N,5] z, float[N,5] s) <int64[2] shape = {-1, 5}, int64[1] axes = {1}> {
   a = ArgMin <axis: int = 1, keepdims: int = 0> (x)
   y = Reshape (a, shape)
   z = BitwiseAnd (y, a)
   s = ReduceSum <keepdims: int = 0> (x, axes)
}"""


def test_a_kernel_returns_each_tensor_once() -> None:
    program = import_model(onnx.parser.parse_model(_MODEL))
    for step in passes("optimize", "dispatch"):
        step(program)
    with program.context:
        for function in functions(program).values():
            *_, end = (op.operation for op in function.regions[0].blocks[0].operations)
            assert len(set(end.operands)) == len(end.operands)
            type_ = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
            assert len(type_.results) == len(end.operands)


def test_both_results_are_written() -> None:
    module = rillet.compile(onnx.parser.parse_model(_MODEL), threads=1)
    x = np.random.default_rng(0).standard_normal((3, 16, 5)).astype(np.float32)
    results = module.run({"x": x})
    np.testing.assert_array_equal(results["y"], x.argmin(1))
    np.testing.assert_array_equal(results["z"], x.argmin(1))
    np.testing.assert_allclose(results["s"], x.sum(1), rtol=1e-5, atol=1e-5)
    assert not np.shares_memory(results["y"], results["z"])

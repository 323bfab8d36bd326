"""Weights of a few bits on emulated microcontrollers: results, and what they take in the file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import rillet
from tests.support import firmware

STEPS, COLUMNS, BLOCK = 96, 40, 32


def product(*, zero: bool, rows: int) -> onnx.ModelProto:
    """``x`` times weights of 4 bits with a scale, and a zero point if asked for, for every 32 steps of a column."""
    random, blocks = np.random.default_rng(0), (STEPS // BLOCK, COLUMNS)
    storage = helper.tensor_dtype_to_np_dtype(TensorProto.INT4)
    constants = [
        numpy_helper.from_array(random.integers(-8, 8, (STEPS, COLUMNS)).astype(storage), "w"),
        numpy_helper.from_array(random.uniform(0.01, 0.02, blocks).astype(np.float32), "s"),
        numpy_helper.from_array(random.integers(-8, 8, blocks).astype(storage), "z"),
    ][: 3 if zero else 2]
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "s", "z"][: len(constants)], ["d"], axis=0, block_size=BLOCK),
        helper.make_node("MatMul", ["x", "d"], ["y"]),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [rows, STEPS])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [rows, COLUMNS])
    graph = helper.make_graph(nodes, "product", [x], [y], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


@pytest.mark.parametrize("rows", [1, 5])
@pytest.mark.parametrize("zero", [False, True])
@pytest.mark.parametrize("target", ["cortex-m4", "cortex-m55", "riscv32imf"])
def test_blocks_of_weights(target: str, zero: bool, rows: int, tmp_path: Path) -> None:
    firmware.require_emulator(target)
    model = product(zero=zero, rows=rows)
    x = np.random.default_rng(1).standard_normal((rows, STEPS), np.float32)
    module = rillet.compile(model, target=target)
    (y,), _ = firmware.run(module, firmware.link(module, module.export(tmp_path / "model")), [x])
    (expected,) = ReferenceEvaluator(model).run(None, {"x": x})
    assert y.shape == expected.shape and np.abs(y - expected).max() < 1e-5 * np.abs(expected).max()


def test_two_weights_share_a_byte_where_that_costs_nothing() -> None:
    model = product(zero=False, rows=1)
    together, apart = (rillet.compile(model, target=t).stats["constant_bytes"] for t in ("cortex-m4", "cortex-m55"))
    assert apart - together == STEPS * COLUMNS // 2

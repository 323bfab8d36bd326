"""MatMulNBits against ONNX Runtime, whose operator it is."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import rillet
from rillet.errors import CompileError, UnsupportedError

COLUMNS = 24


def model(
    bits: int = 4,
    steps: int = 96,
    block: int = 32,
    zero: np.dtype | type | None = None,
    dtype: type = np.float32,
    bias: bool = False,
    **changed: object,
) -> onnx.ModelProto:
    random = np.random.default_rng(bits + steps)
    blocks = -(-steps // block)
    arrays = {
        "b": random.integers(0, 256, (COLUMNS, blocks, block * bits // 8)).astype(np.uint8),
        "s": random.uniform(0.01, 0.02, (COLUMNS, blocks)).astype(dtype),
    }
    if zero is np.uint8:
        arrays["z"] = random.integers(0, 256, (COLUMNS, -(-blocks * bits // 8))).astype(np.uint8)
    elif zero is not None:
        arrays["z"] = random.uniform(0, (1 << bits) - 1, (COLUMNS, blocks)).astype(zero)
    if bias:
        arrays["c"] = random.standard_normal(COLUMNS).astype(dtype)
    names = ["x", "b", "s", "z" if zero is not None else "", "", "c" if bias else ""]
    while not names[-1]:
        names.pop()
    attributes = {"bits": bits, "block_size": block, "K": steps, "N": COLUMNS, "accuracy_level": 1}
    node = helper.make_node("MatMulNBits", names, ["y"], name="q", domain="com.microsoft", **attributes)
    graph = helper.make_graph(
        [node],
        "product",
        [helper.make_tensor_value_info("x", helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), ["B", "M", steps])],
        [helper.make_tensor_value_info("y", helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), ["B", "M", COLUMNS])],
        [numpy_helper.from_array(changed.get(name, array), name) for name, array in arrays.items()],
    )
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


@pytest.mark.parametrize(
    "form",
    [
        {},
        {"zero": np.uint8, "bias": True},
        {"zero": np.float32},
        {"bits": 8},
        {"bits": 8, "zero": np.uint8},
        {"bits": 2, "zero": np.uint8},
        {"zero": np.uint8, "steps": 100},  # the last block is not full
        {"zero": np.uint8, "dtype": np.float16, "bias": True},
    ],
)
def test_as_onnx_runtime(form: dict) -> None:
    proto = model(**form)
    module = rillet.compile(proto)
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    for rows in (1, 9):
        x = np.random.default_rng(rows).standard_normal((2, rows, form.get("steps", 96)))
        x = x.astype(form.get("dtype", np.float32))
        (expected,) = session.run(None, {"x": x})
        actual = module(x)
        assert actual.dtype == expected.dtype and actual.shape == expected.shape
        tolerance = 2e-3 if expected.dtype == np.float16 else 1e-6
        assert np.abs(actual - expected).max() <= tolerance * np.abs(expected).max()


def test_weights_stay_narrow() -> None:
    module = rillet.compile(model(steps=512))
    # Two weights a byte; a float32 scale and a byte of a zero point for each block. Panels have whole lines.
    assert module.stats["constant_bytes"] <= 32 * (512 // 2 + 16 * 4 + 16) + 4096
    assert module.stats["arena_bytes"] == 0


def test_what_it_cannot_be() -> None:
    with pytest.raises(UnsupportedError, match=r"'q'.*weights of 3 bits; quantize to 2, 4 or 8 bits"):
        rillet.compile(model(bits=3, block=64, steps=64))
    with pytest.raises(CompileError, match=r"'q'.*B is not 24 x 3 x 16 bytes \(uint8\)"):
        rillet.compile(model(b=np.zeros((COLUMNS, 3, 8), np.uint8)))
    with pytest.raises(CompileError, match=r"'q'.*scales has 24 elements where N x blocks of K takes 24 x 3"):
        rillet.compile(model(s=np.zeros((COLUMNS, 1), np.float32)))
    computed = model()
    computed.graph.input.append(helper.make_tensor_value_info("s", TensorProto.FLOAT, [COLUMNS, 3]))
    del computed.graph.initializer[1]
    with pytest.raises(UnsupportedError, match=r"'q'.*'scales' that is computed; make it an initializer"):
        rillet.compile(computed)

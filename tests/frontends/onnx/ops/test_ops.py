"""Single ops against ONNX Runtime."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.onnx_models import assert_matches, single


def f32(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed + len(shape)).standard_normal(shape).astype(np.float32)


def i64(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


CASES = {
    # broadcasting
    "add-broadcast": ("Add", [f32(2, 3, 4), f32(3, 1)], {}),
    "mul-channel": ("Mul", [f32(2, 3, 4, 5), f32(1, 3, 1, 1)], {"known": [1]}),
    "sub-both": ("Sub", [f32(2, 1, 4), f32(3, 1)], {}),
    "div-dynamic": ("Div", [f32(2, 3), f32(2, 3) + 3], {"shapes": [("a", "b"), ("c", 3)]}),
    "add-dynamic-one": ("Add", [f32(1, 3), f32(2, 3)], {"shapes": [("a", 3), ("b", 3)]}),
    "where": ("Where", [f32(2, 3) > 0, f32(2, 3), f32(1)], {}),
    "int-div": ("Div", [np.array([7, -7, 8]), np.array([2, 2, -3])], {}),
    "mod": ("Mod", [np.array([7, -7, 8]), np.array([3, 3, -3])], {}),
    "max": ("Max", [f32(2, 3), f32(3), f32(2, 1)], {}),
    "clip": ("Clip", [f32(3, 4), np.float32(-0.5), np.float32(0.5)], {"known": [1, 2]}),
    "pow": ("Pow", [np.abs(f32(3, 4)), f32(4)], {}),
    "cast": ("Cast", [f32(3, 4) * 10], {"to": 6}),
    # convolutions
    "conv": ("Conv", [f32(1, 3, 8, 9), f32(4, 3, 3, 3), f32(4)], {"pads": [1, 0, 2, 1], "strides": [2, 1]}),
    "conv-group": ("Conv", [f32(1, 4, 6, 6), f32(6, 2, 3, 3)], {"group": 2, "dilations": [2, 1]}),
    "conv-depthwise": (
        "Conv",
        [f32(2, 4, 6, 6), f32(4, 1, 3, 3)],
        {"group": 4, "auto_pad": "SAME_UPPER", "strides": [2, 2]},
    ),
    "conv-1d": ("Conv", [f32(2, 3, 9), f32(2, 3, 4)], {"auto_pad": "SAME_LOWER"}),
    "conv-3d": ("Conv", [f32(1, 2, 4, 5, 4), f32(3, 2, 2, 2, 2)], {}),
    "conv-dynamic": (
        "Conv",
        [f32(2, 3, 7, 6), f32(2, 3, 3, 3)],
        {"shapes": [("n", 3, "h", "w"), (2, 3, 3, 3)], "auto_pad": "SAME_UPPER", "strides": [2, 2]},
    ),
    "conv-transpose": (
        "ConvTranspose",
        [f32(1, 4, 3, 4), f32(4, 2, 3, 3)],
        {"strides": [2, 1], "pads": [1, 0, 1, 1], "group": 2},
    ),
    "conv-transpose-strides-beyond-the-kernel": (
        "ConvTranspose",
        [f32(1, 2, 3, 4), f32(2, 3, 1, 3)],
        {"strides": [2, 2], "auto_pad": "SAME_UPPER", "group": 1, "shapes": [(1, 2, 3, "w"), (2, 3, 1, 3)]},
    ),
    # pooling
    "maxpool": (
        "MaxPool",
        [f32(1, 2, 7, 8)],
        {"kernel_shape": [3, 2], "strides": [2, 2], "ceil_mode": 1, "pads": [1, 0, 1, 0]},
    ),
    "avgpool-ceil": (
        "AveragePool",
        [f32(1, 2, 6, 7)],
        {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1, "count_include_pad": 0, "opset": 19},
    ),
    "avgpool-include": (
        "AveragePool",
        [f32(1, 2, 6, 7)],
        {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "count_include_pad": 1},
    ),
    "avgpool-dynamic": (
        "AveragePool",
        [f32(1, 2, 6, 7)],
        {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "shapes": [(1, 2, "h", "w")]},
    ),
    "globalpool": ("GlobalAveragePool", [f32(2, 3, 4, 5)], {}),
    # contractions
    "matmul": ("MatMul", [f32(2, 3, 4), f32(4, 5)], {}),
    "matmul-batch": ("MatMul", [f32(2, 1, 3, 4), f32(5, 4, 2)], {}),
    "matmul-vector": ("MatMul", [f32(4), f32(2, 4, 3)], {}),
    "matmul-dynamic": ("MatMul", [f32(2, 3, 4), f32(1, 4, 2)], {"shapes": [("a", "m", "k"), ("b", "k", "n")]}),
    "gemm": ("Gemm", [f32(4, 3), f32(5, 4), f32(5)], {"transA": 1, "transB": 1, "alpha": 0.5, "beta": 2.0}),
    # reductions
    "softmax": ("Softmax", [f32(2, 3, 4)], {"axis": 1}),
    "softmax-12": ("Softmax", [f32(2, 3, 4)], {"axis": 1, "opset": 12}),
    "logsoftmax": ("LogSoftmax", [f32(2, 5)], {}),
    "reducemean": ("ReduceMean", [f32(2, 3, 4)], {"axes": [0, -1], "keepdims": 0}),
    "reducesum": ("ReduceSum", [f32(2, 3, 4), i64(1)], {"known": [1]}),
    "argmax": ("ArgMax", [np.array([[1, 3, 3], [2, 2, 1]], np.float32)], {"axis": 1, "select_last_index": 1}),
    # normalizations
    "batchnorm": (
        "BatchNormalization",
        [f32(2, 3, 4, 5), f32(3), f32(3, seed=1), f32(3, seed=2), np.abs(f32(3)) + 0.1],
        {"known": [1, 2, 3, 4]},
    ),
    "layernorm": ("LayerNormalization", [f32(2, 3, 8) + 100, f32(8), f32(8, seed=1)], {"rtol": 1e-3, "atol": 1e-3}),
    "instancenorm": ("InstanceNormalization", [f32(2, 3, 4, 5), f32(3), f32(3, seed=1)], {}),
    "lrn": ("LRN", [f32(1, 6, 3, 3)], {"size": 5, "alpha": 0.2}),
    # shapes
    "reshape": ("Reshape", [f32(2, 3, 4), i64(0, -1)], {"known": [1]}),
    "transpose": ("Transpose", [f32(2, 3, 4)], {"perm": [2, 0, 1]}),
    "slice": ("Slice", [f32(5, 6), i64(-1, 1), i64(-10, 100), i64(0, 1), i64(-2, 2)], {"known": [1, 2, 3, 4]}),
    "slice-dynamic": ("Slice", [f32(5, 6), i64(1), i64(-1)], {"shapes": [("a", "b"), (1,), (1,)]}),
    "pad-reflect": ("Pad", [f32(3, 4), i64(0, 2, 1, 3)], {"known": [1], "mode": "reflect"}),
    "pad-crop": ("Pad", [f32(3, 4), i64(0, -1, 1, 0)], {"known": [1]}),
    "concat-axis": ("Concat", [f32(2, 3), f32(2, 1)], {"axis": 1}),
    "expand": ("Expand", [f32(3, 1), i64(2, 1, 4)], {"known": [1]}),
    "tile": ("Tile", [f32(2, 3), i64(2, 3)], {"known": [1]}),
    "split": ("Split", [f32(7, 2)], {"outputs": 3, "num_outputs": 3, "opset": 18}),
    "depth-to-space": ("DepthToSpace", [f32(1, 8, 2, 3)], {"blocksize": 2, "mode": "CRD"}),
    "gather": ("Gather", [f32(4, 3), np.array([[0, -1], [2, 1]])], {"axis": 0}),
    "gather-elements": ("GatherElements", [f32(3, 4), np.array([[0, -1, 1, 2]])], {"axis": 0}),
    "gather-nd": ("GatherND", [f32(2, 3, 4), np.array([[0, 1], [1, -1]])], {}),
    # run-time shapes
    "reshape-runtime": ("Reshape", [f32(2, 3, 4), i64(0, -1)], {}),
    "expand-runtime": ("Expand", [f32(3, 1), i64(2, 1, 4)], {}),
    "zero-size": ("Add", [f32(0, 3), f32(3)], {"shapes": [("n", 3), (3,)]}),
    "reduce-zero-size": ("ReduceSum", [f32(2, 0), i64(1)], {"known": [1], "shapes": [(2, "n"), (1,)]}),
    "zero-point-dynamic": (
        "MatMulInteger",
        [np.array([[11, 7], [250, 4]], np.uint8), np.array([[1, 4], [3, 2]], np.uint8), np.array([12], np.uint8)],
        {"shapes": [("a", "b"), ("b", "c"), ("z",)]},
    ),
    # quantization
    "quantize-axis": (
        "QuantizeLinear",
        [f32(2, 3) * 9, np.array([0.1, 0.2, 0.3], np.float32), np.array([1, 2, 3], np.uint8)],
        {"axis": 1},
    ),
    "dequantize": ("DequantizeLinear", [np.array([[1, -2, 3]], np.int8), np.float32(0.5), np.int8(-1)], {}),
    "matmul-integer": (
        "MatMulInteger",
        [np.array([[11, 7], [250, 4]], np.uint8), np.array([[1, 4], [3, 2]], np.uint8), np.uint8(12)],
        {},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_matches_onnxruntime(name: str) -> None:
    op_type, arrays, options = CASES[name]
    options = dict(options)
    tolerances = {k: options.pop(k) for k in ("rtol", "atol") if k in options}
    proto, inputs = single(op_type, [np.asarray(a) for a in arrays], **options)
    assert_matches(proto, inputs, **tolerances)


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("op_type, gates", [("LSTM", 4), ("GRU", 3), ("RNN", 1)])
def test_recurrent(op_type: str, gates: int, direction: str) -> None:
    directions = 2 if direction == "bidirectional" else 1
    size, inputs = 3, 2
    arrays = [
        f32(5, 2, inputs),
        f32(directions, gates * size, inputs),
        f32(directions, gates * size, size, seed=1),
        f32(directions, 2 * gates * size),
        np.array([5, 3], np.int32),
    ]
    options = {"hidden_size": size, "direction": direction, "known": [1, 2, 3]}
    proto, feeds = single(
        op_type, arrays, outputs=2, shapes=[("t", "n", inputs), *[a.shape for a in arrays[1:]]], **options
    )
    assert_matches(proto, feeds)


def test_function_body_is_the_fallback() -> None:
    """CenterCropPad has no importer of its own."""
    x = f32(5, 6)
    proto, inputs = single("CenterCropPad", [x, i64(3, 8)], opset=18, known=[1])
    assert_matches(proto, inputs)

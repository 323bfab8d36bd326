"""Products with weights of 4 or 8 bits that have a scale (and a zero point) for each block of the sum."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import rillet
from rillet.errors import CompileError

_DTYPES = {
    "int4": (ml_dtypes.int4, -8, 8),
    "uint4": (ml_dtypes.uint4, 0, 16),
    "int8": (np.int8, -128, 128),
    "uint8": (np.uint8, 0, 256),
}


def product(
    dtype: str,
    *,
    steps: int = 96,
    columns: int = 40,
    block: int = 32,
    zero: bool = False,
    scale: type = np.float32,
    transposed: bool = False,
    rows: int | str = "M",
    experts: int = 0,
) -> onnx.ModelProto:
    """``x @ dequantized(w)``; ``transposed``: ``w`` is stored as columns x steps; ``experts``: so many products."""
    storage, low, high = _DTYPES[dtype]
    random = np.random.default_rng(steps + columns + block)
    axis = 1 if transposed else -2
    count = -(-steps // block)
    shape, blocks = ([columns, steps], [columns, count]) if transposed else ([steps, columns], [count, columns])
    batch = [experts] if experts else []
    shape, blocks = batch + shape, batch + blocks
    initializers = [
        numpy_helper.from_array(random.integers(low, high, shape).astype(storage), "w"),
        numpy_helper.from_array(random.uniform(0.01, 0.02, blocks).astype(scale), "s"),
    ]
    if zero:
        initializers.append(numpy_helper.from_array(random.integers(low, high, blocks).astype(storage), "z"))
    names = ["w", "s", "z"][: len(initializers)]
    nodes = [helper.make_node("DequantizeLinear", names, ["d"], axis=axis, block_size=block)]
    weights, element = "d", TensorProto.FLOAT if scale is np.float32 else TensorProto.FLOAT16
    if transposed:
        nodes.append(helper.make_node("Transpose", ["d"], ["t"], perm=[1, 0]))
        weights = "t"
    nodes.append(helper.make_node("MatMul", ["x", weights], ["y"]))
    graph = helper.make_graph(
        nodes,
        "product",
        [helper.make_tensor_value_info("x", element, [*batch, rows, steps])],
        [helper.make_tensor_value_info("y", element, [*batch, rows, columns])],
        initializers,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def check(model: onnx.ModelProto, module: rillet.Module, rows: int, tolerance: float = 1e-5) -> None:
    (value,) = model.graph.input
    dtype = helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
    *batch, _, steps = [d.dim_value for d in value.type.tensor_type.shape.dim]
    x = np.random.default_rng(rows).standard_normal((*batch, rows, steps)).astype(dtype)
    (expected,) = ReferenceEvaluator(model).run(None, {"x": x})
    actual = module(x)
    assert actual.dtype == expected.dtype and actual.shape == expected.shape
    scale = np.abs(expected.astype(np.float64)).max()
    assert np.abs(actual.astype(np.float64) - expected.astype(np.float64)).max() <= tolerance * scale


@pytest.mark.parametrize("zero", [False, True])
@pytest.mark.parametrize("dtype", list(_DTYPES))
def test_products_of_any_number_of_rows(dtype: str, zero: bool) -> None:
    """Few rows compute weights as they multiply, many share a panel of them."""
    model = product(dtype, zero=zero)
    module = rillet.compile(model, threads=1)
    assert module.stats["dispatch_count"] == 1 and module.stats["arena_bytes"] == 0
    for rows in (1, 2, 3, 8, 9, 70):
        check(model, module, rows)


@pytest.mark.parametrize("rows", [1, 3, 8, 17])
def test_products_of_a_known_number_of_rows(rows: int) -> None:
    model = product("uint4", zero=True, rows=rows)
    check(model, rillet.compile(model, threads=2), rows)


@pytest.mark.parametrize(
    "form",
    [
        {"transposed": True},
        {"block": 16},
        {"block": 96},
        {"columns": 1},
        {"columns": 7},
        {"columns": 200, "steps": 2048, "block": 128},
        {"scale": np.float16},
        {"experts": 3},
        {"experts": 2, "columns": 20},
    ],
)
def test_forms(form: dict) -> None:
    model = product("int4", zero=True, **form)
    module = rillet.compile(model)
    assert module.stats["dispatch_count"] == 1 and module.stats["arena_bytes"] == 0
    for rows in (1, 5, 33):
        check(model, module, rows, 1e-2 if "scale" in form else 1e-5)


@pytest.mark.parametrize("form", [{"steps": 100}, {"steps": 70, "transposed": True}, {"steps": 7, "experts": 2}])
def test_last_blocks_that_are_shorter(form: dict) -> None:
    model = product("int4", zero=True, **form)
    module = rillet.compile(model)
    assert module.stats["dispatch_count"] == 2  # the left-hand side is filled up with zeros
    for rows in (1, 5, 33):
        check(model, module, rows)


@pytest.mark.parametrize("blocks", [2, 4])
def test_blocks_that_do_not_cover_the_sum(blocks: int) -> None:
    model = product("int4", zero=True)
    for index, array in ((1, np.ones((blocks, 40), np.float32)), (2, np.ones((blocks, 40), ml_dtypes.int4))):
        model.graph.initializer[index].CopyFrom(numpy_helper.from_array(array, "sz"[index - 1]))
    with pytest.raises(CompileError, match=rf"of {blocks}x40 for an input of 96x40 in blocks of 32.*should be 3x40"):
        rillet.compile(model)


def test_targets_without_vectors() -> None:
    """One row and many: an export holds a kernel for each."""
    for rows in (1, 9):
        assert rillet.compile(product("int4", zero=True, rows=rows), target="cortex-m4").stats["dispatch_count"] == 1


def test_weights_of_four_bits_share_bytes() -> None:
    """Each byte of the module's constants holds two weights; scales are float32."""
    module = rillet.compile(product("int4", steps=512, columns=256))
    assert module.stats["constant_bytes"] == 512 * 256 // 2 + 512 // 32 * 256 * 4


@pytest.mark.parametrize("target", ["x86-64-v2", "x86-64-v3"])
def test_vectors_of_any_width(target: str) -> None:
    model = product("uint4", zero=True)
    module = rillet.compile(model, target=target)
    assert isinstance(module, rillet.Module)
    for rows in (1, 9):
        check(model, module, rows)


def test_infinite_scales_meet_each_weight() -> None:
    """Infinity times 0 is no number, whatever the other weights of the block add up to."""
    model = product("int4", rows=1)
    (scale,) = [i for i in model.graph.initializer if i.name == "s"]
    values = numpy_helper.to_array(scale).copy()
    values[1, 3] = np.inf
    scale.CopyFrom(numpy_helper.from_array(values, "s"))
    y = rillet.compile(model)(np.ones((1, 96), np.float32))
    assert np.flatnonzero(~np.isfinite(y)).tolist() == [3] and np.isnan(y[0, 3])

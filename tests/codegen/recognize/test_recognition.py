"""What a kernel's function is taken for: a contraction and the roles of its loops, stages of a chain, lanes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from torch_mlir import ir

from rillet.codegen.recognize import chain_stages, contraction, lanes
from rillet.codegen.recognize.kernel_function import KernelFunction
from rillet.ir import make_context
from tests.support.attention_kernel import attention
from tests.support.kernel_harness import generic, kernel_text
from tests.support.kernel_texts import batched, conv2d, depthwise, matmul
from tests.support.softmax_kernels import softmax


@pytest.fixture(autouse=True)
def context() -> Iterator[None]:
    with make_context(), ir.Location.unknown():
        yield


def function(text: str) -> KernelFunction:
    module = ir.Module.parse(text)
    (nested,) = module.body.operations
    return KernelFunction(ir.Module.parse(str(nested)))


@pytest.mark.parametrize(
    ("text", "extents"),
    [
        (matmul(5, 40, 24), {"m": [5], "n": [40], "k": [24]}),
        (batched(("2x5x24", "2x24x40", "2x5x40"), ("b, m, k", "b, k, n", "b, m, n")), {"batch": [2], "m": [5]}),
        (batched(("2x5x24", "2x40x24", "2x5x40"), ("b, m, k", "b, n, k", "b, m, n")), {"n": [40], "k": [24]}),
        (conv2d(1, (9, 9), 8, 20, (3, 3))[0], {"m": [7, 7], "n": [20], "k": [3, 3, 8]}),
    ],
    ids=["product", "products", "transposed", "convolution"],
)
def test_roles_of_a_contractions_loops(text: str, extents: dict[str, list[int]]) -> None:
    found = contraction.recognize(function(text))
    assert found is not None
    for role, expected in extents.items():
        assert [found.extents[loop] for loop in getattr(found.roles, role)] == expected, role


@pytest.mark.parametrize(
    "text", [softmax(8, 40, 1), depthwise(1, (9, 9), 8, (3, 3), 1, 1)[0]], ids=["softmax", "depthwise"]
)
def test_what_is_no_contraction(text: str) -> None:
    """Two reductions; and a sum of products of which no operand is shared by all rows."""
    assert contraction.recognize(function(text)) is None


def test_attention_has_three_stages() -> None:
    stages = chain_stages.cut(function(attention(2, 12, 16, 8, 8)))
    assert stages is not None and len(stages) == 3
    assert chain_stages.cut(function(matmul(5, 40, 24))) is None


@pytest.mark.parametrize(
    ("element", "body", "expected"),
    [
        ("f32", "%s = arith.negf %x : f32", 8),
        ("f16", "%w = arith.extf %x : f16 to f64;%n = arith.negf %w : f64;%s = arith.truncf %n : f64 to f16", 4),
        ("complex<f32>", "%s = complex.neg %x : complex<f32>", 1),
    ],
)
def test_lanes_fill_a_register_with_the_widest_value(element: str, body: str, expected: int) -> None:
    type_ = f"tensor<32x{element}>"
    negated = generic(
        "(i)->(i)|(i)->(i)", "p", f"%a:{type_}", f"%e:{type_}", f"%x:{element},%o:{element}", body, f"%s:{element}"
    )
    text = kernel_text(
        "f", f"%a: {type_}", type_, f"%e = tensor.empty() : {type_}\n%r = {negated}\nreturn %r : {type_}"
    )
    assert lanes.lanes_for(function(text), 256) == expected
    assert lanes.lanes_for(function(text), 0) == 1

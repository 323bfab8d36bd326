"""Products and convolutions with a transposition, factor or activation fused in, which ONNX Runtime's optimizers write.

Source: github.com/microsoft/onnxruntime, docs/ContribOperators.md. Each is taken apart again: transpositions go into
the operands' maps and activations into epilogues where that pays.
"""

from __future__ import annotations

from rillet.frontends.building.tensor import Tensor
from rillet.frontends.errors import InvalidNode
from rillet.frontends.onnx.node import Node
from rillet.frontends.onnx.ops.convolution import conv
from rillet.frontends.onnx.ops.matmul import gemm, multiply
from rillet.frontends.onnx.ops.microsoft.fused_activations import fused_activation
from rillet.frontends.onnx.registry import op

_DOMAIN = "com.microsoft"


@op("FusedMatMul", "TransposeMatMul", domain=_DOMAIN)
def fused_matmul(node: Node, a: Tensor, b: Tensor) -> Tensor:
    """alpha * A' @ B'. The last two dimensions of an operand may be swapped, and the first moved behind the batch."""
    alpha = float(node.attr("alpha", 1.0))
    left, right = _turned(node, a, "A"), _turned(node, b, "B")
    product = multiply(node, left, right)
    return product if alpha == 1.0 else node.b.map(lambda v: v * alpha, product)


def _turned(node: Node, tensor: Tensor, side: str) -> Tensor:
    batch, matrix = node.attr(f"transBatch{side}", 0), node.attr(f"trans{side}", 0)
    rank = tensor.rank
    if batch and rank < 3:
        raise InvalidNode(f"transBatch{side} needs a batch; {side} has rank {rank}")
    order = list(range(rank))
    if batch:
        order = [*order[1:-1], 0, order[-1]]
    if matrix and rank > 1:
        order = [*order[:-2], order[-1], order[-2]]
    return node.b.transpose(tensor, order)


@op("FusedGemm", domain=_DOMAIN)
def fused_gemm(node: Node, a: Tensor, b: Tensor, c: Tensor | None = None) -> Tensor:
    """Gemm and an activation of its result."""
    names = {p: f"activation_{p}" for p in ("alpha", "beta", "gamma")}
    given = {p: float(node.attr(name)) for p, name in names.items() if node.has(name)}
    body = fused_activation(node.attr("activation", ""), given)
    result = gemm(node, a, b, c)
    return result if body is None else node.b.map(body, result)


@op("FusedConv", domain=_DOMAIN)
def fused_conv(
    node: Node, x: Tensor, weights: Tensor, bias: Tensor | None = None, addend: Tensor | None = None
) -> Tensor:
    """activation(Conv + ``addend``); the addend has the result's shape."""
    body = fused_activation(node.attr("activation", ""), node.attr("activation_params", []))
    result = conv(node, x, weights, bias)
    if addend is not None:
        addend = node.b.refine(addend, result.shape, "Z")
        result = node.b.map(lambda v, z: v + z, result, addend, shape=result.shape)
    return result if body is None else node.b.map(body, result)

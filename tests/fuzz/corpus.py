"""Small models that between them use most kinds of things an ONNX file can hold; the mutations start from them."""

from __future__ import annotations

import functools

import numpy as np
import onnx
from onnx import helper, numpy_helper, parser

_TEXTS = (
    """g (float[N,3,8,8] x) => (float[N,4,a,b] y) <float[4,3,3,3] w, float[4] c = {1, 2, 3, 4}>
    { t = Conv<pads=[1,1,1,1], strides=[2,2]>(x, w, c)  y = Relu(t) }""",
    """g (float[2,8] x) => (float[2,4] y) <float[8,4] w, float[4] c = {1, 2, 3, 4}>
    { t = Gemm<alpha=0.5>(x, w, c)  y = Softmax<axis=-1>(t) }""",
    """g (float[N,M] x, float[N,M] z) => (float[N,M] y, float[N] m)
    { t = Add(x, z)  u = Tanh(t)  y = Mul(u, t)  m = ReduceMean<keepdims=0>(y, axes) }""",
    """g (float[4,6] x) => (float[a,b] y) <int64[1] s = {1}, int64[1] e = {4}, int64[1] ax = {1}, int64[1] st = {2}>
    { y = Slice(x, s, e, ax, st) }""",
    """g (float[4,6] x) => (float[a,b] y) <int64[2] shape = {-1, 3}> { t = Reshape(x, shape) y = Transpose(t) }""",
    """g (float[4,6] x) => (float[a,b,c] y) { s = Shape(x) k = Constant<value = int64[1] {1}>() d = Gather(s, k)
    m = Constant<value = int64[1] {-1}>() t = Concat<axis=0>(d, k, m) y = Reshape(x, t) }""",
    """g (float[4] x, bool c) => (float[a] y) {
    y = If(c) <then_branch = a () => (float[4] u) { u = Neg(x) },
    else_branch = b () => (float[4] v) { v = Abs(x) }> }""",
    """g (float[3] x, int64 n) => (float[3] y) { c = Constant<value = bool {1}>()
    y = Loop(n, c, x) <body = b (int64 i, bool k, float[3] s) => (bool kk, float[3] o)
    { kk = Identity(k) o = Add(s, s) }> }""",
    """g (float[1,2,5,5] x) => (float[1,2,a,b] y)
    { y = AveragePool<kernel_shape=[3,3], ceil_mode=1, strides=[2,2]>(x) }""",
    """g (float[3,5] x) => (float[3,2] y, int64[3,2] z) <int64[1] k = {2}> { y, z = TopK(x, k) }""",
    """g (float[3,5] x, int64[2,2] i) => (float[2,2,5] y) { y = Gather<axis=0>(x, i) }""",
    """g (float[3,5] x) => (uint8[3,5] y) <float s = {0.1}, uint8 z = {3}>
    { q = QuantizeLinear(x, s, z)  y = Identity(q) }""",
    """g (float[2,3,4] x) => (float[2,3,4] y) <float[4] s = {1, 1, 2, 2}, float[4] b = {0, 0, 1, 1}>
    { y = LayerNormalization(x, s, b) }""",
    """g (float[5,1,3] x) => (float[5,1,1,2] y) <float[1,8,3] w, float[1,8,2] r>
    { y = LSTM<hidden_size=2>(x, w, r) }""",
    """g (float[2,3] x) => (float[a,b] y) <int64[4] p = {1, 0, 0, 2}> { y = Pad<mode="edge">(x, p) }""",
    """g (float[1,1,4,4] x) => (float[1,1,a,b] y) <float[4] s = {1, 1, 2, 2}>
    { y = Resize<mode="linear">(x, , s) }""",
    """g (float[2,6] x) => (float[a,b] y, float[c,d] z) <int64[2] s = {2, 4}> { y, z = Split<axis=1>(x, s) }""",
    """g (float[4] x) => (int64[1,n] y) { y = NonZero(x) }""",
    """g (float[2,3] x, float[3,2] z) => (float[2,2] y) { y = Einsum<equation="ij,jk->ik">(x, z) }""",
    """g (float16[2,3] x) => (float16[2,3] y) { t = Cast<to=1>(x) u = Erf(t) y = Cast<to=10>(u) }""",
    """g (int64[1] n) => (float[k] y) { y = ConstantOfShape<value = float[1] {2}>(n) }""",
    """g (float[2,3] x) => (float[a,b] y) <int64[2] t = {2, 1}, int64[3] e = {2, 4, 3}>
    { u = Tile(x, t) v = Expand(u, e) y = Flatten(v) }""",
)


@functools.cache
def models() -> tuple[onnx.ModelProto, ...]:
    """The corpus; every model in it compiles."""
    return (*(_parsed(text) for text in _TEXTS), _with_function(), _sparse())


def _parsed(text: str) -> onnx.ModelProto:
    model = parser.parse_model(f'<ir_version: 8, opset_import: ["" : 18]> {text}')
    rng = np.random.default_rng(0)
    for info in model.graph.value_info:  # declared without a value: weights
        shape = [d.dim_value for d in info.type.tensor_type.shape.dim]
        model.graph.initializer.append(numpy_helper.from_array(rng.random(shape, np.float32), info.name))
    del model.graph.value_info[:]
    if any("axes" in node.input for node in model.graph.node):
        model.graph.initializer.append(numpy_helper.from_array(np.array([1], np.int64), "axes"))
    return model


def _with_function() -> onnx.ModelProto:
    return parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 18, "local" : 1]>
        g (float[2,3] x) => (float[2,3] y) { t = local.twice<alpha=0.5>(x)  y = local.twice<alpha=0.25>(t) }
        <domain: "local", opset_import: ["" : 18]>
        twice <alpha> (x) => (y) { t = LeakyRelu<alpha: float = @alpha>(x)  y = Add(t, t) }"""
    )


def _sparse() -> onnx.ModelProto:
    values = helper.make_tensor("w", onnx.TensorProto.FLOAT, [2], [1.0, 2.0])
    indices = helper.make_tensor("i", onnx.TensorProto.INT64, [2], [1, 5])
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "sparse",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["N", 3])],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["N", 2])],
        sparse_initializer=[helper.make_sparse_tensor(values, indices, [3, 2])],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)

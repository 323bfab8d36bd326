"""Small models of what kernels have trouble with: sizes that do not fill a register, small types, special values."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import helper, numpy_helper

# Inputs whose name begins with "w" are weights; "s": with special values among others; "n": one in each row, somewhere
# else; "d": denormal numbers.
GRAPHS = {
    "softmax of long rows": "(float[5,1001] x) => (float[5,1001] y) { y = Softmax<axis = 1>(x) }",
    "softmax of short rows": "(float[37,10] x) => (float[37,10] y) { y = Softmax<axis = 1>(x) }",
    "softmax down columns": "(float[3,29,37] x) => (float[3,29,37] y) { y = Softmax<axis = 1>(x) }",
    "softmax of special values": "(float[9,45] sx) => (float[9,45] y) { y = Softmax<axis = 1>(sx) }",
    "logarithm of softmax": "(float[9,45] x) => (float[9,45] y) { y = LogSoftmax<axis = 1>(x) }",
    "layer normalization": "(float[7,45] x, float[45] w1, float[45] w2) => (float[7,45] y)"
    " { y = LayerNormalization<axis = 1>(x, w1, w2) }",
    "layer normalization after a product": "(float[13,24] x, float[24,40] w1, float[40] w2, float[13,40] r)"
    " => (float[13,40] y) { a = MatMul(x, w1) b = Add(a, r) y = LayerNormalization<axis = 1>(b, w2) }",
    "batch and group normalization": "(float[2,12,5,7] x, float[12] w1, float[12] w2) => (float[2,12,5,7] y)"
    " { y = GroupNormalization<num_groups = 3>(x, w1, w2) }",
    "gelu": "(float[7,45] x) => (float[7,45] y) { y = Gelu(x) }",
    "approximate gelu": "(float[7,45] x) => (float[7,45] y) { y = Gelu<approximate = \"tanh\">(x) }",
    "product and gelu": "(float[13,24] x, float[24,67] w1, float[67] w2) => (float[13,67] y)"
    " { a = MatMul(x, w1) b = Add(a, w2) y = Gelu(b) }",
    "activations": "(float[3,45] sx) => (float[3,45] a, float[3,45] b, float[3,45] c, float[3,45] d, float[3,45] e)"
    " { a = Sigmoid(sx) b = Tanh(sx) c = Erf(sx) d = Softplus(sx) e = HardSwish(sx) }",
    "exponentials of special values": "(float[3,45] sx) => (float[3,45] a, float[3,45] b, float[3,45] c)"
    " { a = Exp(sx) b = Sqrt(sx) c = Reciprocal(sx) }",
    "clamps of special values": "(float[3,45] sx, float[3,45] x) => (float[3,45] a, float[3,45] b, float[3,45] c)"
    " { a = Relu(sx) b = Max(sx, x) c = Min(sx, x) }",
    "comparisons of special values": "(float[3,45] sx, float[3,45] x) => (bool[3,45] a, bool[3,45] b, bool[3,45] c)"
    " { a = Less(sx, x) b = Equal(sx, sx) c = IsNaN(sx) }",
    "choices": "(bool[3,45] c, bool[45] d, float[3,45] sx, float[45] x) => (float[3,45] y)"
    " { e = And(c, d) y = Where(e, sx, x) }",
    "signs and remainders": "(float[3,45] sx, int32[3,45] i, int32[45] j)"
    " => (float[3,45] a, int32[3,45] b, int32[3,45] c)"
    " { a = Sign(sx) k = Abs(j) one = Constant<value = int32[1] {1}>() l = Add(k, one) b = Div(i, l) c = Mod(i, l) }",
    "maximum pooling": "(float[1,19,13,15] sx) => (float[1,19,?,?] y)"
    " { y = MaxPool<kernel_shape = [3,3], strides = [2,2], pads = [1,1,1,1]>(sx) }",
    "average pooling": "(float[2,19,13,15] x) => (float[2,19,?,?] y)"
    " { y = AveragePool<kernel_shape = [3,2], strides = [1,2], pads = [1,0,1,0]>(x) }",
    "pooling of everything": "(float[2,37,7,7] x) => (float[2,37,1,1] y, float[2,37,1,1] z)"
    " { y = GlobalAveragePool(x) z = GlobalMaxPool(x) }",
    "convolution and residual": "(float[1,19,9,11] x, float[19,19,3,3] w1, float[19] w2) => (float[1,19,9,11] y)"
    " { a = Conv<pads = [1,1,1,1]>(x, w1, w2) b = Add(a, x) y = Relu(b) }",
    "convolution of a picture": "(float[1,3,21,23] x, float[21,3,3,3] w1) => (float[1,21,?,?] y)"
    " { y = Conv<strides = [2,2], pads = [1,1,1,1]>(x, w1) }",
    "grouped convolution": "(float[1,12,9,11] x, float[30,4,3,3] w1)"
    " => (float[1,30,?,?] y) { y = Conv<group = 3>(x, w1) }",
    "transposed convolution": "(float[1,9,5,7] x, float[9,19,3,3] w1) => (float[1,19,?,?] y)"
    " { y = ConvTranspose<strides = [2,2]>(x, w1) }",
    "depthwise convolutions": "(float[1,35,12,13] x, float[35,1,3,3] w1, float[35,1,5,5] w2) => (float[1,35,?,?] y)"
    " { a = Conv<group = 35, strides = [2,2], pads = [1,1,1,1]>(x, w1)"
    " y = Conv<group = 35, pads = [2,2,2,2]>(a, w2) }",
    "attention": "(float[1,21,48] x, float[48,48] w1, float[48,48] w2, float[48,48] w3, float[48,48] w4,"
    " float[1,1,1,21] m) => (float[1,21,48] y)"
    " { s = Constant<value = int64[4] {0, 0, 3, 16}>() t = Constant<value = int64[3] {0, 0, 48}>()"
    " q0 = MatMul(x, w1) k0 = MatMul(x, w2) v0 = MatMul(x, w3)"
    " q1 = Reshape(q0, s) k1 = Reshape(k0, s) v1 = Reshape(v0, s)"
    " q = Transpose<perm = [0,2,1,3]>(q1) k = Transpose<perm = [0,2,3,1]>(k1) v = Transpose<perm = [0,2,1,3]>(v1)"
    " a = MatMul(q, k) f = Constant<value = float {0.25}>() b = Mul(a, f) c = Add(b, m)"
    " p = Softmax<axis = -1>(c) o0 = MatMul(p, v) o1 = Transpose<perm = [0,2,1,3]>(o0) o2 = Reshape(o1, t)"
    " o = MatMul(o2, w4) y = Add(o, x) }",
    "batched products": "(float[3,7,33] x, float[3,33,19] z) => (float[3,7,19] y) { y = MatMul(x, z) }",
    "product with a transposed matrix": "(float[7,33] x, float[19,33] w1, float[19] w2) => (float[7,19] y)"
    " { y = Gemm<transB = 1>(x, w1, w2) }",
    "vector and matrix": "(float[1,129] x, float[129,77] w1) => (float[1,77] y) { y = MatMul(x, w1) }",
    "product of doubles": "(double[7,33] x, double[33,19] w1) => (double[7,19] y) { y = MatMul(x, w1) }",
    "product of halves": "(float16[7,33] x, float16[33,19] w1) => (float16[7,19] y) { y = MatMul(x, w1) }",
    "product of bfloat16": "(bfloat16[7,33] x, bfloat16[33,19] w1) => (bfloat16[7,19] y) { y = MatMul(x, w1) }",
    "product of bytes": "(uint8[7,45] x, int8[45,35] w1) => (int32[7,35] y) { y = MatMulInteger(x, w1) }",
    "product of signed bytes": "(int8[7,45] x, int8[45,35] w1) => (int32[7,35] y) { y = MatMulInteger(x, w1) }",
    "convolution of bytes": "(uint8[1,7,9,11] x, uint8[21,7,3,3] w1) => (int32[1,21,9,11] y)"
    " { z = Constant<value = uint8 {3}>() o = Constant<value = uint8 {128}>()"
    " y = ConvInteger<pads = [1,1,1,1]>(x, w1, z, o) }",
    "quantized product": "(uint8[7,45] x, uint8[45,35] w1) => (uint8[7,35] y)"
    " { s = Constant<value = float {0.01}>() z = Constant<value = uint8 {131}>() t = Constant<value = float {0.05}>()"
    " y = QLinearMatMul(x, s, z, w1, s, z, t, z) }",
    "weights of 4 bits for a row": "(float[1,64] x, uint4[64,40] w1, float[2,40] w2, uint4[2,40] w3) => (float[1,40] y)"
    " { d = DequantizeLinear<axis = 0, block_size = 32>(w1, w2, w3) y = MatMul(x, d) }",
    "weights of 4 bits for many rows": "(float[21,64] x, int4[64,72] w1, float[4,72] w2) => (float[21,72] y)"
    " { d = DequantizeLinear<axis = 0, block_size = 16>(w1, w2) y = MatMul(x, d) }",
    "quantization": "(float[5,45] x) => (uint8[5,45] y, float s, uint8 z, float[5,45] d)"
    " { y, s, z = DynamicQuantizeLinear(x) d = DequantizeLinear(y, s, z) }",
    "casts": "(float[3,45] x)"
    " => (float16[3,45] a, bfloat16[3,45] b, int32[3,45] c, double[3,45] d, float[3,45] e, bool[3,45] f)"
    " { a = Cast<to = 10>(x) b = Cast<to = 16>(x) c = Cast<to = 6>(x) d = Cast<to = 11>(x) e = Cast<to = 1>(a)"
    " f = Cast<to = 9>(x) }",
    "casts of integers": "(int32[3,45] i)"
    " => (float[3,45] a, int64[3,45] b, uint8[3,45] c, float16[3,45] d, double[3,45] e)"
    " { a = Cast<to = 1>(i) b = Cast<to = 7>(i) c = Cast<to = 2>(i) d = Cast<to = 10>(i) e = Cast<to = 11>(i) }",
    "casts of bytes": "(uint8[3,45] x, int8[3,45] z) => (float[3,45] a, float[3,45] b, int32[3,45] c)"
    " { a = Cast<to = 1>(x) b = Cast<to = 1>(z) c = Cast<to = 6>(z) }",
    "arithmetic of halves": "(float16[3,45] x, float16[45] z) => (float16[3,45] a, float16[3,45] b)"
    " { a = Mul(x, z) b = Exp(x) }",
    "denormal numbers": "(float[3,45] dx, float[45] x) => (float[3,45] a, float[3,45] b, float[3,45] c)"
    " { a = Mul(dx, x) b = Add(dx, dx) c = Neg(dx) }",
    "sum of denormal numbers": "(float[3,45] dx) => (float[3] a, float[3] b)"
    " { l = Constant<value = int64[1] {1}>() a = ReduceSum<keepdims = 0>(dx, l) b = ReduceMax<keepdims = 0>(dx, l) }",
    "rows of a table": "(int64[5,7] i, float[19,45] w1) => (float[5,7,45] y) { y = Gather<axis = 0>(w1, i) }",
    "columns of a table": "(int64[23] i, float[7,33] x) => (float[7,23] y) { y = Gather<axis = 1>(x, i) }",
    "elements of a table": "(int64[3,45] i, float[11,45] x) => (float[3,45] y) { y = GatherElements<axis = 0>(x, i) }",
    "transposition": "(float[37,45] x) => (float[45,37] y) { y = Transpose<perm = [1,0]>(x) }",
    "transposition of bytes": "(uint8[2,37,45] x) => (uint8[2,45,37] y) { y = Transpose<perm = [0,2,1]>(x) }",
    "transposition of doubles": "(double[5,7,9] x) => (double[9,7,5] y) { y = Transpose<perm = [2,1,0]>(x) }",
    "channels to the end": "(float[1,19,7,9] x) => (float[1,7,9,19] y) { y = Transpose<perm = [0,2,3,1]>(x) }",
    "concatenation and slices": "(float[3,19] x, float[3,7] z) => (float[3,26] y, float[3,11] u)"
    " { y = Concat<axis = 1>(x, z) b = Constant<value = int64[1] {2}>() e = Constant<value = int64[1] {24}>()"
    " l = Constant<value = int64[1] {1}>() s = Constant<value = int64[1] {2}>() u = Slice(y, b, e, l, s) }",
    "padding": "(float[5,19] x) => (float[8,26] y) { p = Constant<value = int64[4] {1, 3, 2, 4}>() y = Pad(x, p) }",
    "reductions": "(float[7,5,45] x) => (float[7,5] a, float[5,45] b, float[7,5] c, float[7,5] d)"
    " { l = Constant<value = int64[1] {2}>() f = Constant<value = int64[1] {0}>()"
    " a = ReduceMean<keepdims = 0>(x, l) b = ReduceSum<keepdims = 0>(x, f)"
    " c = ReduceL2<keepdims = 0>(x, l) d = ReduceProd<keepdims = 0>(x, l) }",
    "reductions of special values": "(float[45,45] nx) => (float[45] a, float[45] b)"
    " { l = Constant<value = int64[1] {1}>() a = ReduceMax<keepdims = 0>(nx, l) b = ReduceMin<keepdims = 0>(nx, l) }",
    "positions of extremes": "(float[9,45] x) => (int64[9] a, int64[45] b)"
    " { a = ArgMax<axis = 1, keepdims = 0>(x) b = ArgMin<axis = 0, keepdims = 0>(x) }",
    "largest elements": "(float[5,45] x) => (float[5,7] v, int64[5,7] p)"
    " { k = Constant<value = int64[1] {7}>() v, p = TopK<axis = 1>(x, k) }",
    "sums so far": "(float[5,45] x) => (float[5,45] y) { l = Constant<value = int64 {1}>() y = CumSum(x, l) }",
    "resizing": "(float[1,5,7,9] x) => (float[1,5,13,20] y)"
    " { s = Constant<value = int64[4] {1, 5, 13, 20}>() y = Resize<mode = \"linear\">(x, , , s) }",
    "recurrence": "(float[5,2,7] x, float[1,44,7] w1, float[1,44,11] w2) => (float[5,1,2,11] y)"
    " { y = LSTM<hidden_size = 11>(x, w1, w2) }",
}  # fmt: skip


def parsed(name: str) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """The model and its inputs. The weights are constants of the model."""
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 21]> g {GRAPHS[name]}')
    rng = np.random.default_rng(0)
    arrays = {i.name: _random(i, rng) for i in model.graph.input}
    inputs = [i for i in model.graph.input if not i.name.startswith("w")]
    model.graph.initializer.extend(numpy_helper.from_array(a, n) for n, a in arrays.items() if n.startswith("w"))
    del model.graph.input[:]
    model.graph.input.extend(inputs)
    return model, {i.name: arrays[i.name] for i in inputs}


def _random(info: onnx.ValueInfoProto, rng: np.random.Generator) -> np.ndarray:
    tensor = info.type.tensor_type
    dtype = helper.tensor_dtype_to_np_dtype(tensor.elem_type)
    shape = [d.dim_value for d in tensor.shape.dim]
    if dtype.name in ("int4", "uint4"):
        return rng.integers(0, 8, shape).astype(dtype)
    if dtype.kind == "b":
        return rng.random(shape) < 0.5
    if dtype.kind in "iu":
        low, high = (-9, 10) if dtype.itemsize > 1 else (np.iinfo(dtype).min, np.iinfo(dtype).max + 1)
        return rng.integers(low, high, shape).astype(dtype)
    x = rng.standard_normal(shape).astype(dtype)
    if info.name.startswith("n"):
        for row in range(min(shape)):
            x[row, row] = [np.nan, np.inf, -np.inf][row % 3]
    if info.name.startswith("s"):
        special = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-45, -1e-45, 1e-39, 3e38, -3e38, 100, -100]
        x.reshape(-1)[: 5 * len(special) : 5] = special
    if info.name.startswith("d"):
        x *= np.array(1e-39, dtype)
    return x

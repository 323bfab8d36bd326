"""Graphs that are known to go wrong in compilers, each against an oracle, run twice on one thread."""

from __future__ import annotations

import time
from collections.abc import Mapping

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper, parser

pytest.importorskip("onnxruntime")

import rillet
from rillet.frontends.onnx.verification.oracles import OracleError, run_onnxruntime, run_reference
from rillet.verify.difference import difference

_RNG = np.random.default_rng(7)


def f32(*shape: int) -> np.ndarray:
    return _RNG.standard_normal(shape).astype(np.float32)


def i64(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def model(text: str, opset: int = 18, **constants: np.ndarray) -> onnx.ModelProto:
    result = parser.parse_model(f'<ir_version: 8, opset_import: ["" : {opset}]> g {text}')
    for name, array in constants.items():
        result.graph.initializer.append(numpy_helper.from_array(np.asarray(array), name))
    return result


def agrees(proto: onnx.ModelProto, *calls: Mapping[str, np.ndarray]) -> rillet.Module:
    module = rillet.compile(proto, threads=1)
    for feeds in calls:
        try:
            expected = run_onnxruntime(proto, feeds)
        except OracleError:
            expected = run_reference(proto, feeds)
        for _ in range(2):
            actual = module.run(feeds)
            for name, array in expected.items():
                found = difference(actual[name], array)
                assert found.agrees, f"'{name}' on { {n: a.shape for n, a in feeds.items()} }: {found}"
    return module


def test_x_minus_x_plus_one() -> None:
    proto = model("(float[N] x) => (float[N] y) { t = Add(x, one)  y = Sub(x, t) }", one=np.float32(1))
    agrees(proto, {"x": f32(5)}, {"x": np.arange(64, dtype=np.float32)})


@pytest.mark.parametrize("include", [0, 1])
def test_average_pool_with_ceil_mode(include: int) -> None:
    text = f"""(float[1,2,7,8] x) => (float[1,2,a,b] y)
    {{ y = AveragePool<kernel_shape=[3,3],
    strides=[2,2], pads=[1,1,1,1], ceil_mode=1, count_include_pad={include}>(x) }}"""
    agrees(model(text, 19), {"x": f32(1, 2, 7, 8)})


def test_matmul_of_unit_dimensions_with_bias_and_broadcast_add() -> None:
    text = """(float[1,1,8] x, float[3,1,1] z) => (float[3,1,1] y) { t = MatMul(x, w)  u = Add(t, b)  y = Add(u, z) }"""
    agrees(model(text, w=f32(8, 1), b=f32(1)), {"x": f32(1, 1, 8), "z": f32(3, 1, 1)})


def test_grouped_convolution_with_a_kernel_longer_than_the_input() -> None:
    text = "(float[2,4,3] x) => (float[2,6,a] y) { y = Conv<group=2, pads=[2,3]>(x, w, b) }"
    agrees(model(text, w=f32(6, 2, 5), b=f32(6)), {"x": f32(2, 4, 3)})


def test_window_larger_than_a_dynamic_input() -> None:
    """Two negative extents would make a positive size."""
    module = rillet.compile(model("(float[1,1,H,W] x) => (float[1,1,a,b] y) { y = Conv(x, w) }", w=f32(1, 1, 5, 5)))
    assert module(f32(1, 1, 5, 6)).shape == (1, 1, 1, 2)
    for shape in ((2, 9), (2, 2), (1, 1)):
        with pytest.raises(rillet.RunError):
            module(f32(1, 1, *shape))


@pytest.mark.parametrize("auto_pad", ["SAME_UPPER", "SAME_LOWER"])
def test_auto_pad_with_dynamic_dimensions(auto_pad: str) -> None:
    text = f"""(float[N,3,H,W] x) => (float[N,4,a,b] y) {{ y = Conv<auto_pad="{auto_pad}", strides=[2,2]>(x, w) }}"""
    agrees(model(text, w=f32(4, 3, 3, 3)), *({"x": f32(n, 3, h, w)} for n, h, w in ((1, 5, 6), (2, 8, 7), (3, 1, 1))))


def test_expand_with_a_shape_of_dynamic_length() -> None:
    """Without a declared rank the result's is only known at run time: refused by name. With one it works."""
    with pytest.raises(rillet.UnsupportedError, match="Expand"):
        rillet.compile(model("(float[2,1] x, int64[K] s) => (float[] y) { y = Expand(x, s) }"))
    declared = model("(float[2,1] x, int64[K] s) => (float[A,B,C] y) { y = Expand(x, s) }")
    agrees(declared, {"x": f32(2, 1), "s": i64(3, 2, 4)}, {"x": f32(2, 1), "s": i64(1, 1, 5)})


def test_unsqueeze_with_axes_as_attribute() -> None:
    agrees(model("(float[N,3] x) => (float[a,b,c,d] y) { y = Unsqueeze<axes=[0,-1]>(x) }", 11), {"x": f32(2, 3)})


def test_gather_on_a_float16_table() -> None:
    text = "(int64[A,B] i) => (float16[A,B,6] y) { y = Gather(t, i) }"
    proto = model(text, t=f32(9, 6).astype(np.float16))
    agrees(proto, {"i": i64(0, -1, 8, 3).reshape(2, 2)}, {"i": i64(5).reshape(1, 1)}, {"i": np.zeros((0, 3), np.int64)})


def test_layer_normalization_without_optional_outputs() -> None:
    agrees(
        model("(float[N,5,8] x) => (float[N,5,8] y) { y = LayerNormalization(x, s) }", s=f32(8)), {"x": f32(2, 5, 8)}
    )


def test_matmul_with_two_dynamic_dimensions_per_operand() -> None:
    proto = model("(float[M,K] a, float[K,N] b) => (float[M,N] y) { y = MatMul(a, b) }")
    sizes = ((2, 3, 4), (1, 1, 1), (17, 33, 9), (3, 0, 2), (0, 3, 2))
    module = agrees(proto, *({"a": f32(m, k), "b": f32(k, n)} for m, k, n in sizes))
    with pytest.raises(rillet.RunError):
        module(f32(2, 3), f32(4, 5))


def test_extents_that_must_agree_and_do_not() -> None:
    """Of unrelated names: a wrong size is an error, not a read out of bounds."""
    for body in ("MatMul(a, b)", "Concat<axis=0>(a, b)", "Add(a, b)", "Gemm(a, b)"):
        module = rillet.compile(model(f"(float[A,B] a, float[C,D] b) => (float[x,z] y) {{ y = {body} }}"))
        with pytest.raises(rillet.RunError):
            module(f32(2, 50), f32(3, 4))
        with pytest.raises(rillet.RunError):
            module(f32(2, 4), f32(3, 50))


def test_split_at_run_time() -> None:
    """Sizes that an input gives: compiled for dynamic extents, or refused by name; never a wrong result."""
    proto = model("(float[6,4] x, int64[2] s) => (float[a,4] y, float[b,4] z) { y, z = Split<axis=0>(x, s) }")
    try:
        agrees(proto, {"x": f32(6, 4), "s": i64(2, 4)}, {"x": f32(6, 4), "s": i64(6, 0)})
    except rillet.UnsupportedError as error:
        assert "Split" in str(error)


def test_scalar_bias_of_a_convolution() -> None:
    with pytest.raises(rillet.CompileError, match="bias"):
        rillet.compile(
            model("(float[1,1,4,4] x) => (float[1,2,a,b] y) { y = Conv(x, w, b) }", w=f32(2, 1, 3, 3), b=f32())
        )


def test_constant_of_shape_without_value() -> None:
    agrees(model("(int64[2] s) => (float[a,b] y) { y = ConstantOfShape(s) }"), {"s": i64(2, 3)}, {"s": i64(0, 4)})


def test_reshape_with_zero_and_minus_one() -> None:
    agrees(model("(float[N,3,4] x) => (float[a,b] y) { y = Reshape(x, s) }", s=i64(0, -1)), {"x": f32(2, 3, 4)})
    with pytest.raises(rillet.CompileError, match="Reshape"):
        rillet.compile(model("(float[N,3,4] x) => (float[a,b] y) { y = Reshape(x, s) }", s=i64(-1, -1)))


def test_fused_tensor_that_is_an_output() -> None:
    text = """(float[N,8] x) => (float[N,8] t, float[N,8] y, float[N] m)
    { t = Exp(x)  u = Mul(t, x)  y = Tanh(u)  m = ReduceSum<keepdims=0>(u, axes) }"""
    agrees(model(text, axes=i64(1)), {"x": f32(3, 8)}, {"x": f32(1, 8)})


def test_initializer_that_is_input_and_output() -> None:
    proto = model("(float[3] x, float[3] w) => (float[3] w, float[3] y) { y = Add(x, w) }", w=f32(3))
    agrees(proto, {"x": f32(3)})
    own = model("(float[3] x) => (float[3] x, float[3] y) { y = Neg(x) }")
    agrees(own, {"x": f32(3)})


def test_empty_optional_input_in_the_middle() -> None:
    text = "(float[3,4] x) => (float[3,4] y) { y = Clip(x, , high) }"
    agrees(model(text, high=np.float32(0.5)), {"x": f32(3, 4)})
    pad = model("(float[3,4] x) => (float[a,b] y) { y = Pad(x, p, , ax) }", p=i64(1, 2), ax=i64(1))
    agrees(pad, {"x": f32(3, 4)})


@pytest.mark.parametrize("shape", [(), (1,), (3, 1, 1), (1, 3, 1, 1), (4,), (3, 4, 4)])
def test_prelu_slope(shape: tuple[int, ...]) -> None:
    agrees(
        model("(float[N,3,4,4] x) => (float[N,3,4,4] y) { y = PRelu(x, s) }", s=np.abs(f32(*shape))),
        {"x": f32(2, 3, 4, 4)},
    )


def test_float16_with_identity_pairs() -> None:
    """Concat and Split that undo each other do not change a bit."""
    plain = "(float16[4,8] x) => (float16[4,8] y) { t = Exp(x)  u = Mul(t, x)  v = Add(u, t)  y = Tanh(v) }"
    paired = """(float16[4,8] x) => (float16[4,8] y) { t = Exp(x)  c = Concat<axis=1>(t, t)  d, e = Split<axis=1>(c, s)
    u = Mul(d, x)  f = Concat<axis=0>(u, u)  g, h = Split<axis=0>(f, r)  v = Add(g, e)  y = Tanh(v) }"""
    x = f32(4, 8).astype(np.float16)
    first = rillet.compile(model(plain), threads=1)(x)
    second = rillet.compile(model(paired, s=i64(8, 8), r=i64(4, 4)), threads=1)(x)
    assert first.tobytes() == second.tobytes()


def _chain(length: int, *ops: str) -> onnx.ModelProto:
    nodes = [helper.make_node(ops[i % len(ops)], [f"t{i}"], [f"t{i + 1}"]) for i in range(length)]
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["N", 16]) for n in ("t0", f"t{length}")]
    graph = helper.make_graph(nodes, "chain", ends[:1], ends[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


def test_chain_of_300_elementwise_ops_is_one_dispatch() -> None:
    start = time.process_time()
    module = agrees(_chain(300, "Neg", "Abs", "Relu", "Floor"), {"t0": f32(3, 16)})
    assert module.stats["dispatch_count"] == 1
    assert time.process_time() - start < 60  # of this process, whatever else the machine does


def test_fusion_of_many_paths_is_bounded() -> None:
    """Each value is used twice: 2^60 paths lead back to the input."""
    nodes = []
    for i in range(60):
        nodes += [
            helper.make_node("Mul", [f"t{i}", f"t{i}"], [f"u{i}"]),
            helper.make_node("Sub", [f"t{i}", f"u{i}"], [f"v{i}"]),
            helper.make_node("Tanh", [f"v{i}"], [f"t{i + 1}"]),
        ]
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [4, 16]) for n in ("t0", "t60")]
    graph = helper.make_graph(nodes, "bounded", ends[:1], ends[1:])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    agrees(proto, {"t0": 0.1 * f32(4, 16)})


def _many(count: int) -> onnx.ModelProto:
    nodes, last = [], "x"
    for i in range(count // 4):
        nodes += [
            helper.make_node("MatMul", [last, f"w{i % 3}"], [f"a{i}"]),
            helper.make_node("Add", [f"a{i}", "b"], [f"b{i}"]),
            helper.make_node("Relu", [f"b{i}"], [f"c{i}"]),
            helper.make_node("Softmax", [f"c{i}"], [f"d{i}"]),
        ]
        last = f"d{i}"
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [4, 8]) for n in ("x", last)]
    arrays = [numpy_helper.from_array(f32(8, 8), f"w{i}") for i in range(3)]
    graph = helper.make_graph(nodes, "many", ends[:1], ends[1:], [*arrays, numpy_helper.from_array(f32(8), "b")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


@pytest.mark.timeout(600)
def test_compile_time_is_linear_in_the_nodes() -> None:
    """2,500 nodes take less than 7 times the processor time of 500, where five times would be linear."""

    def seconds(proto: onnx.ModelProto) -> float:
        start = time.process_time()
        rillet.compile(proto, threads=1, jobs=1)
        return time.process_time() - start

    seconds(_many(40))
    small = seconds(_many(500))
    assert seconds(_many(2500)) < 7 * small

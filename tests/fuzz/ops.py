"""How the fuzzer applies each op: one function a family, registered with a weight."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .maker import FLOATS, INTEGERS, Maker, Stuck, Value

Apply = Callable[[Maker], object]
APPLICATIONS: list[tuple[float, Apply]] = []

_UNARY = (
    "Abs",
    "Neg",
    "Exp",
    "Log",
    "Sqrt",
    "Relu",
    "Sigmoid",
    "Tanh",
    "Erf",
    "Floor",
    "Ceil",
    "Round",
    "Sign",
    "Reciprocal",
    "Softplus",
    "Softsign",
    "Elu",
    "Selu",
    "Celu",
    "LeakyRelu",
    "HardSigmoid",
    "HardSwish",
    "Mish",
    "Gelu",
    "ThresholdedRelu",
    "Shrink",
    "Sin",
    "Cos",
    "Tan",
    "Atan",
    "Asin",
    "Acos",
    "Sinh",
    "Cosh",
    "Asinh",
    "Acosh",
    "Atanh",
    "Identity",
    "IsNaN",
    "IsInf",
)
# Their attributes (or, in onnx's evaluator, constants) are float32; float64 results may or may not show it.
_FLOAT32_CONSTANTS = {"HardSigmoid", "Gelu", "LeakyRelu", "Selu", "HardSwish", "Mish", "Elu", "Celu", "Shrink"}
_REDUCTIONS = (
    "ReduceSum",
    "ReduceMean",
    "ReduceMax",
    "ReduceMin",
    "ReduceProd",
    "ReduceL1",
    "ReduceL2",
    "ReduceSumSquare",
    "ReduceLogSumExp",
    "ReduceLogSum",
)
_COMPARE = ("Equal", "Greater", "Less", "GreaterOrEqual", "LessOrEqual")


def applies(weight: float) -> Callable[[Apply], Apply]:
    def register(function: Apply) -> Apply:
        APPLICATIONS.append((weight, function))
        return function

    return register


def grow(g: Maker) -> None:
    """Add one random application. Raises Stuck when the chosen one does not fit."""
    weights = np.array([w for w, _ in APPLICATIONS])
    APPLICATIONS[int(g.rng.choice(len(weights), p=weights / weights.sum()))][1](g)


@applies(10)
def unary(g: Maker) -> None:
    op, x = g.one_of(_UNARY), g.floating()
    if x.dtype == "float64" and op in _FLOAT32_CONSTANTS:
        raise Stuck
    g.add(op, [x])


@applies(1)
def unary_other(g: Maker) -> None:
    x = g.value((*INTEGERS, "bool"))
    if x.dtype == "bool":
        g.add("Not", [x])
    else:
        g.add(g.one_of(["Abs", "Neg", "Sign", "BitwiseNot", "Relu"]), [x])


@applies(10)
def binary(g: Maker) -> None:
    x = g.floating()
    operands = [x, g.partner(x)]
    if g.chance(0.5):
        operands.reverse()
    g.add(g.one_of(["Add", "Sub", "Mul", "Div", "Max", "Min", "PRelu"]), operands)


@applies(2)
def integers(g: Maker) -> None:
    x = g.value(INTEGERS)
    if g.chance(0.4):
        divisor = g.constant(np.asarray(g.integer(1, 5), x.dtype))
        op = g.one_of(["Div", "Mod"])
        g.add(op, [x, divisor], **({"fmod": g.integer(0, 1)} if op == "Mod" else {}))
    else:
        g.add(g.one_of(["Add", "Sub", "Mul", "Max", "Min", "BitwiseAnd", "BitwiseOr", "BitwiseXor"]), [x, g.partner(x)])


@applies(1)
def power(g: Maker) -> None:
    x = g.floating()
    g.add("Pow", [g.add("Abs", [x])[0], g.constant(np.asarray(g.one_of([0.5, 1, 2, 3, -1]), x.dtype))])


@applies(2)
def compare(g: Maker) -> None:
    x = g.value((*FLOATS, *INTEGERS))
    g.add(g.one_of(_COMPARE), [x, g.partner(x)])


@applies(1.5)
def logic(g: Maker) -> None:
    x = g.value(("bool",))
    g.add(g.one_of(["And", "Or", "Xor"]), [x, g.partner(x)])


@applies(2)
def where(g: Maker) -> None:
    x = g.value()
    condition = Value("", "bool", x.dims)
    g.add("Where", [g.partner(condition), x, g.partner(x)])


@applies(2)
def cast(g: Maker) -> None:
    x = g.value()
    target = g.one_of([*FLOATS, *INTEGERS, "bool"])
    if x.is_float and target in INTEGERS:
        x = g.add("Clip", [_number(g, x), g.constant(np.asarray(0, x.dtype)), g.constant(np.asarray(9, x.dtype))])[0]
    from onnx import helper

    g.add("Cast", [x], to=helper.np_dtype_to_tensor_dtype(np.dtype(target)))


@applies(2)
def clip(g: Maker) -> None:
    x = g.value((*FLOATS, "int32", "int64"))
    low, high = g.constant(np.asarray(-1, x.dtype)), g.constant(np.asarray(2, x.dtype))
    g.add("Clip", g.one_of([[x, low, high], [x, low], [x, "", high], [x]]))


@applies(1.5)
def variadic(g: Maker) -> None:
    x = g.floating()
    g.add(g.one_of(["Sum", "Mean", "Max", "Min"]), [x, *(g.partner(x) for _ in range(g.integer(0, 2)))])


@applies(5)
def reduce(g: Maker) -> None:
    x = g.floating() if g.chance(0.85) else g.value(("int32", "int64"))
    axes = sorted({int(a) for a in g.rng.integers(0, max(x.rank, 1), g.integer(0, 2))}) if x.rank else []
    axes = [a - x.rank if g.chance(0.3) else a for a in axes]
    ops = _REDUCTIONS if x.is_float else ["ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd"]
    attributes = {"keepdims": g.integer(0, 1)}
    if not axes and g.chance(0.3):
        attributes["noop_with_empty_axes"] = 1
    g.add(g.one_of(ops), [x, g.ints(*axes)] if axes else [x], **attributes)


@applies(1.5)
def arg_reduce(g: Maker) -> None:
    x = g.value((*FLOATS, "int32"), 1)
    g.add(
        g.one_of(["ArgMax", "ArgMin"]),
        [x],
        axis=g.axis(x),
        keepdims=g.integer(0, 1),
        select_last_index=g.integer(0, 1),
    )


@applies(3)
def row_wise(g: Maker) -> None:
    x = g.floating(1)
    op = g.one_of(["Softmax", "Softmax", "LogSoftmax", "Hardmax", "CumSum", "LpNormalization"])
    if op == "CumSum":
        axis = g.constant(np.asarray(g.axis(x), np.int64))
        g.add(op, [x, axis], exclusive=g.integer(0, 1), reverse=g.integer(0, 1))
    elif op == "LpNormalization":
        g.add(op, [x], axis=g.axis(x), p=g.integer(1, 2))
    else:
        g.add(op, [x], axis=g.axis(x))


@applies(2)
def normalization(g: Maker) -> None:
    # Of float64, the specification computes the statistics in float32 and both oracles in float64.
    x = g.value(("float32", "float16"), 1)
    axis = g.integer(0, x.rank - 1)
    if not all(isinstance(d, int) for d in x.dims[axis:]):
        axis = g.fixed_axis(x)
        if axis != x.rank - 1:
            raise Stuck
    scale = g.data(x.dtype, x.dims[axis:])
    g.add("LayerNormalization", [x, scale, g.data(x.dtype, x.dims[axis:])][: g.integer(2, 3)], axis=axis)


@applies(2)
def channel_normalization(g: Maker) -> None:
    x = g.floating(2, 5)
    channels = x.dims[1]
    if not isinstance(channels, int) or not channels:
        raise Stuck
    op = g.one_of(["BatchNormalization", "InstanceNormalization", "GroupNormalization", "LRN"])
    scale, bias = g.data(x.dtype, [channels]), g.data(x.dtype, [channels])
    if op == "BatchNormalization":
        variance = g.constant(np.abs(g.rng.standard_normal(channels)).astype(x.dtype) + 1)
        g.add(op, [x, scale, bias, g.data(x.dtype, [channels]), variance])
    elif op == "GroupNormalization":
        groups = g.one_of([n for n in range(1, channels + 1) if channels % n == 0])
        g.add(op, [x, scale, bias], num_groups=groups)
    elif op == "LRN":
        g.add(op, [x], size=g.integer(1, 4))
    elif x.rank > 2:
        g.add(op, [x, scale, bias])


@applies(4)
def reshape(g: Maker) -> None:
    x = g.value(low=1)
    if x.static and g.chance(0.5) and x.elements:
        extents, left = [], x.elements
        while left > 1 and len(extents) < 4:
            extent = g.one_of([n for n in range(1, left + 1) if left % n == 0])
            extents.append(extent)
            left //= extent
        extents.append(left)
        g.rng.shuffle(extents)
        if g.chance(0.4):
            extents[g.integer(0, len(extents) - 1)] = -1
        g.add("Reshape", [x, g.ints(*extents)])
        return
    kept = [0 if isinstance(d, str) or g.chance(0.3) else d for d in x.dims]
    if 0 in [d for d in x.dims if isinstance(d, int)]:
        raise Stuck
    axis = g.integer(0, x.rank - 1)
    g.add("Reshape", [x, g.ints(*kept[:axis], -1, *([1] if g.chance(0.3) else []))])


@applies(1)
def flatten(g: Maker) -> None:
    x = g.value(low=1)
    g.add("Flatten", [x], axis=g.axis(x))


@applies(4)
def transpose(g: Maker) -> None:
    x = g.value(low=2)
    g.add("Transpose", [x], perm=[int(i) for i in g.rng.permutation(x.rank)])


@applies(3)
def unit_axes(g: Maker) -> None:
    x = g.value(high=4)
    ones = [i for i, d in enumerate(x.dims) if d == 1]
    if ones and g.chance(0.5):
        g.add("Squeeze", [x, g.ints(g.one_of(ones))])
    else:
        g.add("Unsqueeze", [x, g.ints(g.integer(-x.rank - 1, x.rank))])


@applies(2)
def expand(g: Maker) -> None:
    x = g.value(high=4)
    wanted = [g.integer(1, 4) if d == 1 else 1 for d in x.dims]
    if g.chance(0.3):
        wanted = [g.integer(1, 3), *wanted]
    g.add("Expand", [x, g.ints(*wanted)])


@applies(1)
def expand_like(g: Maker) -> None:
    x = g.value()
    shape = g.add("Shape", [g.value()])[0]
    g.add("Expand", [x, shape]) if g.chance(0.5) else g.add("ConstantOfShape", [shape])


@applies(1)
def tile(g: Maker) -> None:
    x = g.value(low=1, high=4)
    g.add("Tile", [x, g.ints(*(int(n) for n in g.rng.integers(1, 3, x.rank)))])


@applies(4)
def slice_(g: Maker) -> None:
    x = g.value(low=1)
    axis = g.axis(x)
    step = g.one_of([1, 1, 2, 3, -1, -2])
    start, end = g.integer(-4, 4), g.integer(-4, 20)
    if step < 0:
        start, end = end, g.one_of([start, -(1 << 31)])
    g.add("Slice", [x, g.ints(start), g.ints(end), g.ints(axis), g.ints(step)])


@applies(3)
def concat(g: Maker) -> None:
    x = g.value(low=1)
    axis = g.integer(0, x.rank - 1)
    others = [
        v
        for v in g.values
        if v.dtype == x.dtype
        and v.rank == x.rank
        and v.dims[:axis] == x.dims[:axis]
        and v.dims[axis + 1 :] == x.dims[axis + 1 :]
    ]
    if g.chance(0.4):
        others = [g.data(x.dtype, (*x.dims[:axis], g.integer(1, 4), *x.dims[axis + 1 :]))]
    g.add("Concat", [x, *(g.one_of(others) for _ in range(g.integer(0, 2)))], axis=axis)


@applies(2)
def split(g: Maker) -> None:
    x = g.value(low=1)
    axis = g.fixed_axis(x, 2)
    extent = int(x.dims[axis])
    if g.chance(0.5):
        first = g.integer(0, extent)
        g.add("Split", [x, g.ints(first, extent - first)], 2, axis=axis)
    else:
        g.add("Split", [x], 2, axis=axis, num_outputs=2)


@applies(3)
def pad(g: Maker) -> None:
    x = g.value((*FLOATS, "int32", "int64"), 1, 4)
    mode = g.one_of(["constant", "constant", "edge", "reflect", "wrap"])
    least = [d if isinstance(d, int) else 1 for d in x.dims]
    if mode == "constant":
        pads = [int(n) for n in g.rng.integers(-1 if min(least) > 2 else 0, 3, 2 * x.rank)]
    else:
        if min(least) < 1 or not x.static:
            raise Stuck
        pads = [g.integer(0, max(0, min(2, d - 1))) for d in [*least, *least]]
    inputs: list[Value | str] = [x, g.ints(*pads)]
    if mode == "constant" and g.chance(0.4):
        inputs.append(g.constant(np.asarray(2, x.dtype)))
    g.add("Pad", inputs, mode=mode)


def _indices(g: Maker, extent: int, shape: tuple[int, ...]) -> Value:
    if extent < 1:
        raise Stuck
    return g.constant(g.rng.integers(-extent, extent, shape).astype(g.one_of([np.int64, np.int32])))


@applies(3)
def gather(g: Maker) -> None:
    x = g.value(low=1, high=4)
    axis = g.fixed_axis(x)
    shape = tuple(int(n) for n in g.rng.integers(1, 4, g.integer(0, 2)))
    g.add("Gather", [x, _indices(g, int(x.dims[axis]), shape)], axis=axis)


@applies(1.5)
def gather_elements(g: Maker) -> None:
    x = g.value(low=1, high=4)
    if not x.static or not x.elements:
        raise Stuck
    axis = g.integer(0, x.rank - 1)
    shape = tuple(g.integer(1, 3) if i == axis else g.integer(1, int(d)) for i, d in enumerate(x.dims))
    indices = _indices(g, int(x.dims[axis]), shape)
    if g.chance(0.5):
        g.add("GatherElements", [x, indices], axis=axis)
    else:
        order = np.argsort(g.rng.random((*shape[:axis], int(x.dims[axis]), *shape[axis + 1 :])), axis=axis)
        taken = order.take(range(min(shape[axis], int(x.dims[axis]))), axis=axis).astype(np.int64)
        updates = g.data(x.dtype, taken.shape)
        reduction = g.one_of(["none", "add", "max"]) if x.dtype in (*FLOATS, "int32", "int64") else "none"
        g.add("ScatterElements", [x, g.constant(taken), updates], axis=axis, reduction=reduction)


@applies(1.5)
def gather_nd(g: Maker) -> None:
    x = g.value(low=1, high=4)
    if not x.static or not x.elements:
        raise Stuck
    depth = g.integer(1, x.rank)
    flat = g.rng.permutation(int(np.prod(x.dims[:depth])))[: g.integer(1, 4)]
    indices = g.constant(np.stack(np.unravel_index(flat, x.dims[:depth]), -1).astype(np.int64))
    if g.chance(0.5):
        g.add("GatherND", [x, indices])
    else:
        g.add("ScatterND", [x, indices, g.data(x.dtype, (len(flat), *x.dims[depth:]))])


@applies(1)
def trilu(g: Maker) -> None:
    x = g.value((*FLOATS, "int64"), 2)
    g.add("Trilu", [x, g.constant(np.asarray(g.integer(-2, 2), np.int64))], upper=g.integer(0, 1))


@applies(1)
def one_hot(g: Maker) -> None:
    x = g.value(("int64", "int32"), 0, 3)
    values = g.constant(np.array([0, 1], g.float_type if g.float_type != "float16" else "float32"))
    g.add("OneHot", [x, g.constant(np.asarray(g.integer(1, 6), np.int64)), values], axis=-1)


@applies(1)
def depth_space(g: Maker) -> None:
    x = g.floating(4, 4)
    if x.static and x.elements and x.dims[2] % 2 == 0 and x.dims[3] % 2 == 0 and g.chance(0.5):
        g.add("SpaceToDepth", [x], blocksize=2)
    elif isinstance(x.dims[1], int) and x.dims[1] and x.dims[1] % 4 == 0:
        g.add("DepthToSpace", [x], blocksize=2, mode=g.one_of(["DCR", "CRD"]))


@applies(1.5)
def top_k(g: Maker) -> None:
    x = g.floating(1, 4)
    axis = g.fixed_axis(x)
    k = g.ints(g.integer(1, int(x.dims[axis])))
    values = g.add("TopK", [x, k], 2, axis=axis, largest=g.integer(0, 1))
    g.values.remove(values[1]) if g.chance(0.3) else None


@applies(6)
def matmul(g: Maker) -> None:
    x = g.floating(1, 4)
    inner = x.dims[-1]
    columns = g.integer(1, 40) if g.chance(0.5) else g.dim()
    batch: tuple = ()
    if x.rank > 2 and g.chance(0.4):
        batch = tuple(1 if g.chance(0.2) else d for d in x.dims[:-2])[g.integer(0, x.rank - 2) :]
    y = g.data(x.dtype, (*batch, inner, columns) if g.chance(0.9) or batch else (inner,))
    z = g.add("MatMul", [x, y])[0]
    if z.rank and g.chance(0.4):
        g.add("Add", [z, g.data(z.dtype, z.dims[-1:])])


@applies(3)
def gemm(g: Maker) -> None:
    x = g.floating(2, 2)
    a, b = g.integer(0, 1), g.integer(0, 1)
    rows, inner = (x.dims[1], x.dims[0]) if a else x.dims
    columns = g.integer(1, 33)
    y = g.data(x.dtype, (columns, inner) if b else (inner, columns))
    inputs = [x, y]
    if g.chance(0.7):
        inputs.append(g.data(x.dtype, g.one_of([(columns,), (rows, columns), (rows, 1), (1, columns), (1,), ()])))
    g.add("Gemm", inputs, transA=a, transB=b, alpha=g.one_of([1.0, 0.5]), beta=g.one_of([1.0, 2.0]))


@applies(1)
def einsum(g: Maker) -> None:
    x = g.floating(2, 3)
    y = g.data(x.dtype, (x.dims[-1], g.integer(1, 5)))
    if x.rank == 2:
        equation = g.one_of(["ij,jk->ik", "ij,jk->ki", "ij,jk->jik", "ij,jk->i", "ij,jk"])
    else:
        equation = g.one_of(["bij,jk->bik", "bij,jk->kb", "bij,jk->ib", "...ij,jk->...ki"])
    g.add("Einsum", [x, y], equation=equation)


def _number(g: Maker, x: Value) -> Value:
    """``x`` without NaN, whose conversion to an integer may give anything."""
    return g.add("Where", [g.add("IsNaN", [x])[0], g.constant(np.asarray(0, x.dtype)), x])[0]


def _spatial(g: Maker, x: Value, dilate: bool = True) -> dict:
    """Kernel, strides, pads and dilations that fit the fixed extents of ``x``."""
    rank = x.rank - 2
    kernel, dilations = [], []
    for d in x.dims[2:]:
        limit = d if isinstance(d, int) else 1
        kernel.append(g.integer(1, max(1, min(4, limit + 1))))
        dilations.append(g.one_of([1, 1, 2]) if dilate and kernel[-1] > 1 else 1)
    attributes = {"kernel_shape": kernel}
    if g.chance(0.5):
        attributes["strides"] = [g.integer(1, 3) for _ in range(rank)]
    if any(n > 1 for n in dilations):
        attributes["dilations"] = dilations
    if g.chance(0.2):
        attributes["auto_pad"] = g.one_of(["SAME_UPPER", "SAME_LOWER", "VALID"])
    else:
        attributes["pads"] = [g.integer(0, k - 1) for k in [*kernel, *kernel]]
    padding = attributes.get("pads", [0] * (2 * rank))
    for d, k, dilation, low, high in zip(x.dims[2:], kernel, dilations, padding, padding[rank:], strict=False):
        if isinstance(d, int) and (k - 1) * dilation + 1 > d + low + high:
            raise Stuck  # whether that is no window or an error, implementations do not agree on
    return attributes


@applies(5)
def conv(g: Maker) -> None:
    x = g.floating(3, 5)
    channels = x.dims[1]
    if not isinstance(channels, int) or not channels or 0 in x.dims:
        raise Stuck
    groups = g.one_of([n for n in (1, 1, 2, channels) if channels % n == 0])
    attributes = _spatial(g, x)
    features = groups * g.integer(1, 4 if groups > 1 else 20)
    weights = g.data(x.dtype, (features, channels // groups, *attributes["kernel_shape"]))
    inputs = [x, weights, g.data(x.dtype, (features,))][: g.integer(2, 3)]
    y = g.add("Conv", inputs, group=groups, **attributes)[0]
    if g.chance(0.4):
        g.add(g.one_of(["Relu", "Sigmoid", "HardSwish", "LeakyRelu"]), [y])


@applies(1)
def conv_transpose(g: Maker) -> None:
    x = g.floating(3, 4)
    channels = x.dims[1]
    if not isinstance(channels, int) or not channels or 0 in x.dims:
        raise Stuck
    groups = g.one_of([n for n in (1, 1, 2, channels) if channels % n == 0])
    attributes = _spatial(g, x, dilate=False)
    if "auto_pad" in attributes:
        raise Stuck
    weights = g.data(x.dtype, (channels, g.integer(1, 4), *attributes["kernel_shape"]))
    g.add("ConvTranspose", [x, weights], group=groups, **attributes)


@applies(3)
def pool(g: Maker) -> None:
    x = g.floating(3, 5)
    if 0 in x.dims:
        raise Stuck
    op = g.one_of(["MaxPool", "AveragePool", "LpPool", "GlobalAveragePool", "GlobalMaxPool"])
    if op.startswith("Global"):
        g.add(op, [x])
        return
    attributes = _spatial(g, x)
    attributes["ceil_mode"] = g.integer(0, 1) if "auto_pad" not in attributes else 0
    if op == "AveragePool":
        attributes["count_include_pad"] = g.integer(0, 1)
    if op == "LpPool":
        attributes["p"] = g.integer(1, 2)
        attributes.pop("ceil_mode")
    g.add(op, [x], **attributes)


@applies(1.5)
def resize(g: Maker) -> None:
    x = g.floating(3, 4)
    if 0 in x.dims:
        raise Stuck
    scales = [1.0, 1.0, *(g.one_of([0.5, 1.0, 1.5, 2.0, 3.0]) for _ in x.dims[2:])]
    g.add(
        "Resize",
        [x, "", g.constant(np.array(scales, np.float32))],
        mode=g.one_of(["nearest", "linear"]),
        coordinate_transformation_mode=g.one_of(["half_pixel", "asymmetric", "align_corners"]),
        nearest_mode=g.one_of(["floor", "round_prefer_floor"]),
    )


@applies(2)
def quantize(g: Maker) -> None:
    x = _number(g, g.value(("float32",)))
    zero = g.constant(np.asarray(g.integer(0, 5), g.one_of(["uint8", "int8"])))
    scale = g.constant(np.asarray(0.05, np.float32))
    q = g.add("QuantizeLinear", [x, scale, zero])[0]
    if g.chance(0.7):
        g.add("DequantizeLinear", [q, scale, zero])


@applies(1)
def matmul_integer(g: Maker) -> None:
    x = g.value(("uint8", "int8"), 2, 3)
    y = g.data(g.one_of(["uint8", "int8"]), (x.dims[-1], g.integer(1, 20)))
    zero = g.constant(np.asarray(g.integer(0, 5), x.dtype))
    g.add("MatMulInteger", [x, y, zero][: g.integer(2, 3)])


@applies(1)
def attention(g: Maker) -> None:
    """softmax(x yᵀ) z, spelled out as exporters do."""
    x = g.floating(2, 4)
    other = g.dim()
    keys = g.data(x.dtype, (*x.dims[:-2], other, x.dims[-1]))
    perm = [*range(x.rank - 2), x.rank - 1, x.rank - 2]
    scores = g.add("MatMul", [x, g.add("Transpose", [keys], perm=perm)[0]])[0]
    scaled = g.add("Mul", [scores, g.constant(np.asarray(0.5, x.dtype))])[0]
    weights = g.add("Softmax", [scaled], axis=-1)[0]
    g.add("MatMul", [weights, g.data(x.dtype, (*x.dims[:-2], other, g.integer(1, 9)))])


@applies(0.6)
def non_zero(g: Maker) -> None:
    x = g.value(low=1, high=3)
    g.add("NonZero", [x])


@applies(0.6)
def shape_arithmetic(g: Maker) -> None:
    """Reshape to a shape computed from another value's: [Shape(x)[0], -1]."""
    x = g.value(low=2, high=4)
    if 0 in x.dims:
        raise Stuck
    shape = g.add("Shape", [x])[0]
    first = g.add("Gather", [shape, g.ints(0)], axis=0)[0]
    target = g.add("Concat", [first, g.constant(np.array([-1], np.int64))], axis=0)[0]
    g.add("Reshape", [x, target])

"""Random ops: Philox-4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011) keyed by the seed.

The generator is counter based: an element's number depends on the seed and its position only, so results are the same
on every target and with any number of threads. Without a seed the node's name takes its place.
"""

from __future__ import annotations

import math
import struct
import zlib

from rillet.dialects import linalg
from rillet.frontends.building import element_types, scalars
from rillet.frontends.building.conversions import convert
from rillet.frontends.building.loops import scalar_of
from rillet.frontends.building.scalars import Scalar, constant, select, shift_right
from rillet.frontends.building.tensor import Tensor
from rillet.frontends.errors import InvalidNode, UnsupportedFeature
from rillet.frontends.onnx.node import Node
from rillet.frontends.onnx.registry import op
from rillet.ir import builders
from rillet.ir.builders import Extent

_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)
_ROUNDS = 10


def _seed(node: Node) -> tuple[int, int]:
    """Two 32-bit keys from the ``seed`` attribute (a float) and the node's name."""
    seed = node.attr("seed", None)
    name = zlib.crc32(node.name.encode())
    if seed is None:
        return name, zlib.crc32(node.op_type.encode())
    return struct.unpack("<I", struct.pack("<f", float(seed)))[0], 0


def _multiply(a: Scalar, factor: int) -> tuple[Scalar, Scalar]:
    """The high and low words of a 32 x 32 bit product."""
    wide = convert(a, "uint64") * factor
    return convert(shift_right(wide, 32), "uint32"), convert(wide, "uint32")


def philox(counter: Scalar, key: tuple[int, int]) -> list[Scalar]:
    """Four random 32-bit words for a position (an index scalar)."""
    position = convert(convert(counter, "int64"), "uint64")
    zero = constant(0, "uint32")
    c = [convert(position, "uint32"), convert(shift_right(position, 32), "uint32"), zero, zero]
    k = list(key)
    for _ in range(_ROUNDS):
        high0, low0 = _multiply(c[0], _MULTIPLIERS[0])
        high1, low1 = _multiply(c[2], _MULTIPLIERS[1])
        c = [high1 ^ c[1] ^ k[0], low1, high0 ^ c[3] ^ k[1], low0]
        k = [(a + w) & 0xFFFFFFFF for a, w in zip(k, _WEYL, strict=True)]
    return c


def _unit(word: Scalar, dtype: str) -> Scalar:
    """A number in [0, 1) with 24 random bits."""
    return convert(shift_right(word, 8), dtype) * 2.0**-24


def _position(node: Node, at: list[Scalar], shape: list[Extent]) -> Scalar:
    flat = constant(0, "index")
    for index, extent in zip(at, shape, strict=True):
        flat = flat * scalar_of(extent) + index
    return flat


def uniform(node: Node, shape: list[Extent], dtype: str = "float32") -> Tensor:
    """Numbers in [0, 1), as the node's seed gives them."""
    key = _seed(node)
    return node.b.indexed(dtype, shape, lambda at: _unit(philox(_position(node, at, shape), key)[0], dtype))


def _random(node: Node, shape: list[Extent], dtype: str) -> Tensor:
    b, key = node.b, _seed(node)
    compute = element_types.compute_dtype(dtype)
    if not element_types.is_float(dtype):
        raise UnsupportedFeature(f"random numbers of type {dtype}", "make them float32 and cast")
    if "Uniform" in node.op_type:
        low, high = float(node.attr("low", 0.0)), float(node.attr("high", 1.0))

        def uniform(at: list[Scalar]) -> Scalar:
            return _unit(philox(_position(node, at, shape), key)[0], compute) * (high - low) + low

        return b.indexed(dtype, shape, uniform)
    mean, scale = float(node.attr("mean", 0.0)), float(node.attr("scale", 1.0))

    def normal(at: list[Scalar]) -> Scalar:
        """Box-Muller; 1 - u lies in (0, 1], whose logarithm is finite."""
        first, second = (_unit(w, compute) for w in philox(_position(node, at, shape), key)[:2])
        radius = scalars.sqrt(scalars.log(1.0 - first) * -2.0)
        return radius * scalars.cos(second * (2.0 * math.pi)) * scale + mean

    return b.indexed(dtype, shape, normal)


@op("RandomUniform", "RandomNormal")
def random(node: Node) -> Tensor:
    """A tensor of shape ``shape``: uniform in [low, high), or normal with ``mean`` and standard deviation ``scale``.

    Raises UnsupportedFeature for a ``dtype`` that is not a float type.
    """
    return _random(node, list(node.attr("shape")), node.dtype_attr("dtype", "float32"))


@op("RandomUniformLike", "RandomNormalLike")
def random_like(node: Node, x: Tensor) -> Tensor:
    """As ``random``, in the shape of x, and in its type unless ``dtype`` names one."""
    return _random(node, list(x.shape), node.dtype_attr("dtype", x.dtype))


@op("Bernoulli", since=15)
def bernoulli(node: Node, x: Tensor) -> Tensor:
    """1 with the probability that x gives, else 0."""
    b, key = node.b, _seed(node)
    dtype = node.dtype_attr("dtype", x.dtype)
    source = b.value(x)
    shape = list(x.shape)

    def body(at: list[Scalar]) -> Scalar:
        p = b.element(source, x.dtype, at)
        hit = _unit(philox(_position(node, at, shape), key)[0], p.dtype) < p
        return convert(hit, element_types.compute_dtype(dtype)) if dtype != "bool" else hit

    return b.indexed(dtype, shape, body)


@op("Multinomial", since=7)
def multinomial(node: Node, x: Tensor) -> Tensor:
    """``sample_size`` draws from each row of unnormalized log-probabilities, by the Gumbel-max trick.

    Raises InvalidNode for another rank than 2 or results that are not integers.
    """
    b, key = node.b, _seed(node)
    dtype = node.dtype_attr("dtype", "int32")
    if x.rank != 2 or not element_types.is_integer(dtype):
        raise InvalidNode(f"an input of rank {x.rank} and outputs of type {dtype}")
    draws = node.attr("sample_size", 1)
    shape = [x.shape[0], draws, x.shape[1]]
    source = b.value(x)

    def score(at: list[Scalar]) -> Scalar:
        unit = _unit(philox(_position(node, at, shape), key)[0], "float32")
        gumbel = -scalars.log(-scalars.log(unit + 2.0**-25))
        return convert(b.element(source, x.dtype, [at[0], at[2]]), "float32") + gumbel

    scores = b.indexed("float32", shape, score)
    loops = builders.dims(3)
    outputs = [
        (b.init(-math.inf, "float32", shape[:2]), loops[:2], "float32", shape[:2]),
        (b.init(0, dtype, shape[:2]), loops[:2], dtype, shape[:2]),
    ]

    def body(v: Scalar, best: Scalar, chosen: Scalar) -> list[Scalar]:
        better = v > best
        here = convert(convert(Scalar(linalg.IndexOp(2).result, "index"), "int64"), dtype)
        return [select(better, v, best), select(better, here, chosen)]

    return b.generic([(scores, loops)], outputs, "ppr", body)[1]

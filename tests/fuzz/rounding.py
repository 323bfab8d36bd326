"""Whether rounding alone explains a difference: results that rounding-sized changes move as much are no finding.

What is changed: inputs and constants (both oracles), and every result that a node rounds (reference evaluator). A
change depends on the values that an element comes from, so that exact ties stay ties; elements that a node only moves,
and multiples of 1/4 made of such multiples, which most arithmetic keeps exact, are left alone.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence

import ml_dtypes
import numpy as np
import onnx
from onnx import numpy_helper
from onnx.reference import ReferenceEvaluator

from rillet.frontends.onnx.verification.submodel import submodel

from .defects import reference_is_wrong
from .maker import FLOATS

Arrays = Mapping[str, np.ndarray]
_TRIALS, _ROUNDINGS = 6, 24
# Ops that multiply by fractions which no operand shows: what is whole is so by rounding.
_FRACTIONS = {"Resize", "GridSample", "RoiAlign", "HardSigmoid", "HardSwish", "LeakyRelu", "Selu", "LRN", "Gelu"}
_WHOLE = {"Round", "Floor", "Ceil", "Sign"}


def unstable(
    model: onnx.ModelProto,
    feeds: Arrays,
    oracles: Sequence[Arrays],
    run: Callable[[onnx.ModelProto, Arrays], list[dict[str, np.ndarray]]],
    actual: Arrays,
    wrong: Sequence[str],
) -> bool:
    """Whether rounding-sized changes move the oracles' results ``wrong`` as much as ``actual`` is away from them.

    The oracles' disagreement with each other counts as well: sums of other orders are such changes. ``run`` gives the
    results of each oracle that runs a model.
    """
    part = submodel(model, list(wrong))  # an oracle that does not run the whole model may run this
    part_feeds = {i.name: feeds[i.name] for i in part.graph.input if i.name in feeds}
    results = [*oracles, *_variants(part, part_feeds, run)]
    return all(_within(actual[name], [r[name] for r in results]) for name in wrong)


def _variants(
    model: onnx.ModelProto, feeds: Arrays, run: Callable[[onnx.ModelProto, Arrays], list[dict[str, np.ndarray]]]
) -> Iterator[Arrays]:
    for trial in range(_TRIALS):
        shaken = onnx.ModelProto()
        shaken.CopyFrom(model)
        for tensor in shaken.graph.initializer:
            tensor.CopyFrom(numpy_helper.from_array(_shake(numpy_helper.to_array(tensor), trial), tensor.name))
        moved = {n: _shake(a, trial) for n, a in feeds.items()}
        # Constants may be scales that sizes depend on: then only the inputs change.
        yield from run(shaken, moved) or run(model, moved)
    for trial in range(0 if reference_is_wrong(model) else _ROUNDINGS):
        yield from _rounded_otherwise(model, feeds, trial)


def _rounded_otherwise(model: onnx.ModelProto, feeds: Arrays, trial: int) -> list[Arrays]:
    """The reference evaluator's results with every node's rounded results shaken; none where it does not run."""
    names = [o.name for o in model.graph.output]
    try:
        evaluator = ReferenceEvaluator(model)
        for position, node in enumerate(evaluator.rt_nodes_):
            op_type = node.onnx_node.op_type
            if op_type not in _WHOLE:
                node.run = _shaking(node.run, trial + _ROUNDINGS * position, op_type in _FRACTIONS)
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            results = evaluator.run(names, dict(feeds))
    except Exception:  # whatever numpy and its op implementations raise
        return []
    return [dict(zip(names, map(np.asarray, results), strict=True))]


def _shaking(run: Callable[..., tuple], seed: int, fractions: bool) -> Callable[..., tuple]:
    def shaken(*inputs: object, **attributes: object) -> tuple:
        arrays = [a for a in inputs if isinstance(a, np.ndarray)]
        results = run(*inputs, **attributes)
        return tuple(_shake(r, seed, arrays, fractions) if isinstance(r, np.ndarray) else r for r in results)

    return shaken


def _shake(
    array: np.ndarray, seed: int, sources: Sequence[np.ndarray] | None = None, fractions: bool = False
) -> np.ndarray:
    """``array``, made of ``sources`` (None: of itself) and perhaps of hidden fractions, rounded in another way."""
    if array.dtype.name not in FLOATS or not array.size:
        return array
    step = 2 * float(ml_dtypes.finfo(array.dtype).eps)
    wide = array.astype(np.float64)
    floats = [s.astype(np.float64) for s in sources or () if s.dtype.name in FLOATS]
    with np.errstate(all="ignore"):
        exact = np.mod(wide, 0.25) == 0
        for source in floats:
            whole = np.mod(source, 0.25) == 0
            exact &= np.broadcast_to(whole, wide.shape) if _fits(source.shape, wide.shape) else whole.all()
        moved = np.isin(np.abs(wide), np.abs(np.concatenate([s.ravel() for s in floats]))) if floats else False
        shaken = (wide * (1 + step * _noise(wide, seed, None if sources is None else floats))).astype(array.dtype)
    return shaken if fractions else np.where(exact | moved, array, shaken)


def _noise(wide: np.ndarray, seed: int, sources: Sequence[np.ndarray] | None) -> np.ndarray:
    """Numbers of 0.5..1 and either sign; the same ones where elements, and those they come from, are the same."""
    fitting = [np.broadcast_to(s, wide.shape) for s in sources or () if _fits(s.shape, wide.shape)]
    if sources is not None and not fitting:
        fitting = [np.arange(wide.size, dtype=np.float64).reshape(wide.shape)]
    bits = np.full(wide.shape, seed + 1, np.uint64)
    for part in (wide, *fitting):
        bits = _mixed(bits ^ np.array(part, order="C").view(np.uint64))
    noise = bits / 2.0**63 - 1
    return (np.abs(noise) + 1) / 2 * np.sign(noise)


def _fits(shape: Sequence[int], target: Sequence[int]) -> bool:
    """Whether ``shape`` broadcasts to ``target``, and is not that of single elements only."""
    try:
        return np.broadcast_shapes(shape, target) == tuple(target) and any(n != 1 for n in shape)
    except ValueError:
        return False


def _mixed(bits: np.ndarray) -> np.ndarray:
    """The finalizer of SplitMix64 (Steele, Lea, Flood 2014)."""
    bits = (bits + np.uint64(0x9E3779B97F4A7C15)).astype(np.uint64)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))


def _within(actual: np.ndarray, variants: Sequence[np.ndarray]) -> bool:
    same = [v for v in variants if v.shape == actual.shape and v.dtype == actual.dtype]
    if not same or len(same) < len(variants):
        return bool(same) or len({v.shape for v in variants}) > 1
    if len(same) == 1 or not actual.size:
        return False
    base = same[0].astype(np.float64)
    step = float(ml_dtypes.finfo(actual.dtype).eps) if actual.dtype.name in FLOATS else 0
    with np.errstate(all="ignore"):
        spread = np.max([np.abs(v.astype(np.float64) - base) for v in same[1:]], axis=0)
        apart = np.abs(actual.astype(np.float64) - base)
        chaotic = ~np.isfinite(spread) | ~np.isfinite(base)
        rounding = 4 * step * np.abs(base)  # of elements that agree, beside unstable ones
    return bool(np.all(chaotic | (apart <= 20 * spread + rounding + 1e-12)))

"""Folds nodes whose inputs are all known, with onnx's reference evaluator.

A node is folded when it is deterministic, has no subgraph, and its result is small or not much larger than its
inputs: an Expand of a scalar to megabytes stays an op.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rillet.frontends.building.tensor import Tensor
from rillet.frontends.onnx.node_use import NodeUse
from rillet.frontends.onnx.scope import Value
from rillet.ir import dtypes

if TYPE_CHECKING:
    import onnx

_SMALL = 1 << 20  # bytes that a result may always have
_GROWTH = 8  # a larger result may be this many times the size of the inputs (int4 weights to float32)
# Ops that produce many elements from few, where evaluating first and looking later would be too late.
_GENERATORS = {"ConstantOfShape", "Expand", "Tile", "OneHot", "EyeLike", "Range", "Pad", "Resize", "Upsample"}
# Kept for the optimizer, which computes with the narrow integers or folds the node itself.
_KEPT = {"DequantizeLinear"}

_log = logging.getLogger(__name__)


def fold_known(use: NodeUse) -> Sequence[Value | None] | None:
    """Evaluate the node where all its inputs are known and its result is not too large."""
    tensors = [t for t in use.inputs if isinstance(t, Tensor)]
    if not use.is_plain or any(t.array is None for t in tensors):
        return None
    arrays = [t.array if isinstance(t, Tensor) else None for t in use.inputs]
    folded = _folded(use.proto, use.scope.opsets, arrays, use.walk.model.ir_version)
    if folded is None:
        return None
    return [use.b.constant(a, name=o) for a, o in zip(folded, use.proto.output, strict=True)]


def _folded(
    proto: onnx.NodeProto,
    opsets: Mapping[str, int],
    inputs: Sequence[np.ndarray | None],
    ir_version: int,
) -> list[np.ndarray] | None:
    """The node's outputs, or None when it should not or cannot be folded."""
    import onnx
    from onnx.reference import ReferenceEvaluator

    if not _foldable(proto, opsets):
        return None
    size = sum(_bytes(a) for a in inputs if a is not None)
    names = [n for n in proto.input if n]
    arrays = {n: np.asarray(a) for n, a in zip(proto.input, inputs, strict=True) if n and a is not None}
    if proto.op_type in _GENERATORS and not _result_is_small(proto, opsets, arrays, ir_version, size):
        return None
    outputs = [o for o in proto.output if o]
    graph = onnx.helper.make_graph(
        [proto],
        "fold",
        [
            onnx.helper.make_tensor_value_info(n, dtypes.by_name[arrays[n].dtype.name].code, None)
            for n in dict.fromkeys(names)
        ],
        [onnx.helper.make_empty_tensor_value_info(o) for o in outputs],
    )
    # The evaluator may not know other domains, and refuses a model that imports them.
    imports = [onnx.helper.make_opsetid(d, v) for d, v in opsets.items() if d == proto.domain or not d]
    model = onnx.helper.make_model(graph, opset_imports=imports, ir_version=ir_version)
    try:
        with np.errstate(all="ignore"):
            results = ReferenceEvaluator(model).run(None, arrays)
    except Exception as error:  # the evaluator lacks some ops and opsets, in many ways
        _log.debug("not folded: %s '%s': %s", proto.op_type, proto.name, error)
        return None
    if not all(isinstance(r, np.ndarray | np.generic) for r in results):
        return None
    by_name = dict(zip(outputs, (np.asarray(r) for r in results), strict=True))
    if any(a.dtype.name not in dtypes.by_name for a in by_name.values()):
        return None
    if sum(a.nbytes for a in by_name.values()) > max(_SMALL, _GROWTH * size):
        return None
    return [by_name.get(o, np.empty(0)) for o in proto.output]


def _foldable(proto: onnx.NodeProto, opsets: Mapping[str, int]) -> bool:
    import onnx

    if (
        proto.op_type in _KEPT
        or not proto.output
        or any(a.HasField("g") or a.graphs or a.ref_attr_name for a in proto.attribute)
    ):
        return False
    try:
        schema = onnx.defs.get_schema(proto.op_type, opsets.get(proto.domain, 1), proto.domain)
    except onnx.defs.SchemaError:
        return False
    return schema.node_determinism != onnx.defs.OpSchema.NodeDeterminism.NonDeterministic


def _bytes(array: np.ndarray) -> int:
    """Bytes of distinct storage: a broadcast array counts as its one element."""
    return array.itemsize if array.size and not any(array.strides) else array.nbytes


def _result_is_small(
    proto: onnx.NodeProto, opsets: Mapping[str, int], arrays: Mapping[str, np.ndarray], ir_version: int, size: int
) -> bool:
    import onnx

    schema = onnx.defs.get_schema(proto.op_type, opsets.get(proto.domain, 1), proto.domain)
    types: dict[str, Any] = {
        n: onnx.helper.make_tensor_type_proto(dtypes.by_name[a.dtype.name].code, a.shape) for n, a in arrays.items()
    }
    data = {n: onnx.numpy_helper.from_array(a) for n, a in arrays.items() if a.size <= 64}
    try:
        inferred = onnx.shape_inference.infer_node_outputs(schema, proto, types, data, ir_version=ir_version)
    except Exception as error:  # inference errors come in several kinds; not folding is always right
        _log.debug("no inferred size: %s '%s': %s", proto.op_type, proto.name, error)
        return False
    for type_ in inferred.values():
        dims = [d.dim_value if d.HasField("dim_value") else -1 for d in type_.tensor_type.shape.dim]
        if -1 in dims or int(np.prod(dims, dtype=np.int64)) * 8 > max(_SMALL, _GROWTH * size):
            return False
    return bool(inferred)

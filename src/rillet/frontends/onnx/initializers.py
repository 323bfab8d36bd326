"""The arrays of a graph's initializers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rillet.errors import CompileError
from rillet.frontends.tensor_size import check_size

if TYPE_CHECKING:
    import onnx

_STRING = 8  # onnx.TensorProto.STRING
_FIRST_OVERRIDABLE = 4  # IR version
_MAX_DENSE = 1 << 31  # bytes of a sparse initializer once it is dense


def initializers(graph: onnx.GraphProto) -> dict[str, np.ndarray]:
    """The initializers of a graph by name; sparse ones are made dense. Raises CompileError for damaged ones."""
    arrays: dict[str, np.ndarray] = {}
    for tensor in graph.initializer:
        arrays[tensor.name] = _array(tensor)
    for sparse in graph.sparse_initializer:
        arrays[sparse.values.name] = _dense(sparse)
    return arrays


def overridable(model: onnx.ModelProto) -> list[str]:
    """The initializers that a call may replace: those of numbers that are inputs too, in the order of the inputs.

    Files of IR version 3 had to list every initializer as an input; there that means nothing.
    """
    if model.ir_version < _FIRST_OVERRIDABLE:
        return []
    dense = {tensor.name for tensor in model.graph.initializer if tensor.data_type != _STRING}
    return [info.name for info in model.graph.input if info.name in dense]


def _dense(sparse: onnx.SparseTensorProto) -> np.ndarray:
    name = sparse.values.name
    values, indices, dims = _array(sparse.values), _array(sparse.indices), list(sparse.dims)
    check_size(dims, values.dtype.itemsize, f"sparse initializer '{name}'", _MAX_DENSE)
    if indices.dtype != np.int64 or values.ndim != 1 or indices.shape not in ((len(values),), (len(values), len(dims))):
        raise CompileError(f"sparse initializer '{name}': values {values.shape} and indices {indices.shape} do not fit")
    limits = np.array(dims if indices.ndim == 2 else [np.prod(dims, dtype=np.int64)], np.int64)
    positions = indices.reshape(len(values), -1)
    if (positions < 0).any() or (positions >= limits).any():
        raise CompileError(f"sparse initializer '{name}': an index is out of range")
    dense = np.zeros(dims, values.dtype)
    if indices.ndim == 1:
        dense.reshape(-1)[indices] = values
    else:
        dense[tuple(indices.T)] = values
    return dense


def _array(tensor: onnx.TensorProto) -> np.ndarray:
    import onnx

    try:
        return onnx.numpy_helper.to_array(tensor)
    except Exception as error:  # onnx and numpy raise several kinds on damaged tensors
        raise CompileError(f"initializer '{tensor.name}' is damaged: {error}") from error

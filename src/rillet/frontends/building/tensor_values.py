"""The bottom of ``Builder``: makes tensors, and reads what is known of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from torch_mlir import ir
from torch_mlir.dialects import arith

from rillet.frontends.building import e8m0, element_types, scalars
from rillet.frontends.building.conversions import convert
from rillet.frontends.building.extent_arithmetic import Extents
from rillet.frontends.building.scalars import Scalar
from rillet.frontends.building.tensor import Element, Tensor
from rillet.frontends.errors import InvalidNode, UnsupportedFeature
from rillet.ir import Program, builders, constants, dtypes
from rillet.ir.builders import Extent


class TensorValues:
    """Makes tensors at the current insertion point and location, and reads them."""

    def __init__(self, program: Program, anchor: ir.Operation):
        """``anchor`` is an operation in the entry block; constants go before it, so that they dominate every use."""
        self.program = program
        self.extents = Extents()
        self._anchor = anchor

    # --- making tensors ---

    def tensor(self, value: ir.Value, dtype: str, shape: Sequence[Extent]) -> Tensor:
        """Wrap an SSA tensor whose extents are known."""
        return Tensor(dtype, tuple(shape), value=value)

    def wrap(self, value: ir.Value, dtype: str) -> Tensor:
        """Wrap an SSA tensor, reading unknown extents with ``tensor.dim``."""
        rank = ir.RankedTensorType(value.type).rank
        shape = [builders.dim(value, axis) for axis in range(rank)]
        return Tensor(dtype, tuple(d if isinstance(d, int) else self.extents.declare(d) for d in shape), value=value)

    def constant(
        self, array: np.ndarray | Sequence | int | float | bool, dtype: str | None = None, name: str = ""
    ) -> Tensor:
        """A tensor known at compile time. The array is kept by reference."""
        array = np.asarray(array, dtype=dtypes.by_name[dtype].numpy if dtype else None)
        return Tensor(array.dtype.name, array.shape, array=array, name=name)

    def symbolic(self, elements: Sequence[Element], shape: Sequence[int], dtype: str = "int64") -> Tensor:
        """A tensor known element by element (row-major); a plain constant when all elements are."""
        if all(isinstance(e, int | bool) for e in elements):
            return self.constant(np.array(elements, dtype=dtypes.by_name[dtype].numpy).reshape(shape))
        return Tensor(dtype, tuple(shape), elements=tuple(elements))

    def fill(self, value: int | float | bool | Scalar, dtype: str, shape: Sequence[Extent]) -> Tensor:
        """A tensor full of ``value``; a constant when the shape is static and the value a number."""
        if not isinstance(value, Scalar) and all(isinstance(d, int) for d in shape):
            element = np.asarray(value).astype(dtypes.by_name[dtype].numpy)
            return self.constant(np.broadcast_to(element, [d for d in shape if isinstance(d, int)]))
        scalar = value if isinstance(value, Scalar) else scalars.constant(value, dtype)
        return self.tensor(builders.fill(scalar.value, shape), dtype, shape)

    def init(self, value: int | float | bool, dtype: str, shape: Sequence[Extent]) -> ir.Value:
        """A ``linalg.fill``ed destination for a reduction."""
        return builders.fill(scalars.constant(value, dtype).value, shape)

    def empty(self, dtype: str, shape: Sequence[Extent]) -> ir.Value:
        """A ``tensor.empty`` destination. Raises InvalidNode for extents that no tensor has."""
        if any(isinstance(d, int) and not 0 <= d < 1 << 48 for d in shape):
            raise InvalidNode(f"a tensor of shape {[d if isinstance(d, int) else '?' for d in shape]} is impossible")
        return builders.empty(shape, element_types.element_type(dtype))

    # --- reading tensors ---

    def value(self, tensor: Tensor) -> ir.Value:
        """The SSA value, materializing a constant (once, at the top of the function) or symbolic elements."""
        if tensor.value is not None:
            return tensor.value
        if tensor.array is not None:
            tensor.value = self._materialize(tensor.array, tensor.name)
            return tensor.value
        assert tensor.elements is not None
        values = [self._element_value(e, tensor.dtype).value for e in tensor.elements]
        return builders.from_elements(values, [d for d in tensor.shape if isinstance(d, int)])

    def _materialize(self, array: np.ndarray, name: str) -> ir.Value:
        with ir.InsertionPoint(self._anchor):
            if element_types.is_complex(array.dtype.name):
                raise UnsupportedFeature(f"constants of type {array.dtype.name}")
            if array.dtype.name == e8m0.DTYPE:
                array = array.view(np.uint8)
            # A broadcast array (all strides 0) must not be expanded just to learn that it is a splat.
            if array.size and not any(array.strides):
                element = element_types.element_type(array.dtype.name)
                type_ = ir.RankedTensorType.get(array.shape, element)
                attribute = ir.DenseElementsAttr.get_splat(type_, constants.scalar_attr(array.flat[0], element))
                return arith.ConstantOp(type_, attribute).result
            return constants.constant(self.program, array, name or "constant")

    def _element_value(self, element: Element, dtype: str) -> Scalar:
        if isinstance(element, int | bool):
            return scalars.constant(element, dtype)
        source = "index" if isinstance(element.type, ir.IndexType) else "bool"
        return convert(Scalar(element, source), dtype)

    def known(self, tensor: Tensor | None, what: str) -> np.ndarray:
        """The array of a tensor that must be known at compile time; ``what`` names it in the error.

        Raises UnsupportedFeature where it is not.
        """
        if tensor is not None and tensor.array is not None:
            return tensor.array
        raise UnsupportedFeature(f"{what} must be known at compile time", f"make {what} an initializer")

    def scalar(self, tensor: Tensor) -> Scalar:
        """The only element of a tensor of one element, as a scalar."""
        if tensor.array is not None and tensor.array.size == 1 and not element_types.is_complex(tensor.dtype):
            return scalars.constant(tensor.array.reshape(-1)[0], tensor.dtype)
        if tensor.elements is not None and len(tensor.elements) == 1:
            return self._element_value(tensor.elements[0], tensor.dtype)
        return Scalar(builders.extract(self.value(tensor), [0] * tensor.rank), tensor.dtype)

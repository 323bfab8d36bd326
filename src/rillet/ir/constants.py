"""Constants in the tensor form: splats inline, the rest external globals (docs/reference/tensor-form.md)."""

from __future__ import annotations

import numpy as np
from torch_mlir import ir
from torch_mlir.dialects import arith, ml_program

from rillet.ir import dtypes
from rillet.ir.program import Program


def scalar_attr(value: object, element: ir.Type) -> ir.Attribute:
    """An MLIR scalar attribute holding ``value`` (any Python or numpy number) as ``element``."""
    if isinstance(element, (ir.IntegerType, ir.IndexType)):
        integer = int(value)  # type: ignore[call-overload]
        if isinstance(element, ir.IntegerType) and integer >= 1 << (element.width - 1) and element.width > 1:
            integer -= 1 << element.width
        return ir.IntegerAttr.get(element, integer)
    return ir.FloatAttr.get(element, float(value))  # type: ignore[arg-type]


def constant(program: Program, array: np.ndarray, hint: str = "constant", loc: ir.Location | None = None) -> ir.Value:
    """Materialize ``array`` at the current insertion point as a tensor value.

    A splat (or scalar) becomes ``arith.constant dense<v>``; anything else becomes an external
    ``ml_program.global`` whose array is kept in ``program.constants`` without a copy.
    """
    array = np.asarray(array)
    element = dtypes.mlir_type(array.dtype.name)
    tensor = ir.RankedTensorType.get(array.shape, element)
    is_complex = np.issubdtype(array.dtype, np.complexfloating)
    if array.size and not is_complex and _is_splat(array):
        splat = ir.DenseElementsAttr.get_splat(tensor, scalar_attr(array.flat[0], element))
        return arith.ConstantOp(tensor, splat, loc=loc).result
    return load(declare(program, array, hint, tensor), tensor, loc)


def declare(program: Program, array: np.ndarray, hint: str, tensor: ir.Type) -> str:
    """Add a private external global for ``array`` at the top of the module and return its name."""
    name = program.constants.add(array, hint)
    with ir.InsertionPoint.at_block_begin(program.module.body), ir.Location.unknown(program.context):
        ml_program.GlobalOp(
            sym_name=name,
            type_=tensor,
            is_mutable=None,
            value=ir.Attribute.parse(f"#ml_program.extern<{tensor}>", program.context),
            sym_visibility="private",
        )
    return name


def load(name: str, tensor: ir.Type, loc: ir.Location | None = None) -> ir.Value:
    """Read the global ``name``."""
    return ml_program.GlobalLoadConstOp(tensor, ir.FlatSymbolRefAttr.get(name), loc=loc).result


def global_name(value: ir.Value) -> str | None:
    """The global a value is read from, or None when the value is not a constant load."""
    owner = value.owner
    if not isinstance(owner, ir.Operation | ir.OpView) or owner.name != "ml_program.global_load_const":
        return None
    return ir.FlatSymbolRefAttr(owner.attributes["global"]).value


def tensor_array(program: Program, value: ir.Value) -> np.ndarray | None:
    """``array_of`` a tensor; None for any other value."""
    return array_of(program, value) if isinstance(value.type, ir.RankedTensorType) else None


def array_of(program: Program, value: ir.Value) -> np.ndarray | None:
    """The numpy array a constant tensor value stands for (splats come as zero-stride views), or None."""
    name = global_name(value)
    if name is not None:
        return program.constants.get(name)
    owner = value.owner
    if not isinstance(owner, ir.Operation | ir.OpView) or owner.name != "arith.constant":
        return None
    if not isinstance(value.type, ir.RankedTensorType):
        return None
    attribute = owner.attributes["value"]
    if not isinstance(attribute, ir.DenseElementsAttr) or not attribute.is_splat:
        return None
    tensor = ir.RankedTensorType(value.type)
    scalar = attribute.get_splat_value().value  # type: ignore[attr-defined]
    dtype = next(t for t in dtypes.by_code.values() if t.mlir == str(tensor.element_type)).numpy
    return np.broadcast_to(np.asarray(scalar).astype(dtype), tensor.shape)


def _is_splat(array: np.ndarray) -> bool:
    # Most arrays that are no splat differ in a corner already.
    corner = array[(slice(2),) * array.ndim]
    if corner.size < array.size and not _is_splat(corner):
        return False
    # Compare bits, so that NaN payloads and the sign of zero survive.
    flat = np.ascontiguousarray(array).reshape(-1)
    raw = flat.view(np.uint8).reshape(flat.size, flat.itemsize)
    return bool((raw == raw[0]).all())

"""Constants of MLIR become external globals, whose arrays the program holds."""

from __future__ import annotations

import math
import re

import numpy as np
from torch_mlir import ir

from rillet.errors import CompileError
from rillet.frontends.mlir.edges import dtype_name
from rillet.ir import Program, constants, dtypes
from rillet.ir.structured import walk

_EXTERN = "#ml_program.extern"
_NUMBER = re.compile(r"0x[0-9A-Fa-f]+|true|false|[-+]?\d+(?:\.\d*)?(?:[eE][-+]?\d+)?")


def externalize(program: Program) -> None:
    """Replace dense resources, globals with a value, and dense constants other than splats by external globals.

    Raises CompileError for a resource that is missing or too short, and for an external global without an array.
    """
    resources = _Resources(program.module)
    _externalize_globals(program, resources)
    for op in list(walk(program.module.operation)):
        if op.name != "arith.constant" or not isinstance(op.results[0].type, ir.RankedTensorType):
            continue
        tensor = ir.RankedTensorType(op.results[0].type)
        value = _value(op)
        if isinstance(value, ir.DenseElementsAttr) and value.is_splat:
            continue
        with ir.InsertionPoint(op), op.location:
            array = _array(value, tensor, resources)
            op.results[0].replace_all_uses_with(constants.constant(program, array))
        op.erase()


def stored_bytes(op: ir.Operation) -> int:
    """The byte size of a constant that spells out each element; 0 for any other one."""
    if not op.name.endswith((".constant", ".const")) or not op.results:
        return 0
    tensor = op.results[0].type
    if not isinstance(tensor, ir.RankedTensorType) or not (name := dtype_name(tensor.element_type)):
        return 0
    value = _value(op)
    if isinstance(value, ir.DenseElementsAttr) and value.is_splat:
        return 0
    return math.prod(tensor.shape) * dtypes.by_name[name].bits // 8


def _externalize_globals(program: Program, resources: _Resources) -> None:
    """Loads of immutable globals that have a value become constants; the others are external and have an array."""
    values: dict[str, ir.Operation] = {}
    for view in list(program.module.body.operations):
        op = view.operation
        if op.name != "ml_program.global":
            continue
        name = ir.StringAttr(op.attributes["sym_name"]).value
        is_extern = "value" in op.attributes and str(op.attributes["value"]).startswith(_EXTERN)
        if is_extern and name not in program.constants:
            raise CompileError(f"external constant @{name} has no array: give its value in the MLIR text")
        if not is_extern and "is_mutable" not in op.attributes and "value" in op.attributes:
            values[name] = op
    arrays: dict[str, np.ndarray] = {}
    for op in list(walk(program.module.operation)):
        if op.name not in ("ml_program.global_load_const", "ml_program.global_load"):
            continue
        name = ir.SymbolRefAttr(op.attributes["global"]).value[-1]
        if name not in values:
            continue
        if name not in arrays:
            tensor = ir.RankedTensorType(op.results[0].type)
            arrays[name] = _array(_value(values[name]), tensor, resources)
        with ir.InsertionPoint(op), op.location:
            op.results[0].replace_all_uses_with(constants.constant(program, arrays[name], name))
        op.erase()
    for op in values.values():
        op.erase()


def _value(op: ir.Operation) -> ir.Attribute | str:
    """The value of a constant; complex numbers as text, since the bindings cannot return them."""
    key = "value" if "value" in op.attributes else "values"
    try:
        return op.attributes[key]
    except TypeError:
        return op.get_asm(enable_debug_info=False)


def _array(value: ir.Attribute | str, tensor: ir.RankedTensorType, resources: _Resources) -> np.ndarray:
    if isinstance(value, str):
        return _parsed(value, tensor)
    if not isinstance(value, ir.DenseElementsAttr):
        return resources.array(value, tensor)
    try:
        return np.array(value)
    except TypeError:  # the bindings know no narrow floats and no integers of less than a byte
        return _parsed(str(value), tensor)


def _parsed(text: str, tensor: ir.RankedTensorType) -> np.ndarray:
    """The elements of ``dense<...>`` in ``text``: the bytes in hexadecimal where they are many, else numbers."""
    body = text[text.index("dense<") + len("dense<") : text.rindex("> : ")]
    dtype = dtypes.by_name[dtype_name(tensor.element_type)].numpy
    if body.startswith('"0x'):
        return _from_bytes(bytes.fromhex(body[3:-1]), dtype).reshape(tensor.shape)
    part = np.empty(0, dtype).real.dtype if dtype.kind == "c" else dtype
    numbers = np.array([_number(token, part) for token in _NUMBER.findall(body)]).astype(part)
    elements = numbers.view(dtype) if dtype.kind == "c" else numbers
    is_splat = elements.size == 1
    return np.broadcast_to(elements.reshape(()), tensor.shape) if is_splat else elements.reshape(tensor.shape)


def _number(token: str, dtype: np.dtype) -> float:
    """A number as MLIR prints it: infinities and NaN are given by their bits."""
    if token.startswith("0x"):
        return float(np.frombuffer(int(token, 16).to_bytes(dtype.itemsize, "little"), dtype)[0])
    return float(token)


def _from_bytes(data: bytes, dtype: np.dtype) -> np.ndarray:
    if dtype.name.startswith(("int", "uint")) and dtypes.by_name[dtype.name].mlir in ("i2", "i4"):
        return np.frombuffer(data, np.int8).astype(dtype)
    return np.frombuffer(data, dtype)


class _Resources:
    """The dense resources of a module, read from its printed form (the bindings have no accessor)."""

    def __init__(self, module: ir.Module):
        self._module = module
        self._blobs: dict[str, bytes] | None = None

    def array(self, attribute: ir.Attribute, tensor: ir.RankedTensorType) -> np.ndarray:
        """The elements of ``dense_resource<...>``. Raises CompileError when they are not there, or too few."""
        text = str(attribute)
        if not text.startswith("dense_resource<"):
            raise CompileError(f"a constant of type {tensor} has a value that is not dense: write out its elements")
        name = text.removeprefix("dense_resource<").partition(">")[0].strip('"')
        blobs = self._read()
        if name not in blobs:
            raise CompileError(f"constant dense_resource<{name}> has no data in the MLIR text")
        dtype = dtypes.by_name[dtype_name(tensor.element_type)].numpy
        size = math.prod(tensor.shape) * dtype.itemsize
        if len(blobs[name]) != size:
            raise CompileError(
                f"constant dense_resource<{name}> does not hold a {tensor}: "
                f"that takes {size} bytes, it has {len(blobs[name])}"
            )
        return _from_bytes(blobs[name], dtype).reshape(tensor.shape)

    def _read(self) -> dict[str, bytes]:
        if self._blobs is None:
            text = self._module.operation.get_asm(enable_debug_info=False)
            _, _, section = text.rpartition("dialect_resources:")
            self._blobs = {}
            for line in section.splitlines():
                name, separator, value = line.strip().rstrip(",").partition(': "0x')
                if separator:  # the first word is the alignment
                    self._blobs[name.strip('"')] = bytes.fromhex(value.rstrip('"'))[4:]
        return self._blobs

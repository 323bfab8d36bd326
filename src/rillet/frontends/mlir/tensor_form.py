"""What linalg on tensors lacks of the tensor form: fills, the entry, what its edges are called, external constants."""

from __future__ import annotations

import numpy as np
from torch_mlir import ir
from torch_mlir.dialects import linalg

from rillet.errors import CompileError
from rillet.ir import Program, constants, dtypes
from rillet.ir.attributes import DTYPE, NAME
from rillet.ir.structured import walk


def restore_fills(module: ir.Module) -> None:
    """Turn generics that only spread a scalar back into ``linalg.fill``, the one named op of the tensor form."""
    for op in list(walk(module.operation)):
        if op.name != "linalg.generic" or len(op.operands) != 2 or isinstance(op.operands[0].type, ir.ShapedType):
            continue
        body = op.regions[0].blocks[0]
        if len(body.operations) != 1 or body.operations[0].operands[0] != body.arguments[0]:
            continue
        with ir.InsertionPoint(op), op.location:
            op.results[0].replace_all_uses_with(linalg.fill(op.operands[0], outs=[op.operands[1]]))
        op.erase()


def entry(module: ir.Module) -> ir.Operation:
    """The function to compile: ``@main``, or the only public one. Raises CompileError when there is none."""
    functions = [op for op in module.body.operations if op.operation.name == "func.func"]
    public = [f for f in functions if "sym_visibility" not in f.attributes]
    named = [f for f in public if f.attributes["sym_name"].value == "main"]
    chosen = named or public
    if len(chosen) != 1:
        names = ", ".join(f.attributes["sym_name"].value for f in public) or "none"
        raise CompileError(
            f"the MLIR module needs a public function @main, or exactly one public function; found: {names}"
        )
    return chosen[0].operation


def annotate_edges(main: ir.Operation) -> None:
    """Give arguments and results the names and dtypes that the module file records."""
    type_ = ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value)
    for kind, key, types in (("argument", "arg_attrs", type_.inputs), ("result", "res_attrs", type_.results)):
        given = main.attributes[key] if key in main.attributes else [()] * len(types)
        old = [{named.name: named.attr for named in attributes} for attributes in given]
        attributes = []
        for ordinal, (tensor, known) in enumerate(zip(types, old, strict=True)):
            if not isinstance(tensor, ir.RankedTensorType):
                raise CompileError(
                    f"{kind} {ordinal} of @main is {tensor}; only ranked tensors can cross a module's edge"
                )
            fields = {name: value for name, value in known.items() if name.startswith("rillet.")}
            fields.setdefault(NAME, ir.StringAttr.get(f"{kind}{ordinal}"))
            fields.setdefault(DTYPE, ir.StringAttr.get(_edge_dtype(tensor.element_type)))
            attributes.append(ir.DictAttr.get(fields))
        main.attributes[key] = ir.ArrayAttr.get(attributes)


def dtype_name(element: ir.Type) -> str:
    """The dtype of an element type; "" for one that no dtype has."""
    for candidate in dtypes.by_code.values():
        # Signless integers are read as signed: MLIR does not say, and int8/int64 are what numpy users expect.
        if candidate.mlir == str(element) and not candidate.name.startswith("uint"):
            return candidate.name
    return ""


def _edge_dtype(element: ir.Type) -> str:
    if not (name := dtype_name(element)):
        raise CompileError(f"element type {element} cannot cross a module's edge")
    return name


def externalize_constants(program: Program) -> None:
    """Replace non-splat dense constants by external globals."""
    blobs: dict[str, bytes] | None = None
    for op in list(walk(program.module.operation)):
        if op.name != "arith.constant" or not isinstance(op.results[0].type, ir.RankedTensorType):
            continue
        attribute = op.attributes["value"]
        if isinstance(attribute, ir.DenseElementsAttr) and attribute.is_splat:
            continue
        tensor = ir.RankedTensorType(op.results[0].type)
        if isinstance(attribute, ir.DenseElementsAttr):
            array = np.array(attribute)
        else:
            blobs = _resources(program.module) if blobs is None else blobs
            array = _resource_array(attribute, tensor, blobs)
        with ir.InsertionPoint(op), op.location:
            op.results[0].replace_all_uses_with(constants.constant(program, array))
        op.erase()


def _resources(module: ir.Module) -> dict[str, bytes]:
    """The dense resources of a module, read from its printed form (the bindings have no accessor)."""
    text = module.operation.get_asm(enable_debug_info=False)
    _, _, section = text.rpartition("dialect_resources:")
    blobs = {}
    for line in section.splitlines():
        name, separator, value = line.strip().rstrip(",").partition(': "0x')
        if separator:
            blobs[name.strip('"')] = bytes.fromhex(value.rstrip('"'))[4:]  # the first word is the alignment
    return blobs


def _resource_array(attribute: ir.Attribute, tensor: ir.RankedTensorType, blobs: dict[str, bytes]) -> np.ndarray:
    name = str(attribute).removeprefix("dense_resource<").partition(">")[0].strip('"')
    if name not in blobs:
        raise CompileError(f"constant dense_resource<{name}> has no data in the MLIR text")
    dtype = dtypes.by_name[_edge_dtype(tensor.element_type)].numpy
    try:
        return np.frombuffer(blobs[name], dtype=dtype).reshape(tensor.shape)
    except ValueError as error:
        raise CompileError(f"constant dense_resource<{name}> does not hold a {tensor}: {error}") from error

"""Gives the entry's arguments the shapes that a caller pins."""

from __future__ import annotations

from collections.abc import Sequence

from torch_mlir import ir
from torch_mlir.dialects import tensor

from rillet.errors import CompileError
from rillet.frontends.frontend import InputSpec
from rillet.frontends.mlir.entry import entry
from rillet.ir.attributes import DIMS
from rillet.ir.structured import DYNAMIC


def pin(module: ir.Module, inputs: Sequence[InputSpec]) -> None:
    """Change the types of the entry's arguments to those of ``inputs``, in place, and note the names of dimensions.

    Its body sees the old types, through casts that go away with the first canonicalization. Raises CompileError where a
    size of the types would become a name, since the body relies on the size.
    """
    main = entry(module)
    block = main.regions[0].blocks[0]
    with module.context, ir.Location.unknown():
        for argument, spec in zip(block.arguments, inputs, strict=True):
            _pin_argument(argument, spec)
        type_ = ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value)
        arguments = [argument.type for argument in block.arguments]
        main.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(arguments, type_.results))
        given = main.attributes["arg_attrs"] if "arg_attrs" in main.attributes else [{}] * len(inputs)
        main.attributes["arg_attrs"] = ir.ArrayAttr.get(
            [_named(edge, spec) for edge, spec in zip(given, inputs, strict=True)]
        )


def _pin_argument(argument: ir.Value, spec: InputSpec) -> None:
    old = ir.RankedTensorType(argument.type)
    declared = [DYNAMIC if old.is_dynamic_dim(axis) else old.get_dim_size(axis) for axis in range(old.rank)]
    shape = [DYNAMIC if isinstance(d, str) else d for d in spec.dims]
    if shape == declared:
        return
    for axis, (size, wanted) in enumerate(zip(declared, shape, strict=True)):
        if size != DYNAMIC and wanted == DYNAMIC:
            raise CompileError(
                f"input '{spec.name}' has the size {size} in dimension {axis}, which the MLIR text relies on: change "
                "its types to make it dynamic"
            )
    argument.set_type(ir.RankedTensorType.get(shape, old.element_type))
    with ir.InsertionPoint.at_block_begin(argument.owner):
        cast = tensor.CastOp(old, argument)
    argument.replace_all_uses_except(cast.result, cast.operation)


def _named(edge: ir.Attribute, spec: InputSpec) -> ir.Attribute:
    kept = {named.name: named.attr for named in edge} if isinstance(edge, ir.DictAttr) else {}
    return ir.DictAttr.get({**kept, DIMS: ir.ArrayAttr.get([ir.StringAttr.get(str(d)) for d in spec.dims])})

"""Gives convolutions by windows of three their weights a second time, transformed for Winograd's algorithm.

Kernels transform the image (``codegen/cpu/winograd/strategy.py``). The original weights stay, for tiles whose results
are not finite that way.

A kernel's ``flow.winograd`` holds two argument numbers: the weights' and that of their transforms, ``[4 for each image
axis.., groups * (N ceildiv P), K, P]``, in panels packed like the weights.
"""

from __future__ import annotations

import numpy as np
from torch_mlir import ir

from rillet.dialects import flow
from rillet.dispatch.packing.winograd import Options, gains, transform
from rillet.ir import Program, constants
from rillet.ir.contraction import contraction
from rillet.ir.kernels import called, declarations, functions
from rillet.ir.structured import structured, walk


def run(program: Program, options: Options | None) -> None:
    """Add an argument to every kernel where that pays, and to its calls; no argument is added when ``options`` is
    None."""
    if options is None:
        return
    with program.context, ir.Location.unknown():
        declared = declarations(program)
        calls: dict[str, list[ir.Operation]] = {}
        for op in walk(program.main()):
            if op.name == "func.call":
                calls.setdefault(called(op), []).append(op)
        made: dict[str, tuple[str, ir.Type]] = {}
        for name, function in functions(program).items():
            found = _weights(function, options)
            if found is None:
                continue
            number, axes = found
            transforms = [_transformed(program, call.operands[number], axes, made) for call in calls[name]]
            known = [value for value in transforms if value is not None]
            if len(known) == len(transforms):
                _add_argument(function, declared[name], number, known[0][1])
                for call, (symbol, type_) in zip(calls[name], known, strict=True):
                    _pass(call, symbol, type_)


def _weights(function: ir.Operation, options: Options) -> tuple[int, list[int]] | None:
    """The number of the argument with the weights of a convolution that gains, and their axes with window loops."""
    views = [view for op in walk(function) if (view := structured(op)) is not None]
    sums = [view for view in views if not all(view.parallel)]
    roles = contraction(sums[0]) if len(sums) == 1 else None
    if roles is None or not gains(sums[0], options):
        return None
    value = sums[0].inputs[roles.rhs]
    arguments = list(function.regions[0].blocks[0].arguments)
    map_ = sums[0].maps[roles.rhs]
    window = [d for d in roles.window if sums[0].extents[d] == flow.WINOGRAD_WINDOW]
    if value not in arguments or len(map_) != len((*roles.batch, *roles.k, *roles.window)) + 2:
        return None
    return arguments.index(value), [map_.index(d) for d in window]


def _transformed(
    program: Program, value: ir.Value, axes: list[int], made: dict[str, tuple[str, ir.Type]]
) -> tuple[str, ir.Type] | None:
    """The name and type of the transforms of packed weights. None when the weights are no constant, or when some of
    their transforms are not finite, as is always so when some weights are not."""
    name, array = constants.global_name(value), constants.array_of(program, value)
    if name is None or array is None:
        return None
    if name in made:
        return made[name]
    with np.errstate(over="ignore", invalid="ignore"):
        transforms = transform(array, axes)
    if not np.isfinite(transforms).all():
        return None
    type_ = ir.RankedTensorType.get(transforms.shape, ir.F32Type.get())
    made[name] = constants.declare(program, transforms, f"{name}_winograd", type_), type_
    return made[name]


def _add_argument(function: ir.Operation, declaration: ir.Operation, weights: int, type_: ir.Type) -> None:
    """Add a tensor argument after the existing ones and before the scalars."""
    block = function.regions[0].blocks[0]
    at = sum(isinstance(argument.type, ir.RankedTensorType) for argument in block.arguments)
    block.add_argument(type_, ir.Location.unknown())
    arguments = list(block.arguments)
    for before, after in reversed(list(zip(arguments[at:-1], arguments[at + 1 :], strict=True))):
        after.set_type(before.type)
        before.replace_all_uses_with(after)
    arguments[at].set_type(type_)
    for op in (function, declaration):
        _describe_argument(op, at, type_)
        op.attributes[flow.WINOGRAD] = ir.DenseI64ArrayAttr.get([weights, at])


def _describe_argument(op: ir.Operation, at: int, type_: ir.Type) -> None:
    kind = ir.FunctionType(ir.TypeAttr(op.attributes["function_type"]).value)
    inputs = [*kind.inputs[:at], type_, *kind.inputs[at:]]
    op.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(inputs, kind.results))
    for key in ("arg_attrs", "res_attrs"):
        if key not in op.attributes:
            continue
        described = [_renumbered(ir.DictAttr(d), at) for d in ir.ArrayAttr(op.attributes[key])]
        if key == "arg_attrs":
            described.insert(at, ir.DictAttr.get({}))
        op.attributes[key] = ir.ArrayAttr.get(described)


def _renumbered(described: ir.DictAttr, at: int) -> ir.DictAttr:
    """``flow.dims`` where the scalars from ``at`` on have moved by one."""
    known = {named.name: named.attr for named in described}
    if flow.DIMS in known:
        numbers = [n + (n >= at) for n in ir.DenseI64ArrayAttr(known[flow.DIMS])]
        known[flow.DIMS] = ir.DenseI64ArrayAttr.get(numbers)
    return ir.DictAttr.get(known)


def _pass(call: ir.Operation, symbol: str, type_: ir.Type) -> None:
    operands = list(call.operands)
    at = sum(isinstance(v.type, ir.RankedTensorType) for v in operands)
    with ir.InsertionPoint(call), call.location:
        operands.insert(at, constants.load(symbol, type_))
        made = ir.Operation.create(
            "func.call",
            results=[r.type for r in call.results],
            operands=operands,
            attributes=dict(call.attributes.items()),
        )
    for before, after in zip(call.results, made.results, strict=True):
        before.replace_all_uses_with(after)
    call.erase()

"""Scalar operands of structured ops: the bodies capture the scalars instead."""

from __future__ import annotations

from torch_mlir import ir

from rillet.ir.rewrite import clone_operations, generic_with, replace
from rillet.ir.structured import Structured, structured, walk


def capture(module: ir.Module) -> None:
    """Rebuild every ``linalg.generic`` that has a scalar among its inputs."""
    for op in list(walk(module.operation)):
        view = structured(op)
        if view is not None and not all(_is_tensor(v) for v in view.inputs):
            with ir.InsertionPoint(op), op.location:
                replace(op, _captured(view).results)


def _captured(view: Structured) -> ir.Operation:
    operands = list(zip((*view.inputs, *view.inits), view.maps, view.body.arguments, strict=True))
    kept = [(argument, map_) for value, map_, argument in operands if _is_tensor(value)]

    def body(arguments: list[ir.Value]) -> list[ir.Value]:
        mapping = {argument: value for value, _, argument in operands if not _is_tensor(value)}
        mapping.update((old, new) for (old, _), new in zip(kept, arguments, strict=True))
        clone_operations(view.body_ops(), mapping)
        return [mapping.get(v, v) for v in view.yielded()]

    inputs = [v for v in view.inputs if _is_tensor(v)]
    return generic_with(inputs, view.inits, [map_ for _, map_ in kept], view.parallel, body)


def _is_tensor(value: ir.Value) -> bool:
    return isinstance(value.type, ir.ShapedType)

"""Sizes that a caller gives for dimensions by their names in the model."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rillet.errors import CompileError, advice
from rillet.frontends.arguments import checked_shapes

if TYPE_CHECKING:
    import onnx

    from rillet.frontends.source import Shapes, Source


def pin(source: Source, inputs: Shapes | None, dims: Mapping[str, int] | None) -> tuple[Source, Shapes | None]:
    """``source`` and ``inputs`` with the sizes that ``dims`` gives to named dimensions put into the shapes.

    A dimension is named as ``Module.inputs`` names it: by the model, by ``inputs``, or ``INPUT_AXIS`` where it has no
    name of its own. Raises CompileError for a name that no input has, and for MLIR, which has its shapes in its types.
    """
    sizes = _checked(dims)
    if not sizes:
        return source, inputs
    model = _onnx_model(source)
    shapes: dict[str, Any] = {}
    known: dict[str, None] = {}
    given = checked_shapes(inputs)
    held = {tensor.name for tensor in model.graph.initializer}
    for info in model.graph.input:
        if info.name in held and info.name not in given:
            continue
        names = _names(info, given.get(info.name))
        known.update(dict.fromkeys(name for name in names if isinstance(name, str)))
        if any(name in sizes for name in names):
            shapes[info.name] = tuple(sizes.get(name, name) if isinstance(name, str) else name for name in names)
    if unknown := [name for name in sizes if name not in known]:
        what = advice(f"dims[{unknown[0]!r}]", f"--dim {unknown[0]}={sizes[unknown[0]]}")
        there = f"its dynamic dimensions: {', '.join(known)}" if known else "its inputs have no dynamic dimensions"
        raise CompileError(f"{what}: the model has no dimension of this name; {there}")
    return model, {**given, **shapes}


def _checked(dims: Any) -> dict[str, int]:
    if dims is None:
        return {}
    if not isinstance(dims, Mapping):
        raise CompileError(f"dims= takes sizes by name of a dimension, like {{'N': 8}}, not {type(dims).__name__}")
    sizes = {}
    for name, size in dims.items():
        try:
            sizes[name] = -1 if isinstance(size, bool) else operator.index(size)
        except TypeError:
            sizes[name] = -1
        if not isinstance(name, str) or sizes[name] < 0:
            raise CompileError(f"dims[{name!r}] is {size!r}; it takes the name of a dimension and a size from 0 on")
    return sizes


def _onnx_model(source: Source) -> onnx.ModelProto:
    from rillet.frontends.onnx.loader import load_model
    from rillet.frontends.source import is_mlir, onnx_source

    if is_mlir(source):
        what = advice("dims=", "--dim")
        raise CompileError(f"{what} cannot pin dimensions of MLIR: change the function's types instead")
    return load_model(onnx_source(source))


def _names(info: onnx.ValueInfoProto, given: Sequence[int | str | None] | None) -> list[int | str]:
    """The dimensions of an input: sizes, and names of those without one."""
    declared: list[int | str] = [
        d.dim_value if d.dim_value > 0 else d.dim_param or f"{info.name}_{axis}"
        for axis, d in enumerate(info.type.tensor_type.shape.dim)
    ]
    if given is None or len(given) != len(declared):  # the importer says what is wrong
        return declared
    return [d if g is None or g == -1 else g for d, g in zip(declared, given, strict=True)]

"""Whether a model fits into static memory, which is all that a bare-metal target has, and if not, why."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from torch_mlir import ir

from rillet.errors import CompileError
from rillet.ir.attributes import NAME
from rillet.ir.rewrite import defining, int_constant

if TYPE_CHECKING:
    from rillet.ir import Program
    from rillet.targets import Target


def refused_inputs(program: Program, target: Target) -> str:
    """Why the inputs of an imported program have no static memory, and what to do; empty if they have."""
    from rillet.export.build import require_static_inputs

    try:
        require_static_inputs(program, target)
    except CompileError as error:
        return str(error)
    return ""


def refused_results(program: Program, target: Target) -> str:
    """Why the other memory of a scheduled program with static inputs is not static; empty if it is."""
    reasons = list(_outputs(program))
    attributes = program.module.operation.attributes
    dynamic = "stream.arena_is_dynamic"
    if not reasons and dynamic in attributes and ir.IntegerAttr(attributes[dynamic]).value:
        reasons.append("the memory of intermediate values depends on the data")
    return f"target {target.name} has static memory, but {'; '.join(reasons)}" if reasons else ""


def _outputs(program: Program) -> Iterator[str]:

    main = program.main()
    specs = ir.ArrayAttr(main.attributes["res_attrs"])
    *_, last = main.regions[0].blocks[0].operations
    for spec, view in zip(specs, last.operation.operands, strict=True):
        owner = defining(view, "stream.export_view")
        if owner is None:
            continue
        if all(int_constant(dim) is not None for dim in list(owner.operands)[1:]):
            continue
        name = ir.StringAttr(ir.DictAttr(spec)[NAME]).value
        text = name.removesuffix("[bytes]")
        if text != name:
            yield f"output '{text}' holds strings, which have no fixed size"
        else:
            yield f"the shape of output '{name}' depends on the data"

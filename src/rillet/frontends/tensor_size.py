"""The limits on the rank and the size of a tensor that a caller pins, a model declares or a program computes."""

from __future__ import annotations

from collections.abc import Sequence

from torch_mlir import ir

from rillet.errors import CompileError
from rillet.ir import Program, dtypes, locations
from rillet.ir.attributes import NAME
from rillet.ir.structured import DYNAMIC, walk

_MAX_RANK = 64
_MAX_BYTES = 1 << 46  # of one tensor: what a 64-bit address space can hold, and sums of which do not overflow


def check_size(dims: Sequence[object], element_bytes: int, what: str, limit: int = _MAX_BYTES) -> None:
    """Refuse tensors whose size no machine can hold and whose byte count may overflow; dynamic extents count as 1.

    Raises CompileError for them.
    """
    if len(dims) > _MAX_RANK:
        raise CompileError(f"{what}: a tensor of {len(dims)} dimensions is not supported; at most {_MAX_RANK} are")
    total = element_bytes
    for extent in dims:
        if isinstance(extent, int):
            if extent < 0:
                raise CompileError(f"{what}: a tensor of shape {list(dims)} has a negative dimension")
            total *= max(extent, 1)
    if total > limit:
        shape = [d if isinstance(d, int) else "?" for d in dims]
        raise CompileError(f"{what}: a tensor of shape {shape} is too large: {total:,} bytes; the limit is {limit:,}")


def check_program(program: Program) -> None:
    """Refuse a program that takes or computes a tensor over the limits.

    Raises CompileError, which names the input or the operation.
    """
    main = program.main()
    for argument in main.regions[0].blocks[0].arguments:
        attributes = ir.DictAttr(ir.ArrayAttr(main.attributes["arg_attrs"])[argument.arg_number])
        _check_type(argument.type, f"input '{ir.StringAttr(attributes[NAME]).value}'")
    for op in walk(program.module.operation):
        for result in op.results:
            _check_type(result.type, locations.label(op.location))


def _check_type(type_: ir.Type, what: str) -> None:
    if not isinstance(type_, ir.RankedTensorType):
        return
    dims = [None if extent == DYNAMIC else extent for extent in type_.shape]
    check_size(dims, dtypes.storage_bytes(type_.element_type), what)

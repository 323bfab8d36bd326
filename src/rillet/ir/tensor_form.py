"""Which operations and types the tensor form consists of (docs/reference/tensor-form.md)."""

from __future__ import annotations

from torch_mlir import ir

from rillet.ir import dtypes
from rillet.ir.structured import walk

_TENSOR_OPS = frozenset(
    f"tensor.{n}"
    for n in (
        "empty",
        "pad",
        "concat",
        "extract_slice",
        "insert_slice",
        "expand_shape",
        "collapse_shape",
        "reshape",
        "cast",
        "dim",
        "extract",
        "insert",
        "from_elements",
        "yield",
    )
)
_LINALG_OPS = frozenset(("linalg.generic", "linalg.fill", "linalg.yield", "linalg.index"))
_OTHER_OPS = frozenset(("ml_program.global_load_const", "func.return", "cf.assert"))
_SCF_OPS = frozenset(f"scf.{n}" for n in ("if", "for", "while", "condition", "yield"))
_SCALAR_DIALECTS = frozenset(("arith", "math", "complex"))
# Structured or moving ops: no loop that holds one of them is device code.
_MOVING_OPS = frozenset(
    f"tensor.{n}"
    for n in ("pad", "concat", "extract_slice", "insert_slice", "reshape", "expand_shape", "collapse_shape")
)
_STORED = frozenset(t.mlir for t in dtypes.by_code.values()) | {"index"}
_WIDEST_INTEGER = 64


def has_op(name: str) -> bool:
    """Whether the operation ``name`` is part of the tensor form."""
    known = name in _TENSOR_OPS or name in _LINALG_OPS or name in _SCF_OPS or name in _OTHER_OPS
    return known or name.partition(".")[0] in _SCALAR_DIALECTS


def has_type(type_: ir.Type) -> bool:
    """Whether values of this type are part of the tensor form: ranked tensors without encoding, and scalars."""
    if isinstance(type_, ir.RankedTensorType):
        return type_.encoding is None and str(type_.element_type) in _STORED
    if isinstance(type_, ir.IntegerType):
        return type_.is_signless and type_.width <= _WIDEST_INTEGER
    return str(type_) in _STORED


def is_device_loop(op: ir.Operation) -> bool:
    """Whether ``op`` is a loop over tensor elements without structured ops: it is outlined whole.

    A condition around loops or checks is the host's.
    """
    if not op.name.startswith("scf.") or not any(isinstance(r.type, ir.RankedTensorType) for r in op.results):
        return False
    inner = [o.name for o in walk(op)]
    if op.name == "scf.if" and not {"scf.for", "scf.while", "cf.assert"}.isdisjoint(inner):
        return False
    return any(n in ("tensor.extract", "tensor.insert") for n in inner) and not any(
        n.startswith("linalg.") or n in _MOVING_OPS for n in inner
    )


def is_of_host(op: ir.Operation) -> bool:
    """Whether ``op`` stands in host code: not in a structured op or a device loop."""
    around = op.parent.operation
    while around.name.startswith("scf.") and not is_device_loop(around):
        around = around.parent.operation
    return around.name == "func.func"

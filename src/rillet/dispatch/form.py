"""The form after dispatch formation (docs/reference/flow-form.md)."""

from __future__ import annotations

from collections.abc import Iterator

from torch_mlir import ir

from rillet.dialects import flow
from rillet.errors import CompileError
from rillet.ir import Program
from rillet.ir.kernels import called
from rillet.ir.rewrite import defining
from rillet.ir.structured import walk

_HOST_TENSOR_OPS = frozenset(
    (
        "flow.reshape",
        "flow.slice",
        "flow.load",
        "flow.splat",
        "func.call",
        "func.return",
        "ml_program.global_load_const",
    )
)
_DEVICE_DIALECTS = frozenset(("linalg", "tensor", "arith", "math", "scf", "func", "complex"))


def check(program: Program) -> None:
    """Raise ``CompileError`` unless the program is a valid flow program."""
    program.module.operation.verify()
    kernels = dict(_kernels(program))
    for op in walk(program.main()):
        _check_host(op, kernels)
    for name, function in kernels.items():
        _check_kernel(name, function)


def _kernels(program: Program) -> Iterator[tuple[str, ir.Operation]]:
    for op in program.module.body.operations:
        if op.operation.name != "builtin.module":
            continue
        for module in op.operation.regions[0].blocks[0].operations:
            functions = [f.operation for f in module.operation.regions[0].blocks[0].operations]
            name = ir.StringAttr(module.operation.attributes["sym_name"]).value
            if len(functions) != 1 or ir.StringAttr(functions[0].attributes["sym_name"]).value != name:
                raise CompileError(f"internal: kernel @{name} must hold one function of its name")
            yield name, functions[0]


def _check_host(op: ir.Operation, kernels: dict[str, ir.Operation]) -> None:
    has_tensor = any(isinstance(v.type, ir.RankedTensorType) for v in (*op.operands, *op.results))
    if op.name == "tensor.dim":
        owner = defining(op.operands[0])
        if owner is not None and not owner.name.startswith("scf."):
            raise CompileError(f"internal: tensor.dim of a '{owner.name}' is left in the host program")
    elif op.name == "func.call":
        name = called(op)
        if name not in kernels:
            raise CompileError(f"internal: @main calls @{name}, which is no kernel")
    elif has_tensor and op.name not in _HOST_TENSOR_OPS and not op.name.startswith("scf."):
        is_splat = op.name == "arith.constant" and ir.DenseElementsAttr(op.attributes["value"]).is_splat
        if not is_splat:
            raise CompileError(f"internal: '{op.name}' on tensors is left in the host program")
    elif op.name.split(".")[0] in ("linalg", "vector", "memref"):
        raise CompileError(f"internal: '{op.name}' is left in the host program")


def _check_kernel(name: str, function: ir.Operation) -> None:
    type_ = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
    kinds = [isinstance(t, ir.RankedTensorType) for t in type_.inputs]
    if kinds != sorted(kinds, reverse=True):
        raise CompileError(f"internal: kernel @{name} has a scalar argument before a tensor")
    for key, types in (("arg_attrs", type_.inputs), ("res_attrs", type_.results)):
        for i, tensor in enumerate(types):
            if not isinstance(tensor, ir.RankedTensorType):
                continue
            dynamic = sum(
                ir.RankedTensorType(tensor).is_dynamic_dim(a) for a in range(ir.RankedTensorType(tensor).rank)
            )
            dims = flow.dims(function, key, i)
            if len(dims) != dynamic or any(kinds[d] for d in dims):
                raise CompileError(f"internal: kernel @{name} lacks the extents of a tensor at its edge")
    for op in walk(function):
        if op.name.split(".")[0] not in _DEVICE_DIALECTS or op.name == "func.call":
            raise CompileError(f"internal: '{op.name}' in kernel @{name}")

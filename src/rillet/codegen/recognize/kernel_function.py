"""A kernel's function, analysed: which tensor is which binding, which scalar is which push constant, what runs.

Nothing is emitted here. Strategies look at a ``KernelFunction`` to decide whether they match and how to tile.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from torch_mlir import ir

from rillet.codegen.knobs import MODEL, Knobs
from rillet.dialects import flow
from rillet.errors import CompileError
from rillet.ir.structured import Structured, reads, structured

# Ops that compute each element of their result from an index alone (no loop, no state).
_VIEW_LIKE = frozenset(
    {
        "linalg.fill",
        "tensor.pad",
        "tensor.extract_slice",
        "tensor.insert_slice",
        "tensor.concat",
        "tensor.expand_shape",
        "tensor.collapse_shape",
        "tensor.reshape",
        "tensor.cast",
        "tensor.empty",
        "tensor.from_elements",
        "tensor.splat",
        "arith.constant",
    }
)


EXTENT = "codegen.extent"  # on an operation whose result is the extent of merged axes (see ``rewrites.collapse``)


@dataclass(frozen=True)
class Port:
    """A tensor argument or result of the kernel."""

    value: ir.Value  # the block argument, or the value the function returns
    type: ir.RankedTensorType
    binding: int
    dims: tuple[ir.Value, ...]  # the scalar that holds each dynamic extent: an argument, or computed from arguments


class KernelFunction:
    """One kernel (docs/reference/flow-form.md). Raises ``CompileError`` when the function is not in that
    form."""

    def __init__(self, module: ir.Module, knobs: Knobs = MODEL):
        """Analyses the single ``func.func`` of ``module`` (the kernel's own ``builtin.module``); ``knobs``: choices
        that tuning overrules."""
        functions = [op.operation for op in module.body.operations if op.operation.name == "func.func"]
        if len(functions) != 1:
            raise CompileError(f"a kernel must hold exactly one function, this one holds {len(functions)}")
        self.module = module
        self.knobs = knobs
        self.function = functions[0]
        self.name = ir.StringAttr(self.function.attributes["sym_name"]).value
        self.block = self.function.regions[0].blocks[0]
        self.ops: tuple[ir.Operation, ...] = tuple(op.operation for op in self.block.operations)[:-1]
        terminator = list(self.block.operations)[-1].operation
        tensors = [a for a in self.block.arguments if isinstance(a.type, ir.RankedTensorType)]
        self.scalars: tuple[ir.Value, ...] = tuple(self.block.arguments)[len(tensors) :]
        if any(isinstance(a.type, ir.RankedTensorType) for a in self.scalars):
            raise CompileError(f"kernel @{self.name}: tensor arguments must come before scalar arguments")
        self.arguments: tuple[Port, ...] = tuple(
            Port(a, ir.RankedTensorType(a.type), i, self._dims("arg_attrs", i)) for i, a in enumerate(tensors)
        )
        self.results: tuple[Port, ...] = tuple(
            Port(v, ir.RankedTensorType(v.type), len(tensors) + i, self._dims("res_attrs", i))
            for i, v in enumerate(terminator.operands)
        )
        for port in (*self.arguments, *self.results):
            dynamic = sum(port.type.is_dynamic_dim(i) for i in range(port.type.rank))
            if dynamic != len(port.dims):
                raise CompileError(
                    f"kernel @{self.name}: binding {port.binding} has {dynamic} dynamic extents "
                    f"but flow.dims lists {len(port.dims)}"
                )

    def _dims(self, side: str, number: int) -> tuple[ir.Value, ...]:
        """The scalars that hold a port's dynamic extents. Numbers beyond the arguments' are those of ``EXTENT`` ops."""
        arguments = list(self.block.arguments)
        joined = [op.results[0] for op in self.ops if EXTENT in op.attributes]
        return tuple([*arguments, *joined][n] for n in flow.dims(self.function, side, number))

    def analysed_anew(self) -> KernelFunction:
        """The same kernel, after its function was rewritten."""
        return KernelFunction(self.module, self.knobs)

    @cached_property
    def tied(self) -> dict[int, int]:
        """Result number → the argument number whose memory it updates in place."""
        return dict(flow.pairs(self.function, flow.TIED))

    @cached_property
    def may_alias(self) -> frozenset[tuple[int, int]]:
        """Pairs (result number, argument number) that may share memory, tied ones included."""
        return frozenset((*flow.pairs(self.function, flow.MAY_ALIAS), *self.tied.items()))

    @cached_property
    def binding_count(self) -> int:
        """The number of tensor arguments and results."""
        return len(self.arguments) + len(self.results)

    @cached_property
    def constant_count(self) -> int:
        """The number of push constants."""
        return len(self.scalars)

    @cached_property
    def generics(self) -> tuple[Structured, ...]:
        """The ``linalg.generic`` ops at the top level, in program order."""
        return tuple(view for op in self.ops if (view := structured(op)) is not None)

    @cached_property
    def _by_result(self) -> dict[ir.Value, Structured]:
        return {result: generic for generic in self.generics for result in generic.results}

    def generic_of(self, value: ir.Value) -> Structured | None:
        """The generic that defines ``value``, or None."""
        return self._by_result.get(value)

    @cached_property
    def reductions(self) -> tuple[Structured, ...]:
        """The generics with at least one reduction loop, in program order."""
        return tuple(g for g in self.generics if not g.is_parallel)

    @cached_property
    def is_parallel(self) -> bool:
        """True when every op computes its result point by point (no reduction, no device loop)."""
        return not self.reductions and all(op.name in POINTWISE_OPS for op in self.tensor_ops)

    @cached_property
    def tensor_ops(self) -> tuple[ir.Operation, ...]:
        """The ops that produce tensors, in program order."""
        return tuple(op for op in self.ops if any(isinstance(r.type, ir.RankedTensorType) for r in op.results))

    @cached_property
    def uses(self) -> dict[ir.Value, tuple[ir.Operation, ...]]:
        """Tensor value → the top-level ops that read it (a body's capture counts; returning it does not)."""
        users: dict[ir.Value, list[ir.Operation]] = {}
        for op in self.ops:
            for operand in reads(op):
                if isinstance(operand.type, ir.RankedTensorType) and op not in users.setdefault(operand, []):
                    users[operand].append(op)
        return {value: tuple(ops) for value, ops in users.items()}

    def is_result(self, value: ir.Value) -> bool:
        """True when the function returns ``value``."""
        return any(port.value == value for port in self.results)


# A kernel of these ops can be computed point by point once its reductions have run.
POINTWISE_OPS = _VIEW_LIKE | {"linalg.generic"}

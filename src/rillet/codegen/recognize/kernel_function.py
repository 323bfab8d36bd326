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


@dataclass(frozen=True)
class Port:
    """A tensor argument or result of the kernel."""

    value: ir.Value  # the block argument, or the value the function returns
    type: ir.RankedTensorType
    binding: int
    dims: tuple[int, ...]  # for each dynamic extent, the argument number of the scalar that holds it


@dataclass(frozen=True)
class Generic:
    """A ``linalg.generic`` taken apart. ``maps`` has one affine map for each input and init, from loops to tensor
    axes."""

    op: ir.Operation
    inputs: tuple[ir.Value, ...]
    inits: tuple[ir.Value, ...]
    results: tuple[ir.Value, ...]
    maps: tuple[ir.AffineMap, ...]
    iterators: tuple[str, ...]  # "parallel" or "reduction", one for each loop

    @property
    def body(self) -> ir.Block:
        return self.op.regions[0].blocks[0]

    @property
    def input_maps(self) -> tuple[ir.AffineMap, ...]:
        return self.maps[: len(self.inputs)]

    @property
    def output_maps(self) -> tuple[ir.AffineMap, ...]:
        return self.maps[len(self.inputs) :]

    @property
    def is_parallel(self) -> bool:
        """True when no loop is a reduction."""
        return "reduction" not in self.iterators

    @property
    def parallel_loops(self) -> tuple[int, ...]:
        return tuple(i for i, kind in enumerate(self.iterators) if kind == "parallel")

    @property
    def reduction_loops(self) -> tuple[int, ...]:
        return tuple(i for i, kind in enumerate(self.iterators) if kind == "reduction")

    @cached_property
    def loop_extents(self) -> tuple[int, ...]:
        """Static extent of each loop, or ``ir.ShapedType.get_dynamic_size()`` where it is not known."""
        dynamic = ir.ShapedType.get_dynamic_size()
        extents = [dynamic] * len(self.iterators)
        for operand, map_ in zip((*self.inputs, *self.inits), self.maps, strict=True):
            shape = ir.RankedTensorType(operand.type).shape
            for axis, expr in enumerate(map_.results):
                if isinstance(expr, ir.AffineDimExpr) and shape[axis] != dynamic:
                    extents[expr.position] = shape[axis]
        return tuple(extents)


class KernelFunction:
    """One kernel (docs/reference/flow-form.md). Raises ``CompileError`` when the function is not in that
    form."""

    def __init__(self, module: ir.Module, knobs: Knobs = MODEL):
        """Analyse the single ``func.func`` of ``module`` (the kernel's own ``builtin.module``), for a kernel with
        these choices."""
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
            Port(a, ir.RankedTensorType(a.type), i, flow.dims(self.function, "arg_attrs", i))
            for i, a in enumerate(tensors)
        )
        self.results: tuple[Port, ...] = tuple(
            Port(v, ir.RankedTensorType(v.type), len(tensors) + i, flow.dims(self.function, "res_attrs", i))
            for i, v in enumerate(terminator.operands)
        )
        for port in (*self.arguments, *self.results):
            dynamic = sum(port.type.is_dynamic_dim(i) for i in range(port.type.rank))
            if dynamic != len(port.dims):
                raise CompileError(
                    f"kernel @{self.name}: binding {port.binding} has {dynamic} dynamic extents "
                    f"but flow.dims lists {len(port.dims)}"
                )

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
        return len(self.arguments) + len(self.results)

    @cached_property
    def constant_count(self) -> int:
        return len(self.scalars)

    @cached_property
    def generics(self) -> tuple[Generic, ...]:
        """The ``linalg.generic`` ops at the top level, in program order."""
        return tuple(self._generic(op) for op in self.ops if op.name == "linalg.generic")

    @cached_property
    def _by_result(self) -> dict[ir.Value, Generic]:
        return {result: generic for generic in self.generics for result in generic.results}

    def generic_of(self, value: ir.Value) -> Generic | None:
        """The generic that defines ``value``, or None."""
        return self._by_result.get(value)

    @cached_property
    def reductions(self) -> tuple[Generic, ...]:
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
            read = list(op.operands)
            if op.name == "linalg.generic":
                read += captures(op)
            for operand in read:
                if isinstance(operand.type, ir.RankedTensorType) and op not in users.setdefault(operand, []):
                    users[operand].append(op)
        return {value: tuple(ops) for value, ops in users.items()}

    def is_result(self, value: ir.Value) -> bool:
        """True when the function returns ``value``."""
        return any(port.value == value for port in self.results)

    def _generic(self, op: ir.Operation) -> Generic:
        segments = list(ir.DenseI32ArrayAttr(op.attributes["operandSegmentSizes"]))
        operands = tuple(op.operands)
        maps = tuple(ir.AffineMapAttr(m).value for m in ir.ArrayAttr(op.attributes["indexing_maps"]))
        iterators = tuple(
            "reduction" if "reduction" in str(t) else "parallel" for t in ir.ArrayAttr(op.attributes["iterator_types"])
        )
        return Generic(op, operands[: segments[0]], operands[segments[0] :], tuple(op.results), maps, iterators)


# With its reductions run first, a kernel of these ops can be computed point by point.
POINTWISE_OPS = _VIEW_LIKE | {"linalg.generic"}


def captures(op: ir.Operation) -> list[ir.Value]:
    """The values defined outside ``op`` that its regions read, in order of first use."""
    inside: set[ir.Value] = set()
    outside: list[ir.Value] = []

    def visit(region: ir.Region) -> None:
        for block in region.blocks:
            inside.update(block.arguments)
            for nested in block.operations:
                for operand in nested.operation.operands:
                    if operand not in inside and operand not in outside:
                        outside.append(operand)
                inside.update(nested.operation.results)
                for inner in nested.operation.regions:
                    visit(inner)

    for region in op.regions:
        visit(region)
    return outside

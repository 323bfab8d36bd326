"""Structured ops taken apart for analysis: iterators, indexing maps, body.

An indexing map is a tuple of expressions, one for each axis of the operand. An expression that is a plain loop
dimension is an ``int``, its position; anything else stays an ``ir.AffineExpr``. Most questions are about plain
dimensions only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from torch_mlir import ir

Expr: TypeAlias = int | ir.AffineExpr
Map: TypeAlias = tuple[Expr, ...]
DYNAMIC = ir.ShapedType.get_dynamic_size()
# On a ``tensor.extract`` whose indices are in bounds by construction, even where the loop around would have ended.
IN_BOUNDS = "rillet.in_bounds"
# On a ``scf.while`` whose body gives the state back, unchanged, where its condition no longer holds.
STAYS = "rillet.stays"

_PARALLEL = "#linalg.iterator_type<parallel>"
_REDUCTION = "#linalg.iterator_type<reduction>"


@dataclass(frozen=True, eq=False)
class Structured:
    """A ``linalg.generic``: ``maps`` has one map for each operand (inputs, then inits)."""

    op: ir.Operation
    maps: tuple[Map, ...]
    parallel: tuple[bool, ...]  # one for each loop
    inputs: tuple[ir.Value, ...]
    inits: tuple[ir.Value, ...]

    @cached_property
    def results(self) -> tuple[ir.Value, ...]:
        """The tensors that the op makes, one for each init."""
        return tuple(self.op.results)

    @property
    def loops(self) -> int:
        """The number of loops."""
        return len(self.parallel)

    @property
    def parallel_loops(self) -> tuple[int, ...]:
        """The numbers of the parallel loops, ascending."""
        return tuple(loop for loop, is_parallel in enumerate(self.parallel) if is_parallel)

    @property
    def reduction_loops(self) -> tuple[int, ...]:
        """The numbers of the reduction loops, ascending."""
        return tuple(loop for loop, is_parallel in enumerate(self.parallel) if not is_parallel)

    @property
    def is_parallel(self) -> bool:
        """True when no loop is a reduction."""
        return all(self.parallel)

    @property
    def input_maps(self) -> tuple[Map, ...]:
        """The indexing maps of the inputs."""
        return self.maps[: len(self.inputs)]

    @property
    def init_maps(self) -> tuple[Map, ...]:
        """The indexing maps of the inits, which the results share."""
        return self.maps[len(self.inputs) :]

    @property
    def body(self) -> ir.Block:
        """The block that computes one element; its arguments are elements of the inputs, then of the inits."""
        return self.op.regions[0].blocks[0]

    @property
    def is_elementwise(self) -> bool:
        """Whether all loops are parallel and every result is indexed by a permutation of them."""
        return self.is_parallel and all(is_permutation(m, self.loops) for m in self.init_maps)

    @property
    def is_windowed(self) -> bool:
        """Whether some operand is indexed by more than plain dimensions and constants (a convolution, a pooling, an
        upsampling)."""
        return any(not isinstance(e, int | ir.AffineConstantExpr) for m in self.maps for e in m)

    @property
    def operands(self) -> tuple[tuple[ir.Value, Map], ...]:
        """Inputs, then inits, each with its map."""
        return tuple(zip((*self.inputs, *self.inits), self.maps, strict=True))

    @cached_property
    def extents(self) -> tuple[int, ...]:
        """The static extent of each loop, ``DYNAMIC`` where it is not known, from the operands' types at the first
        read."""
        known = [DYNAMIC] * self.loops
        for value, map_ in self.operands:
            if not isinstance(value.type, ir.RankedTensorType):
                continue
            for extent, expr in zip(ir.RankedTensorType(value.type).shape, map_, strict=True):
                if isinstance(expr, int) and extent != DYNAMIC:
                    known[expr] = extent
        return tuple(known)

    def body_ops(self) -> list[ir.Operation]:
        """The operations of the body except its terminator (nested regions not included)."""
        return [op.operation for op in self.body.operations][:-1]

    def yielded(self) -> list[ir.Value]:
        """The scalars that the body yields, one for each result."""
        return list(list(self.body.operations)[-1].operands)

    def input_number(self, value: ir.Value) -> int | None:
        """The number of the input that ``value``, a scalar of the body, is an element of; None for any other."""
        arguments = list(self.body.arguments)[: len(self.inputs)]
        return arguments.index(value) if value in arguments else None

    def init_is_read(self, number: int = 0) -> bool:
        """True when the body reads the init's old value."""
        return bool(list(self.body.arguments[len(self.inputs) + number].uses))


def structured(op: ir.Operation | ir.OpView) -> Structured | None:
    """The analysis of ``op``, or None when it is not a ``linalg.generic``."""
    operation = op.operation
    if operation.name != "linalg.generic":
        return None
    attributes = operation.attributes
    count = ir.DenseI32ArrayAttr(attributes["operandSegmentSizes"])[0]
    operands = tuple(operation.operands)
    maps = tuple(exprs(ir.AffineMapAttr(m).value) for m in attributes["indexing_maps"])
    # One print for all: comparing each attribute costs more than everything else here.
    kinds = str(attributes["iterator_types"])
    parallel = tuple("parallel" in kind for kind in kinds.split(",")) if "<" in kinds else ()
    return Structured(operation, maps, parallel, operands[:count], operands[count:])


def exprs(map_: ir.AffineMap) -> Map:
    """The results of an affine map, plain dimensions as ``int``."""
    return tuple(e.position if isinstance(e, ir.AffineDimExpr) else e for e in map_.results)


def map_attr(loops: int, map_: Sequence[Expr]) -> ir.AffineMapAttr:
    """The attribute for a map over ``loops`` loops."""
    results = [ir.AffineExpr.get_dim(e) if isinstance(e, int) else e for e in map_]
    return ir.AffineMapAttr.get(ir.AffineMap.get(loops, 0, results))


def maps_attr(loops: int, maps: Sequence[Sequence[Expr]]) -> ir.ArrayAttr:
    """The ``indexing_maps`` attribute of an op with this many loops."""
    return ir.ArrayAttr.get([map_attr(loops, m) for m in maps])


def iterators_attr(parallel: Sequence[bool]) -> ir.ArrayAttr:
    """The ``iterator_types`` attribute: True stands for a parallel loop, False for a reduction."""
    return ir.ArrayAttr.get([ir.Attribute.parse(_PARALLEL if p else _REDUCTION) for p in parallel])


def rename(map_: Sequence[Expr], new: Sequence[Expr], loops: int | None = None) -> Map:
    """The map over other loops: old loop ``i`` is ``new[i]`` of ``loops``."""
    if all(isinstance(e, int) for e in map_):
        return tuple(new[e] for e in map_)  # type: ignore[index]
    dims = [ir.AffineExpr.get_dim(n) if isinstance(n, int) else n for n in new]
    target = ir.AffineMap.get(loops or len(new), 0, dims)
    renamed = [dims[e] if isinstance(e, int) else e.compose(target) for e in map_]
    # (A map's results, except those of ``compose``, have the expression classes that tell their kinds.)
    return exprs(ir.AffineMap.get(target.n_dims, 0, renamed))


def is_permutation(map_: Sequence[Expr], loops: int) -> bool:
    """Whether the map reads each loop exactly once and nothing else."""
    return len(map_) == loops and sorted(e for e in map_ if isinstance(e, int)) == list(range(loops))


def is_projected(map_: Sequence[Expr]) -> bool:
    """Whether the map has plain dimensions only, each at most once."""
    return all(isinstance(e, int) for e in map_) and len(set(map_)) == len(map_)


def dims_in(expr: Expr) -> set[int]:
    """The loop dimensions an expression mentions."""
    if isinstance(expr, int):
        return {expr}
    if isinstance(expr, ir.AffineDimExpr):
        return {expr.position}
    if isinstance(expr, ir.AffineConstantExpr):
        return set()
    return dims_in(expr.lhs) | dims_in(expr.rhs)  # type: ignore[attr-defined]


def inverse(permutation: Sequence[int]) -> tuple[int, ...]:
    """The permutation that undoes this one."""
    result = [0] * len(permutation)
    for position, value in enumerate(permutation):
        result[value] = position
    return tuple(result)


def copy_permutation(op: ir.Operation | ir.OpView) -> tuple[int, ...] | None:
    """``p`` when ``op`` only permutes its input, such that result axis ``i`` is input axis ``p[i]``; else None."""
    view = structured(op)
    if view is None or len(view.inputs) != 1 or len(view.inits) != 1 or not view.is_elementwise:
        return None
    source, target = view.maps
    if not is_permutation(source, view.loops) or view.body_ops() or view.yielded()[0] != view.body.arguments[0]:
        return None
    return tuple(source.index(e) for e in target)


def index_loop(op: ir.Operation) -> int:
    """The loop whose position a ``linalg.index`` gives."""
    return ir.IntegerAttr(op.attributes["dim"]).value


def captures(op: ir.Operation | ir.OpView) -> list[ir.Value]:
    """The outside values that the regions of ``op`` read, in order of first use, without repetition."""
    inside: set[ir.Value] = set()
    outside: dict[ir.Value, None] = {}

    def visit(region: ir.Region) -> None:
        for block in region.blocks:
            inside.update(block.arguments)
            for nested in block.operations:
                for operand in nested.operands:
                    if operand not in inside:
                        outside.setdefault(operand)
                for inner in nested.regions:
                    visit(inner)
                inside.update(nested.results)

    for region in op.operation.regions:
        visit(region)
    return list(outside)


def reads(op: ir.Operation | ir.OpView) -> list[ir.Value]:
    """Operands and captured values of ``op``, without repetition."""
    operation = op.operation
    values = dict.fromkeys(operation.operands)
    if len(operation.regions):
        values |= dict.fromkeys(captures(operation))
    return list(values)


def walk(op: ir.Operation | ir.OpView) -> Iterator[ir.Operation]:
    """All operations nested in ``op``, in program order, without ``op`` itself."""
    for region in op.operation.regions:
        for block in region.blocks:
            for inner in block.operations:
                yield inner.operation
                yield from walk(inner)

"""A reduction of elements that a loop finds: a ``linalg.generic`` whose body has one ``scf.while``.

The loop must be free of effects: then it may take further steps for elements that it has already found, while it
looks for others.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch_mlir import ir

from rillet.codegen.recognize.kernel_function import POINTWISE_OPS, KernelFunction
from rillet.ir.structured import IN_BOUNDS, Structured, captures, index_loop, is_projected, walk

_EFFECT_FREE = ("arith.", "math.")


@dataclass(frozen=True)
class Walk:
    """``early``: the ops of the body that the loop needs, in order; ``late``: those behind it. ``reads``: the values
    that both read. ``loops``: the generic's loops that the walk depends on."""

    generic: Structured
    early: tuple[ir.Operation, ...]
    loop: ir.Operation
    late: tuple[ir.Operation, ...]
    reads: frozenset[ir.Value]
    loops: frozenset[int]

    @property
    def inner(self) -> tuple[int, ...]:
        """The parallel loops that one walk serves."""
        return tuple(n for n in self.generic.parallel_loops if n not in self.loops)


def find_walk(function: KernelFunction) -> Walk | None:
    """The walk that a kernel consists of: its only result is that of its only generic, a reduction over one loop,
    whose body has one ``scf.while``. None for any other kernel."""
    if len(function.generics) != 1 or len(function.results) != 1:
        return None
    (generic,) = function.generics
    if not all(op.name in POINTWISE_OPS for op in function.tensor_ops):
        return None
    if len(generic.results) != 1 or function.results[0].value != generic.results[0]:
        return None
    if len(generic.reduction_loops) != 1 or not is_projected(generic.init_maps[0]):
        return None
    ops = generic.body_ops()
    nested = [op for op in ops if len(op.regions)]
    if len(nested) != 1 or nested[0].name != "scf.while" or not all(map(_is_effect_free, walk(nested[0]))):
        return None
    early = _needed(nested[0], generic)
    read = frozenset((*captures(nested[0]), *(v for op in (*early, nested[0]) for v in op.operands)))
    if generic.body.arguments[len(generic.inputs)] in read:  # a walk that begins where the last one led
        return None
    late = tuple(op for op in ops if op not in early and op != nested[0])
    loops = _loops_of((*early, nested[0]), generic)
    return Walk(generic, early, nested[0], late, read, loops) if generic.reduction_loops[0] in loops else None


def _is_effect_free(op: ir.Operation) -> bool:
    if op.name == "tensor.extract":
        return IN_BOUNDS in op.attributes
    return op.name in ("scf.condition", "scf.yield") or op.name.startswith(_EFFECT_FREE)


def _needed(loop: ir.Operation, generic: Structured) -> tuple[ir.Operation, ...]:
    """The ops of the body that the loop's operands and captures are computed from, in order."""
    wanted = [*loop.operands, *captures(loop)]
    found = []
    for op in reversed(generic.body_ops()):
        if op != loop and any(result in wanted for result in op.results):
            found.append(op)
            wanted += op.operands
    return tuple(reversed(found))


def _loops_of(ops: tuple[ir.Operation, ...], generic: Structured) -> frozenset[int]:
    """The generic's loops that the ops depend on."""
    arguments = list(generic.body.arguments)
    found: set[int] = set()
    for op in ops:
        for inner in (op, *walk(op)):
            if inner.name == "linalg.index":
                found.add(index_loop(inner))
            for operand in inner.operands:
                if operand in arguments:
                    found.update(e for e in generic.maps[arguments.index(operand)] if isinstance(e, int))
    return frozenset(found)

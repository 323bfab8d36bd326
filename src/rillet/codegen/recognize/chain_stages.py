"""Cutting a kernel with several contractions into stages, each seen as a kernel of its own.

A stage is a contraction with its epilogue, or a chain of row-wise reductions with the point-wise ops behind them. A
tensor that one stage makes and a later one reads is a result of the first and an argument of the second, though no
binding holds it.
"""

from __future__ import annotations

from functools import cached_property

from torch_mlir import ir

from rillet.codegen.recognize.kernel_function import POINTWISE_OPS, KernelFunction, Port
from rillet.ir.contraction import separate_product
from rillet.ir.structured import Structured, reads


class Stage(KernelFunction):
    """Some ops of a kernel as a kernel: ``arguments`` and ``results`` are bindings of the whole or values that
    pass from stage to stage (binding -1)."""

    def __init__(
        self,
        whole: KernelFunction,
        number: int,
        ops: tuple[ir.Operation, ...],
        arguments: tuple[Port, ...],
        results: tuple[Port, ...],
    ):
        """Takes the ops from ``whole``, in its order, without analysing them again; ``number`` is the stage's
        position."""
        self.module = whole.module
        self.knobs = whole.knobs.of_stage(number)
        self.function = whole.function
        self.name = whole.name
        self.block = whole.block
        self.scalars = whole.scalars
        self.ops = ops
        self.arguments = arguments
        self.results = results
        self.in_place = False  # whether the result takes the memory of the argument that an earlier stage makes

    @cached_property
    def may_alias(self) -> frozenset[tuple[int, int]]:
        """Pairs (result number, argument number) that share memory. A chain's bindings share none; the result may take
        the memory of a tensor that an earlier stage passed."""
        passed = [n for n, port in enumerate(self.arguments) if port.binding < 0]
        return frozenset({(0, passed[0])}) if self.in_place else frozenset()


def cut(function: KernelFunction) -> list[Stage] | None:
    """The stages of a kernel, in order; None when it is no chain: fewer than two contractions, results that share
    memory with arguments, or ops that are not computed point by point.
    """
    if (
        len(function.reductions) < 2
        or function.may_alias
        or not all(op.name in POINTWISE_OPS for op in function.tensor_ops)
    ):
        return None
    numbers = _numbers(function)
    if numbers is None:
        return None
    return [_stage(function, numbers, n) for n in range(max(numbers.values()) + 1)]


def is_root(generic: Structured) -> bool:
    """Whether a generic is a sum of products with an operand that all rows share."""
    if generic.is_parallel or len(generic.inputs) != 2 or len(generic.inits) != 1 or separate_product(generic) is None:
        return False
    return any(
        not set(generic.parallel_loops) <= {e for e in map_ if isinstance(e, int)} for map_ in generic.input_maps
    )


def _numbers(function: KernelFunction) -> dict[ir.Operation, int] | None:
    """The stage of each op that depends on a reduction; None when there are fewer than two contractions."""
    number: dict[ir.Operation, int] = {}
    contractions: set[int] = set()
    maker = {r: op for op in function.tensor_ops for r in op.results}
    for op in function.tensor_ops:
        before = [number[maker[v]] for v in reads(op) if v in maker and maker[v] in number]
        generic = function.generic_of(op.results[0])
        if generic is not None and is_root(generic):
            number[op] = max(before, default=-1) + 1
            if number[op] in contractions:
                return None
            contractions.add(number[op])
        elif generic is not None and not generic.is_parallel:
            last = max(before, default=0)
            number[op] = last + (last in contractions)
        elif before:
            number[op] = max(before)
    return number if len(contractions) >= 2 else None


def _stage(function: KernelFunction, numbers: dict[ir.Operation, int], stage: int) -> Stage:
    own = [op for op in function.tensor_ops if numbers.get(op) == stage]
    maker = {r: op for op in function.ops for r in op.results}
    passed: dict[ir.Value, None] = {}
    needed: set[ir.Operation] = set(own)
    pending = list(own)
    while pending:
        op = pending.pop()
        for value in reads(op):
            source = maker.get(value)
            if source is None or source in needed:
                continue
            if source in numbers:
                passed.setdefault(value)
            else:  # depends on no reduction: each stage that reads it computes it
                needed.add(source)
                pending.append(source)
    outer = {port.value: port for port in function.results}
    later = {v for op in function.tensor_ops if numbers.get(op, -1) > stage for v in reads(op)}
    results = [
        outer.get(r) or Port(r, ir.RankedTensorType(r.type), -1, ())
        for op in own
        for r in op.results
        if r in later or r in outer
    ]
    read = {v for op in needed for v in reads(op)}
    arguments = [port for port in function.arguments if port.value in read]
    arguments += [Port(v, ir.RankedTensorType(v.type), -1, ()) for v in passed]
    ops = tuple(op for op in function.ops if op in needed)
    return Stage(function, stage, ops, tuple(arguments), tuple(results))

"""Gives operations that widen a stored tensor to those that use their results.

An elementwise operation may make 32-bit numbers from 8-bit ones and a few parameters (a dequantization, a cast). Such
an operation costs little to compute; its result costs four times as much to write and read again. So each elementwise
operation, sum or window that reads its result computes it itself, and memory holds the narrow tensor, for any number of
readers.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch_mlir import ir

from rillet.ir import Program
from rillet.ir.contraction import is_multiply_add
from rillet.ir.dtypes import element_bytes
from rillet.ir.rewrite import blocks, clone_operations, erase_dead, generic_with, replace, users
from rillet.ir.structured import (
    Map,
    Structured,
    inverse,
    is_permutation,
    is_projected,
    structured,
)


@dataclass(frozen=True)
class Options:
    """``cost``: scalar operations that are worth repeating for each reader; a dequantization has five."""

    cost: int = 8


def run(program: Program, options: Options) -> None:
    """Rewrite ``@main`` and its control flow."""
    with program.context, ir.Location.unknown():
        for block in blocks(program.main()):
            operations = [view.operation for view in block.operations]
            position = {op: number for number, op in enumerate(operations)}
            for number in range(len(operations)):
                view = structured(operations[number])
                if view is None or not _widens(view, options):
                    continue
                for user in users(view.op.results[0]):
                    if user not in position:
                        continue  # in control flow
                    at = position.pop(user)
                    operations[at] = _compute_in(view, user) or user
                    position[operations[at]] = at
        erase_dead(program.main())


def _widens(view: Structured, options: Options) -> bool:
    """Whether each element is made from a narrower one of the only tensor of this size, by arithmetic that is cheap or
    is not repeated."""
    if not view.is_elementwise or len(view.inits) != 1 or view.init_is_read():
        return False
    if not all(is_projected(m) for m in view.maps) or not is_permutation(view.init_maps[0], view.loops):
        return False
    if not (_is_cheap(view, options) or _is_read_once(view.op.results[0])):
        return False
    whole = [v for v, m in zip(view.inputs, view.input_maps, strict=True) if m and is_permutation(m, view.loops)]
    return len(whole) == 1 and element_bytes(whole[0]) < element_bytes(view.op.results[0])


def _is_cheap(view: Structured, options: Options) -> bool:
    ops = view.body_ops()
    return len(ops) <= options.cost and all(op.name.startswith("arith.") and op.name != "arith.divf" for op in ops)


def _is_read_once(value: ir.Value) -> bool:
    """Whether one elementwise operation reads each element once."""
    readers = [structured(user) for user in users(value)]
    if len(readers) != 1 or readers[0] is None or not readers[0].is_elementwise:
        return False
    own = [m for v, m in zip(readers[0].inputs, readers[0].input_maps, strict=True) if v == value]
    return len(own) == 1 and is_permutation(own[0], readers[0].loops)


def _compute_in(maker: Structured, op: ir.Operation) -> ir.Operation | None:
    """Make ``op`` compute the elements that it reads from the result of ``maker``, where it can. The replacement, or
    None."""
    view = structured(op)
    value = maker.op.results[0]
    if view is None or value not in view.inputs or value in view.inits:
        return None
    if not _takes(view):
        return None
    inputs: list[ir.Value] = []
    maps: list[Map] = []
    number_of: dict[int, list[int]] = {}  # for each old input, the new ones that replace it
    place = inverse(maker.init_maps[0])  # type: ignore[arg-type]
    for number, (operand, map_) in enumerate(zip(view.inputs, view.input_maps, strict=True)):
        number_of[number] = []
        parts = [(operand, map_)]
        if operand == value:
            composed = [tuple(map_[place[loop]] for loop in m) for m in maker.input_maps]  # type: ignore[index]
            parts = list(zip(maker.inputs, composed, strict=True))
        for part in parts:
            number_of[number].append(len(inputs))
            inputs.append(part[0])
            maps.append(part[1])
    new = _rebuilt(maker, view, inputs, maps, number_of)
    replace(op, new.results)
    return new


def _takes(view: Structured) -> bool:
    """Whether code generation computes the operation's operands: contractions take their factors as they are."""
    return all(view.parallel) or not is_multiply_add(view)


def _rebuilt(
    maker: Structured, view: Structured, inputs: list[ir.Value], maps: list[Map], number_of: dict[int, list[int]]
) -> ir.Operation:
    op = view.op

    def body(arguments: list[ir.Value]) -> list[ir.Value]:
        scalars: dict[ir.Value, ir.Value] = {}
        for number, argument in enumerate(view.body.arguments):
            if number >= len(view.inputs):
                scalars[argument] = arguments[len(inputs) + number - len(view.inputs)]
            elif view.inputs[number] != maker.op.results[0]:
                scalars[argument] = arguments[number_of[number][0]]
            else:
                own = dict(zip(maker.body.arguments, (arguments[n] for n in number_of[number]), strict=False))
                clone_operations(maker.body_ops(), own)
                result = maker.yielded()[0]
                scalars[argument] = own.get(result, result)
        clone_operations(view.body_ops(), scalars)
        return [scalars.get(value, value) for value in view.yielded()]

    with ir.InsertionPoint(op), ir.Location.fused([maker.op.location, op.location]):
        return generic_with(inputs, view.inits, [*maps, *view.init_maps], view.parallel, body)

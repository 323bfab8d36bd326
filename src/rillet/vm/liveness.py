"""Liveness of values in a function of branches and blocks."""

from __future__ import annotations

from dataclasses import dataclass

from torch_mlir import ir

from rillet.ir.rewrite import defining


@dataclass(frozen=True)
class Liveness:
    """Reachable ``blocks`` in reverse postorder, and the values that live into and out of each."""

    blocks: tuple[ir.Block, ...]
    live_in: dict[ir.Block, set[ir.Value]]
    live_out: dict[ir.Block, set[ir.Value]]
    predecessors: dict[ir.Block, list[ir.Block]]

    @staticmethod
    def of(function: ir.Operation) -> Liveness:
        """Computes the values that live across block boundaries, as a fixpoint of the backward dataflow equations."""
        blocks = _reverse_postorder(function.regions[0].blocks[0])
        uses: dict[ir.Block, set[ir.Value]] = {}
        defined: dict[ir.Block, set[ir.Value]] = {}
        predecessors: dict[ir.Block, list[ir.Block]] = {block: [] for block in blocks}
        for block in blocks:
            own = set(block.arguments)
            read: set[ir.Value] = set()
            for view in block.operations:
                read |= {v for v in reads(view.operation) if v not in own}
                own |= set(view.operation.results)
            uses[block], defined[block] = read, own
            for successor in terminator(block).successors:
                predecessors[successor].append(block)
        live_in = {block: set(uses[block]) for block in blocks}
        live_out: dict[ir.Block, set[ir.Value]] = {block: set() for block in blocks}
        work = list(blocks)
        while work:
            block = work.pop()
            for successor in terminator(block).successors:
                live_out[block] |= live_in[successor]
            grown = uses[block] | (live_out[block] - defined[block])
            if grown != live_in[block]:
                live_in[block] = grown
                work.extend(predecessors[block])
        return Liveness(blocks, live_in, live_out, predecessors)


def _reverse_postorder(entry: ir.Block) -> tuple[ir.Block, ...]:
    """Reachable blocks, each after every block that dominates it."""
    order: list[ir.Block] = []
    seen = {entry}
    stack = [(entry, iter(reversed(list(terminator(entry).successors))))]
    while stack:
        block, successors = stack[-1]
        following = next((s for s in successors if s not in seen), None)
        if following is None:
            order.append(block)
            stack.pop()
        else:
            seen.add(following)
            stack.append((following, iter(reversed(list(terminator(following).successors)))))
    return tuple(reversed(order))


def reads(op: ir.Operation) -> list[ir.Value]:
    """The values whose registers an operation reads: a branch reads the operands of its ``vm.test``."""
    if op.name == "vm.test":
        return []
    return [_behind_test(v) for v in op.operands]


def _behind_test(value: ir.Value) -> ir.Value:
    test = defining(value, "vm.test")
    return value if test is None else test.operands[0]


def terminator(block: ir.Block) -> ir.Operation:
    """The last operation of a block."""
    return list(block.operations)[-1].operation


def edges(op: ir.Operation) -> list[tuple[ir.Block, list[ir.Value]]]:
    """The successors of a branch with the values passed to their arguments."""
    if op.name == "cf.br":
        return [(op.successors[0], list(op.operands))]
    if op.name != "cf.cond_br":
        return []
    _, first, second = list(ir.DenseI32ArrayAttr(op.attributes["operandSegmentSizes"]))
    operands = list(op.operands)
    return [
        (op.successors[0], operands[1 : 1 + first]),
        (op.successors[1], operands[1 + first : 1 + first + second]),
    ]

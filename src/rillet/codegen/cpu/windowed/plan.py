"""The plan of a windowed kernel: the loops of its tile, how operands are read, what is unrolled and how work is
split."""

from __future__ import annotations

import dataclasses
import itertools
import math
from dataclasses import dataclass

from torch_mlir import ir

from rillet.codegen.cpu.cost_model import DYNAMIC_EXTENT
from rillet.codegen.cpu.machine import CpuTarget, with_integer_sums
from rillet.codegen.cpu.windowed import cost_model
from rillet.codegen.cpu.windowed import pairs as window_pairs
from rillet.codegen.cpu.windowed.cost_model import Operand, Reach, Window, WindowBlocks, WindowTile
from rillet.codegen.knobs import Choice, Knobs
from rillet.codegen.recognize import linear_access
from rillet.codegen.recognize.accumulation import combinations_of
from rillet.codegen.recognize.epilogue import Epilogue, epilogue_of
from rillet.codegen.recognize.kernel_function import KernelFunction
from rillet.codegen.recognize.lanes import is_vectorizable, lanes_for
from rillet.codegen.recognize.linear_access import Access, GroupedAccess, argument_of
from rillet.codegen.recognize.narrow_factors import NarrowFactor
from rillet.ir.contraction import Product, separate_product
from rillet.ir.dtypes import storage_bytes
from rillet.ir.rewrite import is_defined_by
from rillet.ir.structured import DYNAMIC, Structured

# Strides along the vectorized axis beyond this make every lane a cache line of its own.
_MAX_LANE_STRIDE = 4
_MOST_OFFSETS = 64  # along one axis; longer windows are not unrolled, so results share nothing that they read


@dataclass(frozen=True)
class WindowedPlan:
    """One windowed kernel. Its loops are those of ``root``: the tile lies along ``line_loop``, ``row_loop`` and
    ``column_loop``; ``outer_loops`` are the other parallel ones."""

    root: Structured
    epilogue: Epilogue
    product: Product | None  # of operands 0 and 1, when the body is a sum of products
    accesses: tuple[Access | None, ...]  # None for an operand that is not read from memory: ignored, or a splat
    window: Window
    column_loop: int
    row_loop: int | None
    line_loop: int | None
    outer_loops: tuple[int, ...]
    tile: WindowTile
    unrolled: tuple[int, ...]  # reduction loops, outermost first, that are unrolled; the others stay loops
    blocks: WindowBlocks
    pairs: tuple[NarrowFactor, ...]  # factors whose products go two positions of the window at a time


def make_plan(function: KernelFunction, target: CpuTarget) -> WindowedPlan | None:
    """The plan for a kernel with one reduction whose loops move no operand along its vectorized axis; None for any
    other kernel."""
    if len(function.reductions) != 1:
        return None
    root = function.reductions[0]
    axes = [e for e in root.init_maps[0] if isinstance(e, int)]
    same = all(m == root.init_maps[0] for m in root.init_maps)
    if not axes or not same or sorted(axes) != list(root.parallel_loops) or not is_vectorizable(root):
        return None
    product = separate_product(root) if len(root.inputs) == 2 and len(root.inits) == 1 else None
    if product is None and combinations_of(root) is None:
        return None  # the window is walked in the order of addresses, and such a body may depend on the order
    after = epilogue_of(function, root)
    if after is None:
        return None
    accesses = _accesses(function, root, axes[-1])
    if accesses is None:
        return None
    extents = root.extents
    *outer, column = axes
    row = outer.pop() if outer and extents[outer[-1]] != 1 else None
    line = outer.pop() if row is not None and outer and extents[outer[-1]] != 1 else None
    lanes = lanes_for(function, target.machine.vector_bits)
    pairs = window_pairs.factors(root, product, lanes, target)
    converts = bool(pairs) or (target.machine.float_products and product is not None and _are_bytes(root))
    window = dataclasses.replace(_window(root, accesses, outer, line, row, column), converts=converts)
    knobs = function.knobs
    sums_are_integers = isinstance(ir.RankedTensorType(root.results[0].type).element_type, ir.IntegerType)
    chosen = cost_model.choose_tile(with_integer_sums(target) if sums_are_integers else target, window, lanes)
    tile = WindowTile(
        knobs.tile_rows or chosen.rows,
        knobs.tile_vectors or chosen.vectors,
        lanes,
        min(knobs.tile_lines or chosen.lines, window.lines),
    )
    unrolled = _unrolled(root, accesses, tile, cost_model.unrolled_operations(target))
    split = cost_model.choose_blocks(target, window, tile).overruled(tile, knobs)
    return WindowedPlan(
        root=root,
        epilogue=after,
        product=product,
        accesses=accesses,
        window=window,
        column_loop=column,
        row_loop=row,
        line_loop=line,
        outer_loops=tuple(outer),
        tile=tile,
        unrolled=unrolled,
        blocks=split,
        pairs=pairs,
    )


def _window(
    root: Structured,
    accesses: tuple[Access | None, ...],
    outer: list[int],
    line: int | None,
    row: int | None,
    column: int,
) -> Window:
    """The reduction as the cost model sees it."""
    extents = [DYNAMIC_EXTENT if e == DYNAMIC else e for e in root.extents]
    reduction = {n: extents[n] for n in root.reduction_loops}
    return Window(
        outer=math.prod(extents[n] for n in outer),
        lines=1 if line is None else extents[line],
        rows=1 if row is None else extents[row],
        columns=extents[column],
        steps=math.prod(reduction.values()),
        operands=tuple(_operand(a, reduction, line, row) for a in accesses if a is not None),
    )


def _are_bytes(root: Structured) -> bool:
    """Whether factors are computed from 8-bit integers."""
    elements = [ir.RankedTensorType(value.type).element_type for value in root.inputs]
    return all(isinstance(e, ir.IntegerType) and e.width == 8 for e in elements)


def _operand(which: Access, reduction: dict[int, int], line: int | None, row: int | None) -> Operand:
    lines, line_loops = _reach(which, reduction, line)
    rows, row_loops = _reach(which, reduction, row)
    if set(line_loops) & set(row_loops):  # operands that share both cannot be told apart
        lines, rows, line_loops, row_loops = Reach(1, (0,)), Reach(1, (0,)), [], []
    moving = [n for n in reduction if which.uses(n) and n not in (*line_loops, *row_loops)]
    element = ir.RankedTensorType(which.value.type).element_type
    others = math.prod(reduction[n] for n in moving)
    spread = isinstance(which, GroupedAccess)
    return Operand(lines, rows, others, storage_bytes(element), spread)


def _reach(which: Access, reduction: dict[int, int], loop: int | None) -> tuple[Reach, list[int]]:
    """The positions that neighbouring results along ``loop`` read, and the reduction loops that move along the same
    axis."""
    forms = [f for f in which.axes if loop is not None and f.coefficients[loop]]
    if not forms:
        return Reach(0, (0,)), []
    together = [n for n in reduction if any(f.coefficients[n] for f in forms)]
    steps = [range(reduction[n]) for n in together]
    if len(forms) > 1 or math.prod(map(len, steps)) > _MOST_OFFSETS:
        return Reach(1, (0,)), []
    coefficients = forms[0].coefficients
    offsets = {sum(coefficients[n] * i for n, i in zip(together, at, strict=True)) for at in itertools.product(*steps)}
    return Reach(coefficients[loop or 0], tuple(sorted(offsets))), together


def choice(plan: WindowedPlan) -> Choice:
    """The plan's decisions, for a tuner."""
    window = plan.window
    problem = {
        "outer": window.outer,
        "lines": window.lines,
        "rows": window.rows,
        "columns": window.columns,
        "window": window.steps,
        "lanes": plan.tile.lanes,
    }
    knobs = Knobs(
        tile_rows=plan.tile.rows,
        tile_vectors=plan.tile.vectors,
        tile_lines=plan.tile.lines,
        row_tiles=plan.blocks.outer,
        column_tiles=plan.blocks.columns // plan.tile.columns,
    )
    return Choice(problem, knobs)


def _accesses(function: KernelFunction, root: Structured, column: int) -> tuple[Access | None, ...] | None:
    """How each input is read; None when one is no linear access of an argument, or moves far along the columns."""
    found: list[Access | None] = []
    moves = False
    for number, (value, map_) in enumerate(zip(root.inputs, root.input_maps, strict=True)):
        if not list(root.body.arguments[number].uses) or _is_splat(value):
            found.append(None)
            continue
        grouped = linear_access.grouped_access_of(value, map_, root.loops)
        if grouped is not None and grouped.group_loop == column and argument_of(function, value) is not None:
            moves = True
            found.append(grouped)
            continue
        linear = linear_access.padded_access_of(function, value, map_, root.loops)
        if linear is None or linear.panel or argument_of(function, linear.value) is None or linear.checks(column):
            return None
        stride = linear.static_stride(column)
        if stride is None or abs(stride) > _MAX_LANE_STRIDE:
            return None
        moves |= stride != 0
        found.append(linear)
    extract = any(op.operation.name == "tensor.extract" for op in root.body.operations)
    return tuple(found) if moves and not extract else None


def _is_splat(value: ir.Value) -> bool:
    """Every element is the same constant."""
    return is_defined_by(value, "arith.constant")


def _unrolled(root: Structured, accesses: tuple[Access | None, ...], tile: WindowTile, most: int) -> tuple[int, ...]:
    """The innermost reduction loops that are small enough to unroll together, and the elements of groups."""
    chosen: list[int] = []
    steps = 1
    needed = {a.element_loop for a in accesses if isinstance(a, GroupedAccess)}
    for loop in reversed(root.reduction_loops):
        extent = root.extents[loop]
        steps *= extent
        if loop not in needed and (extent == DYNAMIC or steps * tile.accumulators > most):
            break
        chosen.append(loop)
    return tuple(reversed(chosen))

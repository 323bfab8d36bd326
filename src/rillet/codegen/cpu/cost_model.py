"""The cost model that picks register tiles, unrolling and workgroup blocks of contraction-like kernels.

Everything here is a pure function of the problem's extents and the target's data. The unit is the core clock cycle. One
*step* is one k of a register tile: ``vectors`` loads from the rhs, ``rows`` broadcasts from the lhs and ``rows *
vectors`` multiply-adds. Its time is the largest of what the multiply-add ports, the load ports, the multiply-add
latency and, when the rhs panel does not stay in L1, the L2 bandwidth allow, plus a tenth of the others and 0.15 of that
bandwidth's, which never overlap perfectly.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from rillet.codegen.cpu.machine import CpuTarget
from rillet.codegen.emit.blocks import Tile
from rillet.codegen.emit.memory import LINE_BYTES
from rillet.codegen.knobs import Knobs

FMA_LATENCY = 4  # cycles from one multiply-add to the next on the same accumulator
LOAD_PORTS = 2  # vector loads a cycle
ISSUE_WIDTH = 6  # instructions a cycle
L2_BYTES_PER_CYCLE = 32
OVERLAP_LOSS = 0.1  # share of the other resources' time that does not hide behind the busiest one's
STREAMING_LOSS = 0.15  # that of the time that a panel takes from L2 to L1
TILE_OVERHEAD = 8  # cycles to set a tile's addresses up and leave its loop
SUM_OVERHEAD = 5  # cycles for each sum of a tile beyond those that the multiply-add units need to be busy
GATHER_OVERHEAD = 4  # cycles a row whose address does not follow from its neighbour's
PAIR_CYCLES = 0.62  # to multiply a vector of pairs and add the products to a sum by two instructions
PAIR_CYCLES_IN_ONE = 0.5  # by one
# Rows that compute rhs vectors as they multiply, by one operation or more; more rows share a panel in scratch.
MOST_CONVERTED_ROWS, MOST_COMPUTED_ROWS = 12, 5
FEW_ROWS = 1, 2, 4  # up to so many are done at a time where it is not known before how many there are
SUM_STEPS = 512  # what a part of a long sum of floats is about as long as
DYNAMIC_EXTENT = 128  # what an extent that is unknown at compile time is taken for

SPLIT_CYCLES = 24_000  # a kernel shorter than this is one workgroup
PIECE_CYCLES = 12_000  # what a workgroup of the shortest kernel that is split takes
WORKGROUP_CYCLES = 250_000  # what a workgroup of a long kernel should take
MANY_WORKGROUPS = 100  # there are more only where each takes ...
MANY_CYCLES = 1_000_000  # ... this long
MOST_WORKGROUPS = 4096  # more share the work no better; guessed extents may have a product of any size


@dataclass(frozen=True)
class Blocks:
    """What one workgroup does: this many batches, rows (a multiple of the tile's) and columns (likewise)."""

    batches: int
    rows: int
    columns: int
    rows_outer: bool  # walk row tiles in the outer loop and column tiles in the inner one

    def overruled(self, tile: Tile, m: int, n: int, knobs: Knobs) -> Blocks:
        """The same but for what ``knobs`` say; no larger than what there is."""
        rows, columns = knobs.row_tiles, knobs.column_tiles
        return Blocks(
            self.batches,
            min(rows, math.ceil(m / tile.rows)) * tile.rows if rows else self.rows,
            min(columns, math.ceil(n / tile.columns)) * tile.columns if columns else self.columns,
            self.rows_outer if knobs.rows_outer is None else bool(knobs.rows_outer),
        )


@dataclass(frozen=True)
class Factors:
    """How the factors of products come to the units that multiply them, other than as floats of a packed panel."""

    element_bytes: int = 4  # of an rhs element in memory
    gather: bool = False  # lhs rows have addresses of their own
    spread: bool = False  # lhs elements fill vectors
    apart: bool = False  # rhs rows are no packed panel, so that they share sets of L1
    paired: bool = False  # two steps of 8-bit integers at a time: see ``pair_cycles``
    computed: int = 0  # operations that make an rhs vector of what is loaded


FLOATS = Factors()


# A vector that is computed into a panel takes as long as to read so many from L2.
COMPUTED_READS = 12


def computes_panels(rows: int, operations: int) -> bool:
    """Whether rhs vectors that take so many operations are made once for all rows, in scratch.

    Measured on Zen 3, 768 x 3072: a conversion alone 435 us for 8 rows and in scratch 508, for 12 rows 732 and 692;
    integers of 4 bits with scales and zero points 410 and 417 us for 5 rows, 583 and 461 for 6.
    """
    return rows > (MOST_CONVERTED_ROWS if operations <= 1 else MOST_COMPUTED_ROWS)


def fits(target: CpuTarget, rows: int, vectors: int, factors: Factors = FLOATS) -> bool:
    """Whether accumulators, one step's rhs vectors and the lhs elements under way fit the registers.

    With a single row each rhs vector is used once, as a memory operand, and needs no register of its own.
    Without fused multiply-add products need two, or four to keep up with spread lhs elements. Machines without
    memory operands, if they have registers for it, load a few lhs elements ahead; those that multiply by one lane
    of a register keep a vector of each row. With a single vector each lhs element is used once, and LLVM adds to
    it in its own register, which becomes the sum's: there must be as many again. Pairs of products are multiplied and
    added apart, one under way. Rhs vectors that are computed are in registers, beside a constant.
    """
    if factors.paired:
        product = 0 if target.machine.accumulates_pairs else 1
        return rows * vectors + vectors + 1 + product <= target.machine.tile_registers
    if factors.computed:
        return rows * vectors + vectors + 3 <= target.machine.tile_registers
    cpu = target.machine
    if vectors == 1 and rows > 1 and cpu.fma and not cpu.fma_by_element and 2 * rows > cpu.tile_registers:
        return False
    held = vectors if rows > 1 else 1
    lhs = 1 if target.machine.arch == "x86_64" or target.machine.tile_registers < 32 else 3
    if target.machine.fma_by_element:
        lhs = rows
    product = 0 if target.machine.fma else 4 if factors.spread else 2
    return rows * vectors + held + lhs + product <= target.machine.tile_registers


def step_cycles(target: CpuTarget, tile: Tile, k: int, factors: Factors = FLOATS) -> float:
    """Cycles of one k step of ``tile`` inside a loop of ``k`` steps."""
    operations = 1 if target.machine.fma else 2
    products, made = tile.rows * tile.vectors * operations, factors.computed * tile.vectors
    # There are pipes for other vector instructions beside those that multiply.
    arithmetic = max(products / target.machine.fma_ports, (products + made) / (2 * target.machine.fma_ports))
    rows_read = tile.rows / tile.lanes if target.machine.fma_by_element else tile.rows
    loads = (rows_read + tile.vectors) / LOAD_PORTS
    # What passes between the caches are whole lines, also where neighbouring tiles share them.
    panel_bytes = math.ceil(tile.columns * factors.element_bytes / LINE_BYTES) * LINE_BYTES
    is_streamed = target.machine.l2_bytes and k * panel_bytes > target.machine.l1d_bytes // (8 if factors.apart else 2)
    streamed = panel_bytes / L2_BYTES_PER_CYCLE if is_streamed else 0.0
    # Without fused multiply-add there are no three-operand instructions and no broadcasting loads either (SSE): a
    # product is a copy, a multiplication and an addition, a broadcast a load and a shuffle.
    per_product, per_broadcast = (1, 1) if target.machine.fma else (3, 1 if factors.spread else 2)
    issue = (tile.vectors + made + per_broadcast * rows_read + per_product * tile.rows * tile.vectors) / ISSUE_WIDTH
    terms = (arithmetic, loads, issue, FMA_LATENCY)
    busiest = max(*terms, streamed)
    return (1 - OVERLAP_LOSS) * busiest + OVERLAP_LOSS * sum(terms) + STREAMING_LOSS * streamed


def pair_cycles(target: CpuTarget, tile: Tile, k: int) -> float:
    """Cycles of two k steps of ``tile`` where pairs of 8-bit integers are multiplied, inside a loop of ``k`` steps.

    Constants and shares fit hand-written loops of sixteen tiles on Zen 3 within a tenth: multiplications have two pipes
    and additions four, but about an eighth of the additions take a pipe that a multiplication waits for.
    """
    products = tile.rows * tile.vectors
    cycles, instructions, latency = (PAIR_CYCLES, 2, 1)
    if target.machine.accumulates_pairs:
        cycles, instructions, latency = (PAIR_CYCLES_IN_ONE, 1, FMA_LATENCY)
    issue = (tile.rows + 2 * tile.vectors + instructions * products + 3) / ISSUE_WIDTH
    panel_bytes = 2 * math.ceil(tile.columns / target.packing.columns) * target.packing.columns
    lhs_bytes, half_l1 = 4 * tile.rows, target.machine.l1d_bytes // 2
    streamed = sum(b for b in (panel_bytes, lhs_bytes) if k // 2 * b > half_l1) / L2_BYTES_PER_CYCLE
    unhidden = OVERLAP_LOSS * (tile.vectors + tile.rows / (2 * tile.vectors))  # widening, and broadcasts that few use
    loads = (tile.rows + tile.vectors) / LOAD_PORTS
    busiest = max(cycles * products + unhidden, issue, loads, latency, streamed)
    return busiest + STREAMING_LOSS * streamed


def tile_cycles(target: CpuTarget, tile: Tile, k: int, factors: Factors = FLOATS) -> float:
    """Cycles of one whole tile, address computation and stores included."""
    sums = tile.rows * tile.vectors
    if factors.paired:  # rows are looked for once for all columns
        return math.ceil(k / 2) * pair_cycles(target, tile, k) + TILE_OVERHEAD + sums
    # Few sums are stored while the next tile's multiply-adds begin (measured; in-order cores have no such overlap).
    waiting = 0 if target.machine.in_order else max(0, sums - FMA_LATENCY * target.machine.fma_ports)
    setup = TILE_OVERHEAD + sums + SUM_OVERHEAD * waiting + (GATHER_OVERHEAD * tile.rows if factors.gather else 0)
    return k * step_cycles(target, tile, k, factors) + setup


def grid_cycles(target: CpuTarget, tile: Tile, m: int, n: int, k: int, factors: Factors = FLOATS) -> float:
    """Cycles of an ``m`` x ``n`` x ``k`` contraction tiled by ``tile``, with smaller tiles at the ends of rows and
    columns.
    """
    full_rows, tail_rows = divmod(m, tile.rows)
    full_columns, tail_columns = divmod(n, tile.columns)
    row_parts = [(full_rows, tile.rows), (1, tail_rows)]
    column_parts = [(full_columns, tile.vectors), (1, math.ceil(tail_columns / tile.lanes))]
    return sum(
        row_count * column_count * tile_cycles(target, Tile(rows, vectors, tile.lanes), k, factors)
        for row_count, rows in row_parts
        for column_count, vectors in column_parts
        if row_count and rows and column_count and vectors
    )


def choose_tile(
    target: CpuTarget,
    m: int,
    n: int,
    k: int,
    factors: Factors = FLOATS,
    *,
    accumulator_bytes: int = 4,
) -> Tile:
    """The register tile with the lowest modelled time for an ``m`` x ``n`` x ``k`` contraction.

    Every distinct tile at the ends of rows or columns is another copy of the inner loop, so among tiles within 2 % of
    the best the one with the fewest copies wins, then the largest, then the narrowest.
    """
    lanes = target.machine.lanes(8 * accumulator_bytes)
    candidates = [
        Tile(rows, vectors, lanes)
        for rows in range(1, min(m, target.machine.tile_registers) + 1)
        for vectors in range(1, min(math.ceil(n / lanes), 8) + 1)
        if not factors.paired or vectors * lanes >= n or _shares_no_panel(target, vectors * lanes)
        if fits(target, rows, vectors, factors)
    ]
    cost = {tile: grid_cycles(target, tile, m, n, k, factors) for tile in candidates}
    bound = 1.02 * min(cost.values())
    return min(
        (tile for tile in candidates if cost[tile] <= bound),
        key=lambda t: (copies(t, m, n), -t.rows * t.vectors, cost[t], t.vectors),
    )


def _shares_no_panel(target: CpuTarget, columns: int) -> bool:
    """Whether tiles begin and end with packed panels, or with equal parts of one."""
    return columns % target.packing.columns == 0 or target.packing.columns % columns == 0


def copies(tile: Tile, m: int, n: int) -> int:
    """How many differently shaped tiles an ``m`` x ``n`` output needs."""
    rows = (m >= tile.rows) + (m % tile.rows > 0)
    columns = (n >= tile.columns) + (n % tile.columns > 0)
    return rows * columns


def choose_unroll(trip: int | None, tile: Tile, run: int = 0, few: bool = False) -> int:
    """How many k steps one iteration of the inner loop does; divides ``trip`` when that is known and possible.

    A few dozen multiply-adds an iteration hide the loop's own instructions; more only cost compile time and code size.
    Where the lhs is read in runs of ``run`` elements, it is one run or two. With ``few`` registers there is
    half of it: LLVM loads and multiplies the factors of all steps first.
    """
    if run and (trip is None or trip >= run):
        return run if tile.rows * tile.vectors * run > 24 else 2 * run
    wanted = max(1, min(8, round((12 if few else 24) / (tile.rows * tile.vectors))))
    if trip is None:
        return wanted
    if trip <= 2 * wanted:
        return max(trip, 1)
    divisors = [u for u in range(wanted, 2 * wanted + 1) if trip % u == 0]
    if divisors:
        return divisors[0]
    return next(u for u in range(wanted, 0, -1) if trip % u == 0 or u == 1 or trip >= 4 * u)


def choose_chains(target: CpuTarget, sums: int) -> int:
    """How many sums take turns for each of a tile's ``sums`` where rhs vectors are computed for each step.

    Making a vector takes the pipes long enough for half of the sums that the multiply-add units need to be busy
    (measured, 4096 x 4096 of 4 bits, two sums: 1.21 ms, in turns with two more 1.10, with six more 1.17).
    """
    return 1 if target.machine.in_order else max(1, FMA_LATENCY * target.machine.fma_ports // 2 // sums)


def choose_sum_part(extents: Sequence[int | None], wanted: int = SUM_STEPS) -> int:
    """How many iterations of the outermost of a reduction's loops one part of a long sum of floats takes; 0 where the
    sum is short, or where an inner loop is to be cut instead. ``extents`` from the outside in, None where not known.

    The error of a running sum grows with its length (Higham, Accuracy and Stability of Numerical Algorithms, chapter
    4), that of a sum of parts with the length of a part plus their number. Parts are equal, of up to one and a half
    times ``wanted``.
    """
    first, *inner = extents
    steps = 1
    for extent in inner:
        if extent is None:
            return 0
        steps *= max(extent, 1)
    if 2 * steps > 3 * wanted:
        return 0
    if first is None:
        return math.ceil(wanted / steps)
    parts = max(1, math.ceil(first * steps / wanted - 0.5))
    return math.ceil(first / parts) if parts > 1 else 0


def choose_blocks(
    target: CpuTarget,
    tile: Tile,
    *,
    batches: int,
    m: int,
    n: int,
    k: int,
    lhs_bytes: int,
    rhs_bytes: int,
    factors: Factors = FLOATS,
    panels: bool = True,
    residual: bool = False,
) -> Blocks:
    """How a contraction is split over workgroups.

    ``lhs_bytes`` and ``rhs_bytes`` are the operands' sizes for one batch, ``panels``: the rhs is packed;
    ``residual``: the epilogue reads a large tensor. Batches are split first; then the rows x columns grid that is even
    and reads little: every row block reads the whole rhs, every column block the whole lhs.
    """
    cycles = batches * grid_cycles(target, tile, m, n, k, factors)
    wanted = workgroups(target, cycles)
    batch_blocks = min(batches, wanted)
    wanted = math.ceil(wanted / batch_blocks)
    row_tiles, column_tiles = math.ceil(m / tile.rows), math.ceil(n / tile.columns)
    best = (math.inf, 1, 1)
    for row_blocks in range(1, min(row_tiles, wanted) + 1):
        column_blocks = min(column_tiles, math.ceil(wanted / row_blocks))
        largest = math.ceil(row_tiles / row_blocks) * math.ceil(column_tiles / column_blocks)
        count = math.ceil(row_tiles / math.ceil(row_tiles / row_blocks)) * math.ceil(
            column_tiles / math.ceil(column_tiles / column_blocks)
        )
        # Two workers: with an odd count one waits for the other's last block, else for the difference of their sizes.
        total = row_tiles * column_tiles
        idle = 1 + (largest if count % 2 else 2 * (largest - total / count)) / total
        traffic = row_blocks * rhs_bytes + column_blocks * lhs_bytes
        time = cycles * idle * max(1.0, wanted / count) ** 0.5 + batches * traffic / L2_BYTES_PER_CYCLE
        best = min(best, (time, row_blocks, column_blocks))
    _, row_blocks, column_blocks = best
    rows = math.ceil(row_tiles / row_blocks) * tile.rows
    columns = math.ceil(column_tiles / column_blocks) * tile.columns
    lhs_block = lhs_bytes * min(rows, m) // max(m, 1)
    rhs_block = rhs_bytes * min(columns, n) // max(n, 1)
    # All row tiles pass a panel that does not stay in L1 while it is in L2, wherever they come from themselves. Columns
    # that are not packed lie too far apart for that.
    passed_from_l2 = panels and target.machine.l2_bytes > 0
    rows_outer = rhs_block <= target.machine.l1d_bytes // 2 or (
        not passed_from_l2 and lhs_block > 3 * target.machine.l2_bytes // 4
    )
    # Column tiles that share cache lines follow each other where those come from far away and the columns are in L2.
    rows_outer |= (
        residual and tile.columns * factors.element_bytes % LINE_BYTES > 0 and rhs_block <= target.machine.l2_bytes // 4
    )
    return Blocks(math.ceil(batches / batch_blocks), rows, columns, rows_outer)


def prefetches(target: CpuTarget, size: int) -> bool:
    """Whether to fetch an operand of ``size`` bytes before it is read: more than half of L2 comes from L3 or memory.

    The panels of an rhs come only as fast as the first row tile uses them: 64 bytes in 6 cycles of AVX2,
    more than memory gives, which the other row tiles leave idle. What an epilogue reads comes when nothing else is left
    to do.
    """
    return 0 < target.machine.l2_bytes // 2 < size


def workgroups(target: CpuTarget, cycles: float) -> int:
    """How many workgroups that much work is worth: one, or a power of two as long as there are few, so that workers
    share them evenly. Twice as many for four times the work, as a thread that comes late costs half a workgroup.
    """
    if cycles < SPLIT_CYCLES or not target.deployment.threads:
        return 1
    linear = max(min(cycles / WORKGROUP_CYCLES, MANY_WORKGROUPS), cycles / MANY_CYCLES)
    count = max(2.0, min(math.sqrt(cycles / PIECE_CYCLES), MANY_WORKGROUPS), linear)
    return min(round(count), MOST_WORKGROUPS) if count > 24 else 2 ** round(math.log2(count))


def choose_reduction_block(
    target: CpuTarget, first: int, inner: int, tile: Tile, element_bytes: int, computed: bool = False
) -> int:
    """How many iterations of the first reduction axis (``first`` of them; negative when unknown) a packed panel covers.

    ``inner`` steps belong to each iteration. The panel takes at most half of L2 or, where it is computed, as much as L1
    has: to write it costs more than its sums (measured, 128 x 4096 x 4096: 47 ms, with panels in L2 54). 0 when all of
    them fit.
    """
    cache = target.machine.l1d_bytes if computed and target.machine.l1d_bytes else target.machine.l2_bytes // 2
    room = max(1, cache // (inner * tile.columns * element_bytes))
    if 0 <= first <= room:
        return 0
    return min(room, max(1, 512 // inner)) if first < 0 else math.ceil(first / math.ceil(first / room))


# --- spread rows: a part of the reduction at a time, sums of a block of results in scratch ----------------------------

SPREAD_ROWS, SPREAD_COLUMNS = 4, 32  # fewer do not repay the copy of the lhs
SPREAD_INNER = 8192  # steps for each of the outermost reduction axis's; more take too much scratch
MOST_SUMS_BYTES = 1 << 20  # of a block's sums in scratch
SPREAD_STEPS = 256  # of the reduction: the rhs panel of a tile and the lhs rows, spread, stay in L1


def spreads(target: CpuTarget, m: int, n: int, inner: int) -> bool:
    """Whether to copy lhs elements into all lanes of a vector before they are used, at least ``inner`` of a row.

    Where no instruction broadcasts what it loads, each use would cost a shuffle, and shuffles compete with
    multiplications for their ports.
    """
    worthwhile = m >= SPREAD_ROWS and n >= SPREAD_COLUMNS and inner <= SPREAD_INNER
    return worthwhile and target.machine.vector_bits > 0 and not target.machine.broadcast_loads


def choose_spread_blocks(
    target: CpuTarget, tile: Tile, m: int, n: int, first: int, inner: int, *, accumulator_bytes: int
) -> tuple[int, Blocks]:
    """How many iterations of the first reduction axis (``inner`` steps each) are done at a time, 0 for all, and what
    one workgroup does, where row tiles are spread.

    The rhs columns, which each row tile passes, take half of L2 and the sums a quarter.
    """
    parts = math.ceil(first / max(1, SPREAD_STEPS // inner))
    block = math.ceil(first / parts)
    columns = _even(n, tile.columns, target.machine.l2_bytes // 2 // accumulator_bytes // (block * inner))
    rows = _even(m, tile.rows, target.machine.l2_bytes // 4 // accumulator_bytes // columns)
    return block if parts > 1 else 0, Blocks(1, rows, columns, False)


def _even(total: int, multiple: int, limit: int) -> int:
    """A multiple near ``limit`` that cuts ``total`` into blocks of nearly the same size."""
    most = max(1, limit // multiple)
    units = math.ceil(total / multiple)
    return math.ceil(units / math.ceil(units / most)) * multiple

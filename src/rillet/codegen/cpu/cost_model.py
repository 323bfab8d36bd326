"""The cost model that picks register tiles, unrolling and workgroup blocks of contraction-like kernels.

Everything here is a pure function of the problem's extents and the target's data. The unit is the core clock cycle. One
*step* is one k of a register tile: ``vectors`` loads from the rhs, ``rows`` broadcasts from the lhs and ``rows *
vectors`` multiply-adds. Four resources limit a step: the multiply-add ports, the load ports, the multiply-add latency
and, when the rhs panel does not stay in L1, the L2 bandwidth. A step's time is the largest of their times, plus a tenth
of the other ones and 0.15 of the bandwidth's, since they never overlap perfectly.
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
STREAMING_LOSS = 0.15  # the same share of the time that a panel takes from L2 to L1
TILE_OVERHEAD = 8  # cycles to set up a tile's addresses and leave its loop
SUM_OVERHEAD = 5  # cycles for each of a tile's sums beyond the number that keeps the multiply-add units busy
GATHER_OVERHEAD = 4  # cycles for each row whose address does not follow from its neighbour's
PAIR_CYCLES = 0.62  # to multiply a vector of pairs and add the products to a sum with two instructions
PAIR_CYCLES_IN_ONE = 0.5  # the same with one instruction
# The most rows that compute rhs vectors as they multiply: by an extending load, by one more operation, by several. More
# rows share a panel.
MOST_EXTENDED_ROWS, MOST_CONVERTED_ROWS, MOST_COMPUTED_ROWS = 40, 12, 5
COLUMN_GROUP = 12  # vectors that parts of any number of rows take together; tiles of 1, 2, 3, 4 and 6 vectors fill it
SMALL_COLUMN_GROUP = 4  # the same where so many columns would take more than half of L2
FEW_ROWS = 16  # numbers of rows up to this one count equally where the number of rows is unknown ...
MANY_ROWS = 120  # ... and together as much as this one
SUM_STEPS = 512  # about the number of terms in a part of a long sum of floats
DYNAMIC_EXTENT = 128  # stands for an extent that is unknown at compile time

SPLIT_CYCLES = 24_000  # a kernel shorter than this is one workgroup
PIECE_CYCLES = 12_000  # the work of a workgroup in the shortest kernel that is split
WORKGROUP_CYCLES = 250_000  # the work that a workgroup of a long kernel should have
MANY_WORKGROUPS = 100  # more only where each takes ...
MANY_CYCLES = 1_000_000  # ... this long
MOST_WORKGROUPS = 4096  # more do not share the work any better; guessed extents may have a product of any size


@dataclass(frozen=True)
class Blocks:
    """The work of one workgroup: batches, rows and columns, in multiples of the tile's rows and columns."""

    batches: int
    rows: int
    columns: int
    rows_outer: bool  # walk row tiles in the outer loop and column tiles in the inner one

    def overruled(self, tile: Tile, m: int, n: int, knobs: Knobs) -> Blocks:
        """The blocks with the choices in ``knobs``, limited by the number of rows and columns."""
        rows, columns = knobs.row_tiles, knobs.column_tiles
        return Blocks(
            self.batches,
            min(rows, math.ceil(m / tile.rows)) * tile.rows if rows else self.rows,
            min(columns, math.ceil(n / tile.columns)) * tile.columns if columns else self.columns,
            self.rows_outer if knobs.rows_outer is None else bool(knobs.rows_outer),
        )


@dataclass(frozen=True)
class Factors:
    """How factors reach the multiply-add units, where they are not floats from a packed panel."""

    element_bytes: int = 4  # of an rhs element in memory
    gather: bool = False  # lhs rows have addresses of their own
    spread: bool = False  # lhs elements fill vectors
    apart: bool = False  # rhs rows are no packed panel, so they compete for sets of L1
    paired: bool = False  # two steps of 8-bit integers at a time: see ``pair_cycles``
    computed: int = 0  # operations that compute an rhs vector from loaded ones


FLOATS = Factors()


# To compute a vector into a panel takes as long as to read this many from L2.
COMPUTED_READS = 12


def computes_panels(rows: int, operations: int) -> bool:
    """Whether rhs vectors that take ``operations`` operations are made once for all ``rows`` rows, in scratch.

    Measured on Zen 3, 768 x 3072, in us as they are multiplied and from scratch. A conversion alone: 435 and 508 for 8
    rows, 732 and 692 for 12. Integers of 4 bits with scales and zero points: 410 and 417 for 5 rows, 583 and 461 for 6.
    Half floats on Zen 2, 512 x 512: 119 and 129 for 16 rows, 225 and 241 for 32, 399 and 382 for 64.
    """
    return rows > most_computed_rows(operations)


def most_computed_rows(operations: int) -> int:
    """The most rows for which rhs vectors are computed as they are multiplied."""
    return (MOST_EXTENDED_ROWS, MOST_CONVERTED_ROWS, MOST_COMPUTED_ROWS)[min(operations, 2)]


def fits(target: CpuTarget, rows: int, vectors: int, factors: Factors = FLOATS) -> bool:
    """Whether accumulators, one step's rhs vectors and the lhs elements under way fit the registers.

    - With a single row each rhs vector is used once, as a memory operand, and needs no register of its own.
    - Without fused multiply-add, products need two registers, or four to keep up with spread lhs elements.
    - Machines without memory operands load a few lhs elements ahead, if they have registers for it. Machines that
      multiply by one lane of a register keep a vector of each row.
    - With a single vector each lhs element is used once. LLVM adds to it in its own register, which becomes the sum's,
      so the sums need twice their registers.
    - Pairs of products are multiplied and added apart, with one product under way.
    - Rhs vectors that are computed are in registers, beside a constant.
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
    # Other vector instructions have pipes beside those that multiply.
    arithmetic = max(products / target.machine.fma_ports, (products + made) / (2 * target.machine.fma_ports))
    rows_read = tile.rows / tile.lanes if target.machine.fma_by_element else tile.rows
    loads = (rows_read + tile.vectors) / LOAD_PORTS
    # Whole lines pass between the caches, even where neighbouring tiles share them.
    panel_bytes = math.ceil(tile.columns * factors.element_bytes / LINE_BYTES) * LINE_BYTES
    is_streamed = target.machine.l2_bytes and k * panel_bytes > target.machine.l1d_bytes // (8 if factors.apart else 2)
    streamed = panel_bytes / L2_BYTES_PER_CYCLE if is_streamed else 0.0
    # Without fused multiply-add, there are no three-operand instructions and no broadcasting loads either (SSE). A
    # product takes a copy, a multiplication and an addition; a broadcast takes a load and a shuffle.
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
    if factors.paired:  # rows are looked up once for all columns
        return math.ceil(k / 2) * pair_cycles(target, tile, k) + TILE_OVERHEAD + sums
    # The next tile's multiply-adds begin while a few sums are still being stored (measured); in-order cores have no
    # such overlap.
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
    return _cheapest(target, candidates, m, n, k, factors)


def _cheapest(target: CpuTarget, candidates: Sequence[Tile], m: int, n: int, k: int, factors: Factors) -> Tile:
    cost = {tile: grid_cycles(target, tile, m, n, k, factors) for tile in candidates}
    bound = 1.02 * min(cost.values())
    return min(
        (tile for tile in candidates if cost[tile] <= bound),
        key=lambda t: (copies(t, m, n), -t.rows * t.vectors, cost[t], t.vectors),
    )


def choose_row_tiles(
    target: CpuTarget, n: int, k: int, factors: Factors = FLOATS, *, accumulator_bytes: int = 4
) -> tuple[Tile, ...]:
    """The register tile for each number of rows from 1 on, where only run time tells how many rows there are. Rows go
    in parts as even as may be, with as many rows as there are tiles or fewer.

    Few rows take more columns, since a tile needs several sums in flight. All tiles fill a group of columns, which the
    rows pass one part after another.
    """
    lanes = target.machine.lanes(8 * accumulator_bytes)
    tiles: list[Tile] = []
    for rows in range(1, target.machine.tile_registers + 1):
        candidates = [
            tile
            for vectors in range(1, min(math.ceil(n / lanes), 8) + 1)
            if fits(target, rows, vectors, factors)
            if _fills_group(target, tile := Tile(rows, vectors, lanes), n, k, factors)
        ]
        if not candidates:
            break
        tiles.append(_cheapest(target, candidates, rows, n, k, factors))
    cycles = [grid_cycles(target, tile, tile.rows, n, k, factors) for tile in tiles]
    few = [min(_parts_cycles(cycles, most, m) for most in range(1, len(tiles) + 1)) for m in range(1, FEW_ROWS + 1)]
    many = min(_parts_cycles(cycles, most, MANY_ROWS) for most in range(1, len(tiles) + 1))

    def loss(most: int) -> float:
        of_few = sum(_parts_cycles(cycles, most, m) / best for m, best in enumerate(few, 1)) / FEW_ROWS
        return of_few + _parts_cycles(cycles, most, MANY_ROWS) / many

    losses = [loss(most) for most in range(1, len(tiles) + 1)]
    return tuple(tiles[: next(n for n, one in enumerate(losses, 1) if one <= 1.01 * min(losses))])


def _fills_group(target: CpuTarget, tile: Tile, n: int, k: int, factors: Factors) -> bool:
    """Whether tiles of so many vectors fill the columns that parts take together."""
    if factors.paired and tile.columns < n and not _shares_no_panel(target, tile.columns):
        return False
    if math.ceil(n / tile.lanes) <= COLUMN_GROUP:
        return True
    is_large = COLUMN_GROUP * tile.lanes * k * factors.element_bytes > target.machine.l2_bytes // 2 > 0
    return (SMALL_COLUMN_GROUP if is_large else COLUMN_GROUP) % tile.vectors == 0


def columns_together(tiles: Sequence[Tile], n: int) -> int:
    """The columns that parts of rows with these tiles take together, one part after another; 0 where the tiles fill no
    common group of ``n`` columns."""
    lanes, vectors = tiles[0].lanes, math.lcm(*(tile.vectors for tile in tiles))
    if math.ceil(n / lanes) <= COLUMN_GROUP:
        return math.ceil(n / lanes) * lanes
    return vectors * lanes if vectors <= COLUMN_GROUP else 0


def _parts_cycles(cycles: Sequence[float], most: int, m: int) -> float:
    """Cycles of ``m`` rows in even parts of at most ``most`` rows, where parts of n rows take ``cycles[n - 1]``."""
    parts = math.ceil(m / most)
    shorter, longer_parts = divmod(m, parts)
    return (parts - longer_parts) * cycles[shorter - 1] + (longer_parts and longer_parts * cycles[shorter])


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

    A few dozen multiply-adds in an iteration hide the loop's own instructions; more only cost compile time and code
    size. Where the lhs is read in runs of ``run`` elements, an iteration has one run or two. With ``few`` registers it
    has half as many steps: LLVM loads, extends and multiplies the factors of all steps first.
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
    """The number of sums that take turns for each of a tile's ``sums``, where rhs vectors are computed for each step.

    Computing a vector takes the pipes so long that half of the sums that the multiply-add units need keep them busy
    (measured, 4096 x 4096 of 4 bits: two sums take 1.21 ms, in turns with two more 1.10, with six more 1.17).
    """
    return 1 if target.machine.in_order else max(1, FMA_LATENCY * target.machine.fma_ports // 2 // sums)


def choose_sum_part(extents: Sequence[int | None], wanted: int = SUM_STEPS) -> int:
    """How many iterations of the outermost reduction loop one part of a long sum of floats takes. 0 where the sum is
    short, or where an inner loop is to be cut instead. ``extents``: of the reduction loops, outermost first; None where
    unknown.

    The error of a running sum grows with its length (Higham, Accuracy and Stability of Numerical Algorithms, chapter
    4). The error of a sum of parts grows with the length of a part plus the number of parts. Parts are equal and have
    at most one and a half times ``wanted`` terms.
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

    ``lhs_bytes`` and ``rhs_bytes``: the operands' sizes for one batch; ``panels``: the rhs is packed; ``residual``: the
    epilogue reads a large tensor. Batches are split first. Then comes the grid of rows x columns that is even and reads
    little: every row block reads the whole rhs, every column block the whole lhs.
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
    # All row tiles pass a panel too large for L1 while it is in L2, wherever the rows come from. Columns that are not
    # packed lie too far apart for that.
    passed_from_l2 = panels and target.machine.l2_bytes > 0
    rows_outer = rhs_block <= target.machine.l1d_bytes // 2 or (
        not passed_from_l2 and lhs_block > 3 * target.machine.l2_bytes // 4
    )
    # Column tiles that share cache lines follow each other, where those lines come from far away and the columns are in
    # L2.
    rows_outer |= (
        residual and tile.columns * factors.element_bytes % LINE_BYTES > 0 and rhs_block <= target.machine.l2_bytes // 4
    )
    return Blocks(math.ceil(batches / batch_blocks), rows, columns, rows_outer)


def prefetches(target: CpuTarget, size: int) -> bool:
    """Whether to fetch an operand of ``size`` bytes before it is read: one larger than half of L2 comes from L3 or
    memory.

    The panels of an rhs arrive only as fast as the first row tile uses them: 64 bytes in 6 cycles of AVX2. That is more
    than memory delivers, and the other row tiles leave memory idle. An epilogue's operands would arrive when nothing
    else is left to do.
    """
    return 0 < target.machine.l2_bytes // 2 < size


def workgroups(target: CpuTarget, cycles: float) -> int:
    """How many workgroups a kernel of ``cycles`` cycles is worth: one, or while there are few a power of two, which
    workers share evenly. Four times the work gives twice the workgroups, since a thread that comes late costs half a
    workgroup."""
    if cycles < SPLIT_CYCLES or not target.deployment.threads:
        return 1
    linear = max(min(cycles / WORKGROUP_CYCLES, MANY_WORKGROUPS), cycles / MANY_CYCLES)
    count = max(2.0, min(math.sqrt(cycles / PIECE_CYCLES), MANY_WORKGROUPS), linear)
    return min(round(count), MOST_WORKGROUPS) if count > 24 else 2 ** round(math.log2(count))


def choose_reduction_block(
    target: CpuTarget, first: int, inner: int, tile: Tile, element_bytes: int, computed: bool = False
) -> int:
    """How many iterations of the first reduction axis a packed panel covers; 0 when all of them fit. ``first``: the
    axis's extent, negative when unknown; ``inner``: the steps of each iteration.

    The panel takes at most half of L2. A computed panel takes at most the size of L1: writing it costs more than its
    sums (measured, 128 x 4096 x 4096: 47 ms, with panels in L2 54).
    """
    cache = target.machine.l1d_bytes if computed and target.machine.l1d_bytes else target.machine.l2_bytes // 2
    room = max(1, cache // (inner * tile.columns * element_bytes))
    if 0 <= first <= room:
        return 0
    return min(room, max(1, 512 // inner)) if first < 0 else math.ceil(first / math.ceil(first / room))


# --- spread rows: a part of the reduction at a time, sums of a block of results in scratch ----------------------------

SPREAD_ROWS, SPREAD_COLUMNS = 4, 32  # smaller ones do not repay the copy of the lhs
SPREAD_INNER = 8192  # steps for each iteration of the outermost reduction axis; more take too much scratch
MOST_SUMS_BYTES = 1 << 20  # of a block's sums in scratch
SPREAD_STEPS = 256  # of the reduction: the rhs panel of a tile and the lhs rows, spread, stay in L1


def spreads(target: CpuTarget, m: int, n: int, inner: int) -> bool:
    """Whether to copy lhs elements, ``inner`` or more of a row, into all lanes of a vector before they are used.

    Where no instruction broadcasts what it loads, each use would cost a shuffle, and shuffles compete with
    multiplications for their ports.
    """
    worthwhile = m >= SPREAD_ROWS and n >= SPREAD_COLUMNS and inner <= SPREAD_INNER
    return worthwhile and target.machine.vector_bits > 0 and not target.machine.broadcast_loads


def choose_spread_blocks(
    target: CpuTarget, tile: Tile, m: int, n: int, first: int, inner: int, *, accumulator_bytes: int
) -> tuple[int, Blocks]:
    """The iterations of the first reduction axis done at a time (``inner`` steps each, 0 for all), and the blocks of a
    workgroup, where row tiles are spread.

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

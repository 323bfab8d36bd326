"""The cost model of windowed kernels: register tiles, and the work of one workgroup.

A *line* holds the neighbouring positions of one axis of the result (an image line). Its *rows* are those positions; its
columns are the vectorized axis. A tile takes several lines, rows and vectors of columns: neighbouring lines and rows
share what they read. The unit is the core clock cycle, as in ``cpu.cost_model``.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from rillet.codegen.cpu.cost_model import FMA_LATENCY, L2_BYTES_PER_CYCLE, LOAD_PORTS, workgroups
from rillet.codegen.cpu.machine import CpuTarget
from rillet.codegen.emit.blocks import Tile
from rillet.codegen.emit.memory import LINE_BYTES
from rillet.codegen.knobs import Knobs

UNROLLED_OPERATIONS = 144
SMALL_UNROLLED_OPERATIONS = 96  # the same where code must be small
ACCUMULATORS = 8  # enough to hide the latency of any accumulating op on two ports
MOST_ACCUMULATORS = 14
MOST_LINES = 4
CONVERTED_ACCUMULATORS = 5  # where code must be small, and factors are computed from loaded elements
CONVERTED_CYCLES = 2  # to load an element and to convert it, one after the other
CONVERTED_REGISTERS = 3  # of such factors on one line of the window
SPREAD_REGISTERS = 4  # of operands spread over lanes, and of their sources
# The following constants were fitted to 3x3 windows on Zen 3 (docs/decisions/0011-windows.md).
TILE_CYCLES = 2  # to advance addresses and leave the innermost loop
LINE_CYCLES = 0.6  # for each line that a tile reads: another address, another stream for the prefetcher
STORE_CYCLES = 1  # for each result
RELOAD_CYCLES = 0.45  # of a value that went through the stack, in addition to its load
REORDERED = 256  # instructions that an out-of-order core looks ahead; chains of sums within them run side by side
# The shares of the time for reading vectors from L2 that arithmetic does not hide: vectors that no tile read before,
# and vectors that L1 has lost since.
EXPOSED_NEW, EXPOSED_AGAIN = 0.65, 0.7
L1_WAYS = 8
CONFLICT_CYCLES = 2.5  # for each line that L1's sets lose before the next tile takes the rest of it
BEYOND_L2_BYTES_PER_CYCLE = 17
OVERLAP_CYCLES = 0.1  # the share of the shorter one of arithmetic and memory beyond L2 that is not hidden
STREAM_CYCLES = 14  # until a core's prefetchers follow another stream of reads from beyond L2
COPIES_MARGIN = 1.03  # how much slower a tile may be that needs fewer copies of the loop
SIZE_MARGIN = 1.01  # the same for a smaller tile


@dataclass(frozen=True)
class WindowTile(Tile):
    """A register tile of ``lines`` x ``rows`` x ``vectors`` accumulators of ``lanes`` elements."""

    lines: int = 1

    @property
    def accumulators(self) -> int:
        """Vector registers that hold sums."""
        return self.lines * self.rows * self.vectors


@dataclass(frozen=True)
class Reach:
    """The positions of an operand that neighbouring results read along one axis: ``offsets`` for each result, ``step``
    from one result to the next."""

    step: int
    offsets: tuple[int, ...]

    def positions(self, results: int) -> int:
        """The number of different positions that ``results`` neighbouring results read."""
        return len(_readers(self.step, self.offsets, results))

    def further(self, results: int) -> int:
        """The number of these positions that the results before them did not read."""
        return self.positions(2 * results) - self.positions(results)

    def readers(self, results: int) -> int:
        """The most results that read one position."""
        return max(_readers(self.step, self.offsets, results).values())


@functools.lru_cache(maxsize=1024)
def _readers(step: int, offsets: tuple[int, ...], results: int) -> Counter[int]:
    """How many of ``results`` neighbouring results read each position."""
    return Counter(step * n + offset for n in range(results) for offset in offsets)


@dataclass(frozen=True)
class Operand:
    """The elements that a windowed reduction reads along lines and along rows; ``others``: how often elsewhere."""

    lines: Reach
    rows: Reach
    others: int
    element_bytes: int
    spread: bool = False  # its elements are spread over lanes in registers before they are used

    @property
    def moves(self) -> bool:
        """Whether results at different places read different elements; weights are the same for all results."""
        return bool(self.lines.step or self.rows.step)

    def elements(self, lines: int, rows: int) -> int:
        """The number of different elements in each column that these lines and rows of results read."""
        return self.lines.positions(lines) * self.rows.positions(rows) * self.others


@dataclass(frozen=True)
class Window:
    """A windowed reduction: the result's extents (``outer`` blocks of lines, rows and columns), the steps for each
    result, and the operands that are read from memory."""

    outer: int
    lines: int
    rows: int
    columns: int
    steps: int
    operands: tuple[Operand, ...]
    converts: bool = False  # factors are computed from loaded elements, and stay in registers where results share them

    def bytes(self, lines: int, rows: int) -> int:
        """Bytes that these lines and rows of results read, over all columns."""
        return sum(operand.elements(lines, rows) * operand.element_bytes for operand in self.operands) * self.columns


@dataclass(frozen=True)
class WindowBlocks:
    """The work of one workgroup: positions of the outer loops (tiles of lines among them) and columns."""

    outer: int
    columns: int

    def overruled(self, tile: Tile, knobs: Knobs) -> WindowBlocks:
        """The blocks with the choices in ``knobs``; here ``row_tiles`` counts positions of the outer loops."""
        columns = knobs.column_tiles * tile.columns if knobs.column_tiles else self.columns
        return WindowBlocks(knobs.row_tiles or self.outer, columns)


def unrolled_operations(target: CpuTarget) -> int:
    """The most steps of a window, for all results of a tile, that are written out."""
    return UNROLLED_OPERATIONS if target.machine.l2_bytes else SMALL_UNROLLED_OPERATIONS


def tile_cycles(target: CpuTarget, window: Window, tile: WindowTile) -> float:
    """Cycles of one tile: the core's, or those of memory beyond L2, whichever are more."""
    arithmetic = window.steps * tile.accumulators * (1 if target.machine.fma else 2) / target.machine.fma_ports
    reloads = _reloads(target, window, tile)
    read = sum(operand.elements(tile.lines, tile.rows) for operand in window.operands) * tile.vectors
    loads = (read + reloads) / LOAD_PORTS
    busy = max(arithmetic, loads, _chain_cycles(target, window, tile, read + reloads)) + RELOAD_CYCLES * reloads
    if window.converts:
        busy = arithmetic + CONVERTED_CYCLES * read
    waiting = _exposed(target, window, tile) * _vector_bytes(target) / L2_BYTES_PER_CYCLE
    lines = sum(operand.lines.positions(tile.lines) for operand in window.operands if operand.moves)
    waiting += CONFLICT_CYCLES * _conflicts(target, window, tile)
    core = busy + waiting + TILE_CYCLES + LINE_CYCLES * lines + STORE_CYCLES * tile.accumulators
    memory = _beyond_l2_cycles(target, window, tile)
    return max(core, memory) + OVERLAP_CYCLES * min(core, memory)


def _vector_bytes(target: CpuTarget) -> int:
    return max(1, target.machine.vector_bits // 8)


def _chain_cycles(target: CpuTarget, window: Window, tile: WindowTile, loads: float) -> float:
    """Cycles that a tile waits for the sums of one result. The chains of one tile run side by side; on an out-of-order
    core those of the next tiles do too."""
    instructions = window.steps * tile.accumulators + loads
    tiles = 1 + (REORDERED / instructions if target.machine.l2_bytes else 0)
    return FMA_LATENCY * window.steps / tiles


def _beyond_l2_cycles(target: CpuTarget, window: Window, tile: WindowTile) -> float:
    """Cycles that memory beyond L2 takes for a tile's writes and first reads; 0 where L2 holds what is read.

    Neighbouring positions of a line form one stream for a prefetcher only across tiles. The first new position goes on
    where the tile before ended. Each of the others begins a stream, of all columns.
    """
    if not target.machine.l2_bytes or window.bytes(window.lines, window.rows) <= target.machine.l2_bytes:
        return 0.0
    moving = [operand for operand in window.operands if operand.moves]
    new = sum(o.lines.further(tile.lines) * o.rows.further(tile.rows) * o.others for o in moving) * tile.vectors
    streams = sum(o.lines.further(tile.lines) * max(0, o.rows.further(tile.rows) - 1) * o.others for o in moving)
    moved = (new + tile.accumulators) * _vector_bytes(target) / BEYOND_L2_BYTES_PER_CYCLE
    return moved + STREAM_CYCLES * streams * tile.columns / window.columns


def _reloads(target: CpuTarget, window: Window, tile: WindowTile) -> float:
    """Weights that a tile loads again: they do not stay in registers beside the sums while lines share them.

    One register holds what was read. Without fused multiply-add, three more hold products under way. Without
    multiply-adds that read memory, three more hold what is read ahead.
    """
    weights = sum(not operand.moves for operand in window.operands) * window.steps * tile.vectors
    image = next((operand for operand in window.operands if operand.moves), None)
    if not weights or image is None:
        return 0.0
    live = weights * image.lines.readers(tile.lines) / len(image.lines.offsets)
    spare = 1 if target.machine.fma and target.machine.arch == "x86_64" else 4
    free = target.machine.tile_registers - tile.accumulators - spare
    return max(0.0, 1 - free / live) * weights * tile.lines


def _exposed(target: CpuTarget, window: Window, tile: WindowTile) -> float:
    """Vectors that a tile gets from L2, each weighted with the share of its time that is not hidden.

    Tiles follow each other along the columns first, then along the rows. Elements that tiles read over all columns stay
    in L1 for the next tiles along the rows, if L1 holds them together with the weights. Elements shared with the line
    of tiles before are still in L1 if L1 holds a whole line of tiles.
    """
    if window.bytes(window.lines, window.rows) <= target.machine.l1d_bytes // 2:
        return 0.0
    stays = window.bytes(tile.lines, tile.rows) <= target.machine.l1d_bytes
    line_stays = window.bytes(tile.lines, window.rows) <= target.machine.l1d_bytes
    new = again = 0
    for operand in window.operands:
        lines, rows = operand.lines, operand.rows
        fresh = lines.further(tile.lines) * rows.further(tile.rows) * operand.others if operand.moves else 0
        column = lines.positions(tile.lines) * rows.further(tile.rows) * operand.others if operand.moves else 0
        new += fresh
        again += (column if stays else operand.elements(tile.lines, tile.rows)) - fresh if not line_stays else 0
    return (EXPOSED_NEW * new + EXPOSED_AGAIN * again) * tile.vectors


def _conflicts(target: CpuTarget, window: Window, tile: WindowTile) -> int:
    """Cache lines that a tile takes a part of, and that are gone when the next tile takes another part.

    Neighbouring positions lie all columns apart; neighbouring lines lie all their positions apart. Where both distances
    are multiples of a power of two of cache lines, a tile's reads have that many times fewer sets to use.
    """
    sets = target.machine.l1d_bytes // (LINE_BYTES * L1_WAYS)
    lost = 0
    for operand in window.operands:
        pitch = window.columns * operand.element_bytes
        if not target.machine.l2_bytes or not operand.moves or pitch % LINE_BYTES:
            continue
        apart = math.gcd(pitch // LINE_BYTES, sets)
        touched = operand.lines.positions(tile.lines) * operand.rows.positions(tile.rows)
        if tile.columns * operand.element_bytes < LINE_BYTES and touched > L1_WAYS * sets // apart:
            lost += touched
    return lost


def window_cycles(target: CpuTarget, window: Window, tile: WindowTile) -> float:
    """Cycles of the whole reduction by ``tile``, with smaller tiles at the ends of lines, rows and columns."""
    vectors = math.ceil(window.columns / tile.lanes)
    parts = (_parts(window.lines, tile.lines), _parts(window.rows, tile.rows), _parts(vectors, tile.vectors))
    return window.outer * sum(
        lines * rows * columns * tile_cycles(target, window, WindowTile(r, v, tile.lanes, i))
        for (lines, i), (rows, r), (columns, v) in itertools.product(*parts)
    )


def _parts(total: int, size: int) -> list[tuple[int, int]]:
    """(count, size) of the tiles along an axis."""
    return [part for part in ((total // size, size), (1, total % size)) if all(part)]


@functools.lru_cache(maxsize=64)
def choose_tile(target: CpuTarget, window: Window, lanes: int) -> WindowTile:
    """The tile with the lowest modelled time, with two margins: a few percent for fewer copies of the loop, then one
    percent for less code in it."""
    cost = {tile: window_cycles(target, window, tile) for tile in tiles(target, window, lanes)}
    near = _within(COPIES_MARGIN, cost)
    fewest = min(copies(window, tile) for tile in near)
    nearest = _within(SIZE_MARGIN, {tile: cost[tile] for tile in near if copies(window, tile) == fewest})
    return min(nearest, key=lambda tile: (tile.accumulators, cost[tile]))


def _within(margin: float, cost: dict[WindowTile, float]) -> list[WindowTile]:
    bound = margin * min(cost.values())
    return [tile for tile, cycles in cost.items() if cycles <= bound]


def tiles(target: CpuTarget, window: Window, lanes: int) -> Iterator[WindowTile]:
    """The tiles worth considering: sums take part of the registers, and the window is unrolled where lines share it."""
    vectors = min(math.ceil(window.columns / lanes), ACCUMULATORS)
    lines = min(window.lines, MOST_LINES) if target.machine.l2_bytes else 1
    temporaries = 2 + SPREAD_REGISTERS * any(operand.spread for operand in window.operands)
    most = MOST_ACCUMULATORS if target.machine.l2_bytes else ACCUMULATORS
    if window.converts:
        temporaries, most = temporaries + CONVERTED_REGISTERS, min(most, CONVERTED_ACCUMULATORS)
    room = max(1, min(most, target.machine.tile_registers - temporaries))
    for i, r, v in itertools.product(range(1, lines + 1), range(1, min(window.rows, room) + 1), range(1, vectors + 1)):
        tile = WindowTile(r, v, lanes, i)
        if tile.accumulators <= room and (i == 1 or window.steps * tile.accumulators <= unrolled_operations(target)):
            yield tile


def copies(window: Window, tile: WindowTile) -> int:
    """How many differently shaped tiles the result needs."""
    vectors = math.ceil(window.columns / tile.lanes)
    return math.prod(
        len(_parts(*axis)) for axis in ((window.lines, tile.lines), (window.rows, tile.rows), (vectors, tile.vectors))
    )


def choose_blocks(target: CpuTarget, window: Window, tile: WindowTile) -> WindowBlocks:
    """How a windowed reduction is split over workgroups: outer positions first, then columns, in whole tiles."""
    outer = window.outer * math.ceil(window.lines / tile.lines)
    column_tiles = math.ceil(window.columns / tile.columns)
    wanted = workgroups(target, window_cycles(target, window, tile))
    block = _even_block(outer, wanted)
    column_blocks = min(column_tiles, math.ceil(wanted / math.ceil(outer / block)))
    return WindowBlocks(block, math.ceil(column_tiles / column_blocks) * tile.columns)


def _even_block(total: int, wanted: int) -> int:
    """Positions in a block: about ``wanted`` blocks, which two workers share as evenly as possible."""
    if wanted == 1 or wanted >= total:
        return math.ceil(total / wanted)

    def unevenness(block: int) -> tuple[float, float]:
        count = math.ceil(total / block)
        return math.ceil(count / 2) * block / total, abs(math.log(count / wanted))

    return min((math.ceil(total / count) for count in range(wanted, 2 * wanted + 1)), key=unevenness)

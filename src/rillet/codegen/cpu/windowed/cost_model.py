"""The cost model of windowed kernels: register tiles, and what one workgroup does.

A *line* holds the neighbouring positions of one axis of the result (an image line), its *rows* are those positions, its
columns the vectorized axis. A tile takes several lines, rows and vectors of columns: neighbouring lines and rows share
what they read. The unit is the core clock cycle, as in ``tiles``.
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
CONVERTED_ACCUMULATORS = 5  # where code must be small, and factors are made of what is loaded
CONVERTED_CYCLES = 2  # to load an element and to convert it, one after the other
CONVERTED_REGISTERS = 3  # of such factors of a line of the window
SPREAD_REGISTERS = 4  # of what is spread over lanes, and what it is made of
# What follows was fitted to 3x3 windows on Zen 3 (docs/decisions/0011-windows.md).
TILE_CYCLES = 2  # to advance addresses and leave the innermost loop
LINE_CYCLES = 0.6  # for each line that a tile reads: another address, another stream for the prefetcher
STORE_CYCLES = 1  # of a result
RELOAD_CYCLES = 0.45  # of a value that went through the stack, besides its load
REORDERED = 256  # instructions that an out-of-order core looks ahead; as many chains of sums run side by side
# Of the time that vectors take from L2, what does not hide behind arithmetic: of those that no tile read before, and of
# those that L1 lost in the meantime.
EXPOSED_NEW, EXPOSED_AGAIN = 0.65, 0.7
L1_WAYS = 8
CONFLICT_CYCLES = 2.5  # of a line that L1's sets do not keep until the next tile takes what is left of it
BEYOND_L2_BYTES_PER_CYCLE = 17
OVERLAP_CYCLES = 0.1  # of the shorter of both, arithmetic and memory beyond L2
STREAM_CYCLES = 14  # until the prefetchers of a core follow another stream of reads from beyond L2
COPIES_MARGIN = 1.03  # how much slower a tile may be that needs fewer copies of the loop
SIZE_MARGIN = 1.01  # the same of a smaller one


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
    """The positions of an operand that results next to each other read along one axis: ``offsets`` for each result,
    ``step`` from one result to the next."""

    step: int
    offsets: tuple[int, ...]

    def positions(self, results: int) -> int:
        """How many different positions that many neighbouring results read."""
        return len(_readers(self.step, self.offsets, results))

    def further(self, results: int) -> int:
        """How many of them the results before these did not read."""
        return self.positions(2 * results) - self.positions(results)

    def readers(self, results: int) -> int:
        """How many of the results read one position, at most."""
        return max(_readers(self.step, self.offsets, results).values())


@functools.lru_cache(maxsize=1024)
def _readers(step: int, offsets: tuple[int, ...], results: int) -> Counter[int]:
    """How many of so many neighbouring results read each position."""
    return Counter(step * n + offset for n in range(results) for offset in offsets)


@dataclass(frozen=True)
class Operand:
    """What a windowed reduction reads along lines and along rows, and how often elsewhere (``others``)."""

    lines: Reach
    rows: Reach
    others: int
    element_bytes: int
    spread: bool = False  # its elements are spread over lanes in registers before they are used

    @property
    def moves(self) -> bool:
        """Whether results at different places read different elements; weights are the same for all."""
        return bool(self.lines.step or self.rows.step)

    def elements(self, lines: int, rows: int) -> int:
        """How many different ones, for each column, so many lines and rows of results read."""
        return self.lines.positions(lines) * self.rows.positions(rows) * self.others


@dataclass(frozen=True)
class Window:
    """A windowed reduction: extents of the result (lines, rows, columns; ``outer`` of those), steps for each result,
    and the operands that are read from memory."""

    outer: int
    lines: int
    rows: int
    columns: int
    steps: int
    operands: tuple[Operand, ...]
    converts: bool = False  # factors take instructions to make of what is loaded, and stay in registers where shared

    def bytes(self, lines: int, rows: int) -> int:
        """What so many lines and rows of results read, over all columns."""
        return sum(operand.elements(lines, rows) * operand.element_bytes for operand in self.operands) * self.columns


@dataclass(frozen=True)
class WindowBlocks:
    """What one workgroup does: this many positions of the outer loops (tiles of lines among them) and this many
    columns."""

    outer: int
    columns: int

    def overruled(self, tile: Tile, knobs: Knobs) -> WindowBlocks:
        """The same but for what ``knobs`` say; here ``row_tiles`` counts positions of the outer loops."""
        columns = knobs.column_tiles * tile.columns if knobs.column_tiles else self.columns
        return WindowBlocks(knobs.row_tiles or self.outer, columns)


def unrolled_operations(target: CpuTarget) -> int:
    """How many steps of a window, for all results of a tile, are written out at most."""
    return UNROLLED_OPERATIONS if target.machine.l2_bytes else SMALL_UNROLLED_OPERATIONS


def tile_cycles(target: CpuTarget, window: Window, tile: WindowTile) -> float:
    """Cycles of one tile: what the core takes, or memory beyond L2, whichever takes longer."""
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
    """Cycles that the sums of one result keep a tile waiting: chains of one tile run side by side, and on an
    out-of-order core those of the next tiles too."""
    instructions = window.steps * tile.accumulators + loads
    tiles = 1 + (REORDERED / instructions if target.machine.l2_bytes else 0)
    return FMA_LATENCY * window.steps / tiles


def _beyond_l2_cycles(target: CpuTarget, window: Window, tile: WindowTile) -> float:
    """Cycles that memory beyond L2 takes for what a tile reads first and writes, 0 where L2 holds what is read.

    Positions of a line next to each other are one stream for a prefetcher only across tiles: the first new one goes on
    where the tile before ended, and each of the others begins a stream, of all columns.
    """
    if not target.machine.l2_bytes or window.bytes(window.lines, window.rows) <= target.machine.l2_bytes:
        return 0.0
    moving = [operand for operand in window.operands if operand.moves]
    new = sum(o.lines.further(tile.lines) * o.rows.further(tile.rows) * o.others for o in moving) * tile.vectors
    streams = sum(o.lines.further(tile.lines) * max(0, o.rows.further(tile.rows) - 1) * o.others for o in moving)
    moved = (new + tile.accumulators) * _vector_bytes(target) / BEYOND_L2_BYTES_PER_CYCLE
    return moved + STREAM_CYCLES * streams * tile.columns / window.columns


def _reloads(target: CpuTarget, window: Window, tile: WindowTile) -> float:
    """Weights that a tile loads again, for they do not stay in registers beside the sums while lines share them.

    One register holds what was read; without fused multiply-add three more hold products under way, and without
    multiply-adds that read memory three more hold what is read ahead.
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
    """Vectors that a tile gets from L2, by what does not hide of each.

    Tiles next to each other along the columns come first, then along the rows. What tiles read of all columns stays in
    L1 for the next ones along the rows if L1 holds it together with the weights; what they share with the line of tiles
    before is still there if L1 holds a whole line of tiles.
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
    """Cache lines that a tile takes a part of, and that are gone when the next one takes another part.

    Positions next to each other are all columns apart, lines all of their positions; where both are multiples of a
    power of two of cache lines, what a tile reads shares as many sets fewer.
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
    """(how many, of what size) the tiles along an axis are."""
    return [part for part in ((total // size, size), (1, total % size)) if all(part)]


@functools.lru_cache(maxsize=64)
def choose_tile(target: CpuTarget, window: Window, lanes: int) -> WindowTile:
    """The tile with the lowest modelled time, but for a margin: a few percent for fewer copies of the loop, then one
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
    """Positions in a block, for about ``wanted`` blocks that two workers share as evenly as can be."""
    if wanted == 1 or wanted >= total:
        return math.ceil(total / wanted)

    def unevenness(block: int) -> tuple[float, float]:
        count = math.ceil(total / block)
        return math.ceil(count / 2) * block / total, abs(math.log(count / wanted))

    return min((math.ceil(total / count) for count in range(wanted, 2 * wanted + 1)), key=unevenness)

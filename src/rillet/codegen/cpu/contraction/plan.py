"""Decisions about a contraction's kernel before anything is emitted (``planner`` makes them)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch_mlir import ir

from rillet.codegen import index
from rillet.codegen.cpu import cost_model
from rillet.codegen.cpu.contraction.axes import Axes, axis_size, element, guess, guess_extent
from rillet.codegen.cpu.cost_model import Blocks
from rillet.codegen.cpu.dot_products import DotProducts
from rillet.codegen.emit.blocks import Tile
from rillet.codegen.emit.extents import loop_sizes
from rillet.codegen.emit.kernel import KernelBuilder
from rillet.codegen.index import Index
from rillet.codegen.knobs import Choice, Knobs
from rillet.codegen.recognize.contraction import LinearContraction
from rillet.codegen.recognize.epilogue import Epilogue
from rillet.codegen.recognize.linear_access import Access
from rillet.codegen.recognize.narrow_factors import NarrowFactor
from rillet.ir.dtypes import storage_bytes
from rillet.ir.structured import DYNAMIC


@dataclass(frozen=True)
class LhsSupply:
    """How elements of the lhs reach the multiply-add units; the default is one by one."""

    spread: bool = False  # the rows of a block are first copied to scratch, each element into all lanes of a vector
    run: int = 0  # elements along the innermost reduction axis that are read together; 0: one by one


@dataclass(frozen=True)
class RhsSupply:
    """How vectors of the rhs reach the multiply-add units."""

    element_bytes: int  # of the memory that they are read from
    pack: bool = False  # a panel is copied to scratch first
    computes: bool = False  # factors are floats computed from narrower elements
    prefetch: bool = False  # the next column tile's panels are fetched while row tiles use the current ones


@dataclass(frozen=True)
class IntegerProducts:
    """How instructions multiply 8-bit integers, several steps at a time; false where no instruction does."""

    pairs: tuple[NarrowFactor, NarrowFactor] | None = None  # two steps at a time, lhs rows in scratch
    groups: DotProducts | None = None  # a group of steps at a time
    in_place: bool = False  # the lhs rows of groups need no copy

    def __bool__(self) -> bool:
        return self.pairs is not None or self.groups is not None

    @property
    def copies_lhs(self) -> bool:
        """Whether they need the lhs in another form than memory has it in."""
        return self.pairs is not None or (self.groups is not None and not self.in_place)

    @property
    def together(self) -> int:
        """Steps that an instruction takes at once."""
        return 2 if self.pairs else self.groups.steps if self.groups else 1


@dataclass(frozen=True)
class ContractionPlan:
    """How a contraction is tiled and how its factors are read."""

    contraction: LinearContraction
    epilogue: Epilogue
    axes: Axes
    tile: Tile
    blocks: Blocks
    reduction_block: int  # iterations of the first reduction axis done at a time, partial sums in scratch; 0 for all
    lhs: LhsSupply
    rhs: RhsSupply
    integers: IntegerProducts
    residuals: tuple[Access, ...]  # arguments that the epilogue reads at its results' place and that no cache holds
    in_parts: bool = False  # the number of rows is unknown: they go in parts of up to ``tile.rows``, see ``blocks``
    fewer: tuple[ContractionPlan, ...] = ()  # of tiles for parts of fewer rows, by rows: each for up to ``tile.rows``
    together: int = 0  # columns that a part passes before the next one does; 0: those of a tile
    direct: tuple[int, ContractionPlan] | None = None  # (most rows, plan): replaces this one where there are so few

    @property
    def copies_lhs(self) -> bool:
        """Whether row tiles of the lhs are copied to scratch before they are used."""
        return (
            self.lhs.spread
            or self.integers.pairs is not None
            or (self.integers.groups is not None and not self.integers.in_place)
        )

    @property
    def extends(self) -> bool:
        """Whether rhs vectors of narrower floats are extended for each use."""
        stored, sums = element(self.contraction, self.contraction.roles.rhs), self.contraction.product.accumulator_type
        is_narrow = isinstance(stored, ir.FloatType) and storage_bytes(stored) < storage_bytes(sums)
        return is_narrow and not self.rhs.pack

    @property
    def shift(self) -> int:
        """The constant added to each lhs factor, which the sum of products leaves out."""
        return self.integers.groups.shift if self.integers.groups else 0

    @property
    def grouped_steps(self) -> int:
        """The steps of the reduction, the innermost axis filled up to whole groups."""
        assert self.integers.groups is not None
        *outer, inner = [a.extent for a in self.axes.k]
        return math.prod(outer) * whole_groups(inner, self.integers.groups.steps) * self.integers.groups.steps

    @property
    def steps(self) -> int:
        """The most steps of the reduction that are done at a time (extents known)."""
        first, *inner = [a.extent for a in self.axes.k] or [1]
        return (self.reduction_block or first) * math.prod(inner)

    @property
    def prefetch_parts(self) -> int:
        """The parts in which the next panels are fetched, one during each row tile of a block; 0 when they are not
        fetched. A power of two, so that dividing by it is a shift: later row tiles fetch the last part again. With one
        or two row tiles the hardware's own prefetching already uses all the memory's time."""
        row_tiles = math.ceil(self.blocks.rows / self.tile.rows)
        return 1 << (row_tiles.bit_length() - 1) if self.rhs.prefetch and row_tiles > 2 else 0


def whole_groups(steps: int, group: int) -> int:
    """The number of groups that ``steps`` steps fill, the last one perhaps partly."""
    return -(-steps // group)


def choice(plan: ContractionPlan, knobs: Knobs) -> Choice:
    """The plan's decisions, and the extents that they are for."""
    c, tile, blocks = plan.contraction, plan.tile, plan.blocks
    together = (
        2 if plan.integers.pairs else plan.integers.groups.steps if plan.integers.groups else 1
    )  # steps that instructions take at once
    problem = {
        "batches": guess(plan.axes.batch),
        "rows": guess(plan.axes.m),
        "columns": guess_extent(c.extents[c.n]),
        "steps": guess(plan.axes.k),
        "run": guess(plan.axes.k[-1:]),
        "outer_steps": guess(plan.axes.k[:1]),
        "lanes": tile.lanes,
        "element_bytes": storage_bytes(element(c, c.roles.rhs)),
        "accumulator_bytes": storage_bytes(c.product.accumulator_type),
        "gather": int(len(plan.axes.m) > 1),
        "together": together,
    }
    run = plan.axes.k[-1].extent if plan.axes.k else 1
    unroll = knobs.unroll or cost_model.choose_unroll(None if run == DYNAMIC else run, tile, plan.lhs.run, plan.extends)
    made = Knobs(
        tile_rows=tile.rows,
        tile_vectors=tile.vectors,
        unroll=unroll if together == 1 else together,
        rows_outer=int(blocks.rows_outer or plan.copies_lhs),
        row_tiles=blocks.rows // tile.rows,
        column_tiles=blocks.columns // tile.columns,
        reduction_block=plan.reduction_block,
    )
    return Choice(problem, made)


def grid(kernel: KernelBuilder, plan: ContractionPlan) -> list[Index]:
    """The workgroup grid: column blocks, row blocks, batch blocks."""
    sizes = loop_sizes(kernel, plan.contraction.root)
    batches = index.product([axis_size(a, sizes) for a in plan.axes.batch])
    rows = index.product([axis_size(a, sizes) for a in plan.axes.m])
    columns = sizes[plan.contraction.n]
    return [
        index.ceildiv(columns, plan.blocks.columns),
        index.ceildiv(rows, plan.blocks.rows),
        index.ceildiv(batches, plan.blocks.batches),
    ]

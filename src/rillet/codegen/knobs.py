"""What may be chosen about one kernel without changing what it computes: the numbers a cost model picks and a tuner
varies."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Knobs:
    """Choices about one kernel; None leaves one to the cost model. A strategy ignores those it does not have.

    Every combination within ``LIMITS`` gives a correct kernel, or none where it would need too much scratch memory.
    Blocks are counted in tiles, which they hold whole.
    """

    tile_rows: int | None = None  # of a register tile
    tile_vectors: int | None = None  # vector registers of a row of it
    unroll: int | None = None  # steps of the innermost reduction that one iteration does
    rows_outer: int | None = None  # 1: row tiles outside, column tiles inside; 0: the other way round
    row_tiles: int | None = None  # rows of a workgroup, in tiles
    column_tiles: int | None = None  # columns of a workgroup, in tiles
    reduction_block: int | None = None  # iterations of the outermost reduction axis done at a time; 0: all

    def given(self) -> dict[str, int]:
        """The choices that were made, by name."""
        return {name: value for name, value in dataclasses.asdict(self).items() if value is not None}

    @staticmethod
    def parse(facts: Mapping[str, Any]) -> Knobs:
        """The knobs of a mapping such as ``given`` returns. Raises ``ValueError`` naming what is wrong with it."""
        for name, value in facts.items():
            if name not in LIMITS:
                raise ValueError(f"there is no choice '{name}'; choices: {', '.join(LIMITS)}")
            low, high = LIMITS[name]
            if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
                raise ValueError(f"'{name}' must be a whole number from {low} to {high}, not {value!r}")
        return Knobs(**facts)


MODEL = Knobs()
"""The cost model chooses everything."""

LIMITS: dict[str, tuple[int, int]] = {
    "tile_rows": (1, 32),
    "tile_vectors": (1, 8),
    "unroll": (1, 64),
    "rows_outer": (0, 1),
    "row_tiles": (1, 1 << 24),
    "column_tiles": (1, 1 << 24),
    "reduction_block": (0, 1 << 24),
}


@dataclass(frozen=True)
class Choice:
    """What was decided about one kernel, and for what problem."""

    problem: dict[str, int]  # extents and sizes by name, as the cost model sees them (unknown extents guessed)
    knobs: Knobs

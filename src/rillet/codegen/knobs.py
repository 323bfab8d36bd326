"""Choices about one kernel that do not change its results: the numbers a cost model picks and a tuner varies."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Knobs:
    """Choices about one kernel; None leaves one to the cost model. A strategy ignores choices that it does not have.

    Every combination within ``LIMITS`` and ``MOST_PRODUCTS`` gives a correct kernel, or none where it would need too
    much scratch memory. Blocks are counted in tiles, which they hold whole. A chain has its stages' choices and one of
    its own (``row_tiles``: rows of a block, in multiples of the rows that all stages' tiles divide).
    """

    tile_rows: int | None = None  # of a register tile
    tile_vectors: int | None = None  # vector registers of one of its rows
    unroll: int | None = None  # steps of the innermost reduction that one iteration does
    rows_outer: int | None = None  # 1: row tiles outside, column tiles inside; 0: the other way round
    row_tiles: int | None = None  # rows of a workgroup, in tiles
    column_tiles: int | None = None  # columns of a workgroup, in tiles
    reduction_block: int | None = None  # iterations of the outermost reduction axis done at a time; 0: all
    tile_lines: int | None = None  # of a register tile of a window: lines of rows
    stages: tuple[Knobs, ...] = ()  # of a chain's stages, in order; the cost model chooses for those that are missing

    def given(self) -> dict[str, Any]:
        """The choices that were made, by name, as JSON can hold them: numbers, and a list of such mappings for
        stages."""
        made = {name: getattr(self, name) for name in LIMITS}
        found = {name: value for name, value in made.items() if value is not None}
        return found | {"stages": [stage.given() for stage in self.stages]} if self.stages else found

    def of_stage(self, number: int) -> Knobs:
        """The choices about a stage of a chain."""
        return self.stages[number] if number < len(self.stages) else MODEL

    def with_stage(self, number: int, stage: Knobs) -> Knobs:
        """The knobs with one stage replaced."""
        stages = [*self.stages, *[MODEL] * (number + 1 - len(self.stages))]
        stages[number] = stage
        return dataclasses.replace(self, stages=tuple(stages))

    @staticmethod
    def parse(facts: Mapping[str, Any]) -> Knobs:
        """The knobs of a mapping such as ``given`` returns. Raises ``ValueError``, which names the wrong entry."""
        numbers = dict(facts)
        stages = numbers.pop("stages", [])
        for name, value in numbers.items():
            if name not in LIMITS:
                raise ValueError(f"there is no choice '{name}'; choices: {', '.join(LIMITS)}, stages")
            low, high = LIMITS[name]
            if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
                raise ValueError(f"'{name}' must be a whole number from {low} to {high}, not {value!r}")
        products = math.prod(numbers.get(name, 1) for name in ("tile_rows", "tile_vectors", "unroll"))
        if products > MOST_PRODUCTS:
            raise ValueError(
                f"'tile_rows' times 'tile_vectors' times 'unroll' must be at most {MOST_PRODUCTS}, not {products}"
            )
        if not isinstance(stages, list) or any(not isinstance(s, Mapping) or "stages" in s for s in stages):
            raise ValueError(f"'stages' must be a list of objects without stages of their own, not {stages!r}")
        return Knobs(**numbers, stages=tuple(Knobs.parse(s) for s in stages))


MODEL = Knobs()
"""The cost model chooses everything."""

MOST_PRODUCTS = 2048  # of one iteration of the innermost loop; compiling more takes minutes

LIMITS: dict[str, tuple[int, int]] = {
    "tile_rows": (1, 32),
    "tile_vectors": (1, 8),
    "unroll": (1, 64),
    "rows_outer": (0, 1),
    "row_tiles": (1, 1 << 24),
    "column_tiles": (1, 1 << 24),
    "reduction_block": (0, 1 << 24),
    "tile_lines": (1, 8),
}


@dataclass(frozen=True)
class Choice:
    """The decisions about one kernel, and the problem that they are for."""

    problem: dict[str, int]  # extents and sizes by name, as the cost model sees them (unknown extents guessed)
    knobs: Knobs
    stages: tuple[Choice, ...] = ()  # of a chain's stages, in order

    def given(self) -> dict[str, Any]:
        """The choice as JSON can hold it."""
        facts = {"problem": self.problem, "knobs": self.knobs.given()}
        return facts | {"stages": [stage.given() for stage in self.stages]} if self.stages else facts

    @staticmethod
    def parse(facts: Mapping[str, Any]) -> Choice:
        """The choice from a mapping that ``given`` returned. Raises ``ValueError`` or ``KeyError`` for any other
        mapping."""
        stages = tuple(Choice.parse(stage) for stage in facts.get("stages", ()))
        return Choice(dict(facts["problem"]), Knobs.parse(facts["knobs"]), stages)

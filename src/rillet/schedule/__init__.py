"""flow → stream: the order of the work, what runs concurrently, and the memory of each tensor."""

from __future__ import annotations

from rillet.ir.passes import Pass
from rillet.schedule import arena, concurrency, constants, convert_to_stream, in_place, in_place_loops, tidy
from rillet.schedule.form import check

__all__ = ["check", "passes"]


def passes() -> list[Pass]:
    """The passes of this stage, in order."""
    return [
        Pass("convert-to-stream", "schedule", convert_to_stream.run, convert_to_stream.Options()),
        Pass("in-place", "schedule", in_place.run, in_place.Options()),
        Pass("in-place-loops", "schedule", in_place_loops.run),
        Pass("in-place-after-loops", "schedule", in_place.run, in_place.Options()),
        Pass("concurrency", "schedule", concurrency.run, concurrency.Options()),
        Pass("arena", "schedule", arena.run, arena.Options()),
        Pass("constants", "schedule", constants.run, constants.Options()),
        Pass("tidy", "schedule", tidy.run),
    ]

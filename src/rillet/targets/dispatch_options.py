"""A backend's requests to dispatch formation: how a program is cut into kernels for one of its targets."""

from __future__ import annotations

from dataclasses import dataclass, field

from rillet.targets.target import Packing


@dataclass(frozen=True)
class DispatchOptions:
    """How constants are packed, and which regions become one kernel.

    A backend that asks for chains or transformed weights must be able to emit them: it is not asked again.
    """

    packing: Packing = field(default_factory=Packing)
    roomy: bool = True  # memory for copies: padded tensors, computed operands packed
    row_lanes: int = 1  # constants of few columns lie in rows, for vectors of this many f32; 1: all lie in panels
    shared_bytes: bool = True  # integers of a few bits share bytes
    chain_bytes: int = 0  # that a worker may keep between the stages of a chain; 0: no chains
    winograd: bool = False  # 3x3 convolutions get their weights transformed as well

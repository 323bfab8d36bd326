"""Puts the dispatches of a flow program on devices by chance."""

from __future__ import annotations

import random
from collections.abc import Sequence

from torch_mlir import ir

from rillet.dialects import flow
from rillet.ir import Program
from rillet.ir.passes import Pass
from rillet.ir.structured import walk
from rillet.targets.devices import Device


def pin(seed: int, devices: Sequence[Device]) -> Pass:
    """A pass that gives every dispatch one of ``devices``, often that of the dispatch before it."""

    def run(program: Program, options: None) -> None:
        choose = random.Random(seed)
        device = choose.choice(devices)
        with program.context:
            for op in walk(program.main()):
                if op.name == "func.call":
                    device = device if choose.random() < 0.5 else choose.choice(devices)
                    op.attributes[flow.DEVICE] = ir.StringAttr.get(device.name)

    return Pass("pin", "placement", run)

"""stream → hal: command buffers, binding tables, barriers, and branches."""

from __future__ import annotations

from rillet.hal import control_flow, convert_to_hal
from rillet.hal.form import check
from rillet.ir.passes import Pass

__all__ = ["check", "passes"]


def passes() -> list[Pass]:
    """The passes of this stage, in order."""
    return [
        Pass("convert-to-hal", "hal", convert_to_hal.run, convert_to_hal.Options()),
        Pass("control-flow", "hal", control_flow.run, control_flow.Options()),
    ]

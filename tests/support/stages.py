"""The passes of a compilation, as a target has them."""

from __future__ import annotations

from rillet import pipeline, targets
from rillet.ir.passes import Pass
from rillet.targets import Target


def passes(*stages: str, target: Target | str = "x86-64-v3") -> list[Pass]:
    """The passes of ``stages``, in order, with the options of ``target``."""
    options = pipeline.options_for(targets.get(target) if isinstance(target, str) else target)
    return [step for step in pipeline.passes(options) if step.stage in stages]

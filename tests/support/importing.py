"""Sources become programs, as the driver imports them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from rillet.driver.lowering import import_model as import_opened
from rillet.frontends.registry import open_model
from rillet.ir import Program


def import_model(
    source: object,
    inputs: Mapping[str, Sequence[int | str | None]] | None = None,
    values: Mapping[str, np.ndarray] | None = None,
) -> Program:
    """The program that a source becomes, verified."""
    return import_opened(open_model(source, inputs), values=values)

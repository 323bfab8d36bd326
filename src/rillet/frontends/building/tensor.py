"""A tensor while a frontend builds a program."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from torch_mlir import ir

from rillet.errors import advice
from rillet.frontends.building.extent_arithmetic import Flag
from rillet.frontends.errors import UnsupportedFeature
from rillet.ir.builders import Extent

Element: TypeAlias = Extent | Flag


@dataclass(eq=False)
class Tensor:
    """A tensor of an element type (numpy or ml_dtypes name) and extents, with one of three contents.

    - ``array``: a numpy array known at compile time (initializers, folded results), materialized only when an op needs
      its value;
    - ``elements``: scalars known one by one (a shape computation): ``int`` or ``index`` value each, ``bool`` or ``i1``
      for bools;
    - ``value``: an SSA tensor.

    Make one with the builder's methods. ``name`` is what a constant is called.
    """

    dtype: str
    shape: tuple[Extent, ...]
    value: ir.Value | None = None
    array: np.ndarray | None = None
    elements: tuple[Element, ...] | None = None
    name: str = field(default="")

    @property
    def rank(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def is_static(self) -> bool:
        """Whether every extent is known."""
        return all(isinstance(d, int) for d in self.shape)

    @property
    def static_shape(self) -> tuple[int, ...]:
        """The shape of a static tensor. Raises UnsupportedFeature for a tensor with dynamic extents."""
        if not self.is_static:
            raise UnsupportedFeature(
                "it needs a shape known at compile time",
                advice("pin the inputs' shapes: inputs={...}, dims={...}", "pin the inputs' shapes: --shape, --dim"),
            )
        return tuple(d for d in self.shape if isinstance(d, int))

"""A frontend of another package, as far as the registry can tell: one layer, as an object or as an ``.npz`` file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from torch_mlir import ir

from rillet.errors import UnsupportedError, UnsupportedNode
from rillet.frontends.building.contraction import contract
from rillet.frontends.building.main_function import Result, main_function
from rillet.frontends.building.scalars import maximum
from rillet.frontends.frontend import InputSpec, OpUse, Shapes, Survey, Values
from rillet.frontends.pinned_dimensions import pinned_inputs
from rillet.ir import Program


@dataclass(frozen=True)
class Affine:
    """``max(x @ weights + bias, 0)``."""

    weights: np.ndarray
    bias: np.ndarray
    activation: str = "relu"

    def __call__(self, x: np.ndarray) -> np.ndarray:
        return np.maximum(x @ self.weights + self.bias, 0)

    def save(self, path: Path) -> None:
        np.savez(path, weights=self.weights, bias=self.bias)


class AffineFrontend:
    name = "affine"
    sources = "an affine layer (an Affine, or the path of an .npz file)"

    def accepts(self, source: Any) -> bool:
        return isinstance(source, Affine) or str(source).endswith(".npz")

    def open(self, source: Any) -> AffineModel:
        return AffineModel(source if isinstance(source, Affine) else Affine(**np.load(source)))


@dataclass(frozen=True)
class AffineModel:
    layer: Affine
    inputs: tuple[InputSpec, ...] = ()

    def __post_init__(self) -> None:
        if not self.inputs:
            object.__setattr__(self, "inputs", (InputSpec("x", "float32", ("N", self.layer.weights.shape[0])),))

    def pinned(self, shapes: Shapes, dims: Mapping[str, int]) -> AffineModel:
        return replace(self, inputs=pinned_inputs(self.inputs, shapes, dims))

    def survey(self) -> Survey:
        return Survey(
            (OpUse("affine", 0, 1, ("float32",)),), ("y",), self.layer.weights.nbytes + self.layer.bias.nbytes
        )

    def program(self, values: Values | None = None) -> Program:
        if self.layer.activation != "relu":
            refused = UnsupportedNode("layer", "affine", 0, f"activation '{self.layer.activation}'", "use relu")
            raise UnsupportedError([refused])
        with main_function(self.inputs) as main, ir.Location.name("layer"):
            (x,) = main.arguments
            weights, bias = (main.b.constant(a, name=n) for n, a in (("w", self.layer.weights), ("b", self.layer.bias)))
            product = contract(main.b, ["nk", "km"], "nm", [x, weights], "float32")
            main.finish([Result("y", main.b.map(lambda v, b: maximum(v + b, 0), product, bias))])
        return main.program

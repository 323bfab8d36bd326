"""What a model offers besides ``Model`` so that ``rillet verify`` can compare its values with other implementations'.

A frontend need not offer it. Where a model does, the values between its nodes are compared one by one, and the first
one that departs is found in a part of the model.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np

from rillet.errors import RilletError
from rillet.frontends.frontend import Model

Arrays: TypeAlias = Mapping[str, np.ndarray]
Oracle: TypeAlias = Callable[[Arrays, Sequence[str]], Mapping[str, Any]]
"""Takes the model's inputs and the names of some outputs, and gives these by name. Raises OracleError."""


class OracleError(RilletError):
    """An oracle is missing or cannot run the model."""


@dataclass(frozen=True, eq=False)
class ComputingNode:
    """A node of a model: the values that it reads and makes, and which of these can be outputs of the model."""

    name: str
    op: str
    reads: tuple[str, ...]
    makes: tuple[str, ...]
    exposable: tuple[str, ...]


@dataclass(frozen=True)
class Rounding:
    """Integers that stand for floats: ``real / scale + zero_point``, rounded. The shapes broadcast."""

    real: np.ndarray
    scale: np.ndarray
    zero_point: np.ndarray


@runtime_checkable
class VerifiableModel(Model, Protocol):
    """A model whose values other implementations compute too."""

    @property
    def nodes(self) -> Sequence[ComputingNode]:
        """The nodes, in an order in which they can run."""

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of the results."""

    @property
    def constants(self) -> Collection[str]:
        """The names of the values that are known."""

    def oracles(self) -> Mapping[str, Oracle]:
        """Other implementations by name, the most trusted first."""

    def part(self, outputs: Sequence[str], cut: Sequence[str] = (), observed: Arrays | None = None) -> VerifiableModel:
        """The part that computes ``outputs``, in which the values in ``cut`` are inputs.

        ``observed`` are values seen in a run; they give the types that the model does not declare.
        """

    def rounding(self, value: str, inputs: Arrays) -> Rounding | None:
        """The floats that the node of ``value`` rounds, given its inputs; None where it rounds nothing."""

    def serialized(self) -> bytes:
        """The bytes of the model's file."""

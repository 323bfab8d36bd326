"""Judges differences of quantized models: one step where the rounding is a tie, and those that follow from it.

A quantized value is a quotient rounded to an integer. The quotient is computed in floats, by each implementation in its
own order, so that two right ones may round it to neighbouring integers where it lies halfway between: no further from
there than floats may differ at all (``difference.TOLERANCES``). A step is therefore explained where the quotient, taken
from the node's inputs as Rillet has them, rounds to Rillet's integer when it is moved by that tolerance, and to nothing
more than one step away.

Values computed from these depart from the oracles by more. Such a value is judged by its node alone: it is compared
with what an oracle computes from the node's inputs as Rillet has them. A value that departs with no such step before it
is never excused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from rillet.frontends.frontend import InputSpec
from rillet.frontends.verification import Arrays, ComputingNode, OracleError, Rounding, VerifiableModel
from rillet.runtime import TensorSpec
from rillet.verify.difference import TOLERANCES, Difference, difference

FOLLOWS = "its node computes from its inputs what the oracle does; the inputs differ by a step of quantization before"


def given(specs: Sequence[InputSpec] | Sequence[TensorSpec], values: Arrays) -> dict[str, np.ndarray]:
    """The values of inputs; those with a default may be missing."""
    return {spec.name: values[spec.name] for spec in specs if spec.name in values or not spec.has_default}


class Judge:
    """Judges values of one model, in the order of its nodes."""

    def __init__(self, model: VerifiableModel) -> None:
        self._model = model
        self._nodes = {value: node for node in model.nodes for value in node.makes}
        self._stepped: set[str] = set()

    @property
    def found_steps(self) -> bool:
        """Whether a value has been explained."""
        return bool(self._stepped)

    def explanation(self, name: str, actual: np.ndarray, values: Arrays, far: Mapping[str, Difference]) -> str:
        """Why ``actual``, which differs from the oracles by ``far``, is right nonetheless; empty if it is not.

        ``values``: the node's inputs as Rillet has them, as far as known.
        """
        node = self._nodes.get(name)
        if node is None or any(n not in values and n not in self._model.constants for n in node.reads):
            return ""
        follows = self._follows_a_step(node)
        if not follows and not any(d.max_abs <= 1 for d in far.values()):
            return ""
        expected = self._alone(node, name, values)
        found = ""
        if expected is not None and follows and difference(actual, expected).agrees:
            found = FOLLOWS
        elif expected is not None and self._rounds_either_way(name, actual, expected, values):
            count = int(np.sum(actual != expected))
            found = f"{count} of {actual.size} elements differ by one step, at a tie of the rounding"
            if not count:
                found = "its input, which differs as floats may, is nearly a tie of the rounding"
        if found:
            self._stepped.add(name)
        return found

    def _follows_a_step(self, node: ComputingNode) -> bool:
        pending, seen = list(node.reads), set()
        while pending:
            name = pending.pop()
            if name in self._stepped:
                return True
            if name not in seen and name in self._nodes:
                pending.extend(self._nodes[name].reads)
            seen.add(name)
        return False

    def _alone(self, node: ComputingNode, name: str, values: Arrays) -> np.ndarray | None:
        """The node's output ``name`` from the first oracle that can compute it."""
        part = self._model.part([name], sorted({n for n in node.reads if n in self._nodes}), values)
        feeds = given(part.inputs, values)
        for run in part.oracles().values():
            try:
                return np.asarray(run(feeds, [name])[name])
            except OracleError:
                continue
        return None

    def _rounds_either_way(self, name: str, actual: np.ndarray, expected: np.ndarray, values: Arrays) -> bool:
        """Whether each element is what its quotient rounds to, moved by the tolerance of floats."""
        if actual.dtype != expected.dtype or actual.shape != expected.shape or not _is_integer(actual.dtype):
            return False
        wide = actual.astype(np.int64)
        if np.abs(wide - expected.astype(np.int64)).max(initial=0) > 1:
            return False
        rounding = self._model.rounding(name, values)
        if rounding is None:
            return False
        quotient, tolerance = _quotient(rounding)
        limits = ml_dtypes.iinfo(actual.dtype)
        low, high = (np.clip(np.rint(quotient + t), int(limits.min), int(limits.max)) for t in (-tolerance, tolerance))
        return bool(np.all((wide >= low) & (wide <= high)))


def _quotient(rounding: Rounding) -> tuple[np.ndarray, np.ndarray]:
    """The quotient before rounding, zero point included, and its tolerance."""
    relative, absolute = TOLERANCES["float32"]
    finite = np.abs(rounding.real[np.isfinite(rounding.real)]).max(initial=0.0)
    with np.errstate(all="ignore"):
        quotient = rounding.real / rounding.scale + rounding.zero_point
        return quotient, (relative * finite + absolute) / np.abs(rounding.scale)


def _is_integer(dtype: Any) -> bool:
    return np.dtype(dtype).kind in "iu" or np.dtype(dtype).name in ("int4", "uint4", "int2", "uint2")

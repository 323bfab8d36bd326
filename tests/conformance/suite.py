"""ONNX's own backend test suite, run against ``rillet.onnx_backend`` with the suite's comparisons and tolerances.

Kinds: ``node``, ``simple``, ``pytorch-converted`` and ``pytorch-operator``. The ``real`` models are left out here: they
are the light models that tests/e2e compares with ONNX Runtime.
"""

from __future__ import annotations

import functools
import os
import tomllib
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx
from onnx.backend.test.runner import Runner

from rillet.errors import RilletError
from rillet.onnx_backend import RilletBackend, RilletBackendRep

_LIST = Path(__file__).with_name("expected_failures.toml")
_KINDS = {
    "OnnxBackendNodeModelTest": "node",
    "OnnxBackendSimpleModelTest": "simple",
    "OnnxBackendPyTorchConvertedModelTest": "pytorch-converted",
    "OnnxBackendPyTorchOperatorModelTest": "pytorch-operator",
}
# How a failure looks: refused with an error of Rillet, computed with another result, or any other exception.
REFUSED, DIFFERENT, ERROR = "refused", "different", "error"


class _Backend(RilletBackend):
    """Compiles in this process and keeps the last model, which a report may ask about."""

    last: RilletBackendRep | None = None

    @classmethod
    def is_compatible(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> bool:
        return True  # the suite skips what is not; a refusal must be seen

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> RilletBackendRep:
        cls.last = None
        cache = os.environ.get("RILLET_CONFORMANCE_CACHE") or True
        cls.last = super().prepare(model, device, jobs=1, threads=1, cache=cache, **kwargs)
        return cls.last


@dataclass(frozen=True)
class Case:
    """One test of the suite. ``run`` raises when the test fails."""

    name: str  # "node/test_abs"
    run: Callable[[], None]

    @property
    def kind(self) -> str:
        return self.name.partition("/")[0]


@dataclass(frozen=True)
class Outcome:
    """How a test went: ``status`` is "passed" or what the failure looks like."""

    status: str
    reason: str = ""
    specialized: bool = False  # compiled for the value of an input


@functools.cache
def cases() -> dict[str, Case]:
    """Every test by name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # numpy's, from the suite's own examples
        classes = Runner(_Backend).test_cases
    found = {}
    for class_name, kind in _KINDS.items():
        for attribute, function in vars(classes[class_name]).items():
            if attribute.endswith("_cpu"):
                name = f"{kind}/{attribute.removesuffix('_cpu')}"
                found[name] = Case(name, functools.partial(function, None))
    return found


def run(case: Case) -> Outcome:
    """Run one test."""
    try:
        case.run()
    except RilletError as error:
        return Outcome(REFUSED, str(error))
    except AssertionError as error:
        return Outcome(DIFFERENT, str(error).strip())
    except Exception as error:
        return Outcome(ERROR, f"{type(error).__name__}: {error}")
    return Outcome("passed", specialized=_Backend.last is not None and bool(_Backend.last.model.keys))


def expected_failures() -> dict[str, tuple[str, str]]:
    """The checked-in list: test name → (how it fails, why)."""
    table = tomllib.loads(_LIST.read_text())
    return {name: (status, reason) for status, entries in table.items() for name, reason in entries.items()}

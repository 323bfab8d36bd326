"""The state that passes through the pipeline: a module, and the arrays of its external constants."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from torch_mlir import ir

from rillet.ir.context import make_context

# Symbols of the module that no constant may have.
_TAKEN = {"main", "kernels"}


class Constants:
    """Arrays by symbol name. Arrays are held by reference, never copied, and treated as read-only."""

    def __init__(self) -> None:
        self._arrays: dict[str, np.ndarray] = {}
        self._last: dict[str, int] = {}  # the last suffix of each name

    def add(self, array: np.ndarray, hint: str = "constant") -> str:
        """Store ``array`` under a fresh name derived from ``hint`` and return the name."""
        stem = "".join(c if c.isalnum() or c == "_" else "_" for c in hint) or "constant"
        name = stem
        while name in self._arrays or name in _TAKEN:
            self._last[stem] = self._last.get(stem, 0) + 1
            name = f"{stem}_{self._last[stem]}"
        self._arrays[name] = array
        return name

    def __getitem__(self, name: str) -> np.ndarray:
        return self._arrays[name]

    def __setitem__(self, name: str, array: np.ndarray) -> None:
        self._arrays[name] = array

    def __delitem__(self, name: str) -> None:
        del self._arrays[name]

    def get(self, name: str) -> np.ndarray | None:
        """The array under this key, or None."""
        return self._arrays.get(name)

    def __contains__(self, name: str) -> bool:
        return name in self._arrays

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)


@dataclass
class Program:
    """A model between the frontend and the module file.

    ``defaults``: the values, by name, of inputs that calls may leave out.
    """

    module: ir.Module
    constants: Constants = field(default_factory=Constants)
    defaults: dict[str, np.ndarray] = field(default_factory=dict)

    @property
    def context(self) -> ir.Context:
        """The MLIR context that owns the module."""
        return self.module.context

    @staticmethod
    def parse(text: str, constants: Constants | None = None) -> Program:
        """Parse MLIR text in a fresh context. Raises ``ir.MLIRError`` on invalid text."""
        context = make_context()
        return Program(ir.Module.parse(text, context), constants or Constants())

    def main(self) -> ir.Operation:
        """The ``func.func @main`` of the program."""
        return self.function("main")

    def function(self, name: str) -> ir.Operation:
        """The ``func.func`` with this name. Raises ``KeyError`` when there is none."""
        for op in self.module.body.operations:
            if op.operation.name == "func.func" and ir.StringAttr(op.attributes["sym_name"]).value == name:
                return op.operation
        raise KeyError(f"the module has no function @{name}")

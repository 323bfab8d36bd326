"""Extents of a kernel's tensors as values of the code that is built."""

from __future__ import annotations

from typing import Protocol

from torch_mlir import ir

from rillet.codegen.index import Index
from rillet.codegen.recognize.kernel_function import KernelFunction
from rillet.errors import CompileError
from rillet.ir.builders import Extent
from rillet.ir.extents import Sizes
from rillet.ir.rewrite import defining, is_defined_by
from rillet.ir.structured import DYNAMIC, Structured


class Scalars(Protocol):
    """The code that is being built, seen only as the owner of a function's scalars: a ``KernelBuilder``."""

    function: KernelFunction

    def scalar(self, value: ir.Value) -> ir.Value:
        """A scalar of the function as a value of the code."""
        ...

    def dims(self, value: ir.Value) -> list[Index] | None:
        """The extents of an argument or result of the function; None for any other tensor."""
        ...


def loop_sizes(kernel: Scalars, view: Structured) -> list[Index]:
    """The extent of each loop. A dynamic extent is read off the first operand axis that the loop runs over alone.
    Raises ``CompileError`` for a loop that runs over no axis."""
    sizes: list[Index | None] = [None if e == DYNAMIC else e for e in view.extents]
    for operand, map_ in view.operands:
        for axis, expr in enumerate(map_):
            if isinstance(expr, int) and sizes[expr] is None:
                sizes[expr] = KernelSizes(kernel).extent(operand, axis)
    known = [e for e in sizes if e is not None]
    if len(known) < view.loops:
        raise CompileError(f"kernel @{kernel.function.name}: a loop's extent is not an axis of any operand")
    return known


class KernelSizes(Sizes):
    """Extents of a kernel's tensors. Raises ``CompileError`` for a tensor whose op does not say its shape."""

    def __init__(self, kernel: Scalars) -> None:
        super().__init__()
        self._kernel = kernel

    def derived(self, value: ir.Value, axis: int) -> Extent:
        """The extent of an argument or result, from the function's scalars."""
        dims = self._kernel.dims(value)
        return super().derived(value, axis) if dims is None else dims[axis]

    def scalar(self, operand: Extent) -> Extent:
        """A scalar of the function as a value of the code."""
        known = super().scalar(operand)
        return known if isinstance(known, int) else self._kernel.scalar(known)

    def element(self, shape: ir.Value, position: int) -> Extent:
        """None is known: code has no tensors of extents."""
        if not is_defined_by(shape, "tensor.from_elements"):
            name = self._kernel.function.name
            raise CompileError(f"kernel @{name}: tensor.reshape needs its shape as tensor.from_elements")
        return super().element(shape, position)

    def unknown(self, value: ir.Value, axis: int) -> Extent:
        """None is known: code reads only the elements of a tensor."""
        op = defining(value)
        what = "a loop-carried tensor" if op is None else f"the result of {op.name}"
        raise CompileError(f"kernel @{self._kernel.function.name}: {what} must have static extents")

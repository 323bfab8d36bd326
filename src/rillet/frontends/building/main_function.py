"""``@main`` of a program that a frontend builds: arguments with names, a builder for the body, results with names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from torch_mlir import ir
from torch_mlir.dialects import arith, func

from rillet.frontends.building.builder import Builder
from rillet.frontends.building.tensor import Tensor
from rillet.frontends.frontend import InputSpec
from rillet.ir import Program, builders, dtypes, thread_context
from rillet.ir.attributes import DIMS, DTYPE, NAME
from rillet.ir.builders import Extent
from rillet.ir.structured import DYNAMIC


@dataclass(frozen=True)
class Result:
    """A result of ``@main``. ``dims`` are names for its dimensions, "" for none; it may be shorter than the rank."""

    name: str
    tensor: Tensor
    dims: Sequence[str] = ()


class MainFunction:
    """The function while its body is built; made by ``main_function``.

    ``arguments`` are the tensors of ``inputs``, in order; ``b`` builds the body. ``finish`` ends it.
    """

    def __init__(self, program: Program, inputs: Sequence[InputSpec]):
        self.program = program
        self.inputs = tuple(inputs)
        self._types = [_type(spec) for spec in inputs]
        with ir.InsertionPoint(program.module.body):
            self._op = func.FuncOp("main", ir.FunctionType.get(self._types, []))
        self.body = self._op.add_entry_block()
        with ir.InsertionPoint(self.body):
            self._anchor = arith.ConstantOp(ir.IndexType.get(), 0)
            self.b = Builder(program, self._anchor.operation)
            self._named: dict[str, ir.Value] = {}  # extents of dimensions
            self.arguments = [self._argument(s, v) for s, v in zip(inputs, self.body.arguments, strict=True)]

    def finish(self, results: Sequence[Result]) -> None:
        """End the body and return ``results``."""
        values = [self.b.value(result.tensor) for result in results]
        func.ReturnOp(values)
        type_ = ir.FunctionType.get(self._types, [value.type for value in values])
        self._op.operation.attributes["function_type"] = ir.TypeAttr.get(type_)
        self._op.arg_attrs = ir.ArrayAttr.get([_edge(i.name, i.dtype, i.dims) for i in self.inputs])
        self._op.operation.attributes["res_attrs"] = ir.ArrayAttr.get(
            [_edge(r.name, r.tensor.dtype, self._dims(r)) for r in results]
        )
        if not list(self._anchor.result.uses):
            self._anchor.operation.erase()

    def _argument(self, spec: InputSpec, value: ir.Value) -> Tensor:
        """Dimensions of one name are one extent; the runtime checks that they agree."""
        shape: list[Extent] = []
        with ir.Location.name(spec.name):
            for axis, d in enumerate(spec.dims):
                if isinstance(d, str) and d not in self._named:
                    extent = builders.dim(value, axis)
                    assert isinstance(extent, ir.Value)
                    self._named[d] = self.b.extents.declare(extent)
                shape.append(self._named[d] if isinstance(d, str) else d)
        return self.b.tensor(value, spec.dtype, shape)

    def _dims(self, result: Result) -> list[int | str]:
        """Sizes and names for the dimensions of a result: the input's where it is one, else the given name."""
        dims: list[int | str] = []
        for axis, extent in enumerate(result.tensor.shape):
            if isinstance(extent, int):
                dims.append(extent)
                continue
            known = next((name for name, value in self._named.items() if self.b.extents.equal(value, extent)), "")
            given = result.dims[axis] if axis < len(result.dims) else ""
            dims.append(known or given or f"{result.name}_{axis}")
        return dims


@contextmanager
def main_function(inputs: Sequence[InputSpec]) -> Iterator[MainFunction]:
    """A new program whose ``@main`` takes ``inputs``; the block builds its body and ends with ``finish``."""
    context = thread_context()
    with context, ir.Location.unknown(context):
        main = MainFunction(Program(ir.Module.create()), inputs)
        with ir.InsertionPoint(main.body):
            yield main


def _type(spec: InputSpec) -> ir.Type:
    shape = [d if isinstance(d, int) else DYNAMIC for d in spec.dims]
    return ir.RankedTensorType.get(shape, dtypes.mlir_type(spec.dtype))


def _edge(name: str, dtype: str, dims: Sequence[int | str]) -> ir.Attribute:
    """The attributes of an argument or result."""
    entries = {NAME: ir.StringAttr.get(name), DTYPE: ir.StringAttr.get(dtype)}
    if any(isinstance(d, str) for d in dims):
        entries[DIMS] = ir.ArrayAttr.get([ir.StringAttr.get(str(d)) for d in dims])
    return ir.DictAttr.get(entries)

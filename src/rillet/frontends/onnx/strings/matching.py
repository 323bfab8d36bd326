"""Strings run through an automaton."""

from __future__ import annotations

from torch_mlir import ir

from rillet.frontends.building.builder import Builder
from rillet.frontends.building.conversions import convert
from rillet.frontends.building.loops import for_range, store
from rillet.frontends.building.scalars import Scalar, constant
from rillet.frontends.building.tensor import Tensor
from rillet.frontends.onnx.strings.ranges import Reader
from rillet.frontends.onnx.strings.regex.automaton import Automaton
from rillet.frontends.onnx.strings.tensor import StringTensor


def full_match(b: Builder, x: StringTensor, automaton: Automaton) -> Tensor:
    """Whether the automaton accepts each string as a whole."""
    classes, steps, accepts = (
        b.value(b.constant(array, name="pattern")) for array in (automaton.classes, automaton.steps, automaton.accepts)
    )
    source = Reader(b, x)

    def one(position: Scalar, result: ir.Value) -> ir.Value:
        text = source.range(position)

        def step(at: Scalar, state: ir.Value) -> ir.Value:
            byte = convert(source.byte(at), "index")
            column = convert(b.element(classes, "int32", [byte]), "index")
            return convert(b.element(steps, "int32", [Scalar(state, "index"), column]), "index").value

        last = Scalar(for_range(text.first, text.last, [constant(0, "index").value], step)[0], "index")
        return store(b.element(accepts, "bool", [last]), "bool", result, [position])

    count = b.extents.product(x.shape)
    flags = for_range(0, count, [b.empty("bool", [count])], one)[0]
    return b.reshape(b.tensor(flags, "bool", [count]), x.shape)

"""Finds the parts of a softmax: more is known about them than their ops say.

Let ``m`` be the maximum of the ``x`` of one row. Then:

- The exponential of ``x - m`` never sees a positive number.
- Its quotient by the sum of the row's exponentials lies between 0 and 1. The divisor is the same for the whole row, at
  least 1 and small. So one reciprocal for each row is enough, and neither overflow nor zero needs care.
- Where nothing else reads the maximum, it need not look for NaN: a NaN among the ``x`` makes the sum NaN, and so every
  quotient.
- Where nothing else reads the exponentials, they may all be too large by one factor.
"""

from __future__ import annotations

from torch_mlir import ir

from rillet.codegen.recognize.accumulation import combinations_of
from rillet.codegen.recognize.kernel_function import KernelFunction
from rillet.codegen.recognize.shared_dimensions import Dimension, Dimensions
from rillet.ir.rewrite import defining, is_defined_by
from rillet.ir.structured import Structured

SHARE = "rillet.share"  # on an arith.divf
NONPOSITIVE = "rillet.nonpositive"  # on a math.exp
SCALED = "rillet.scaled"  # on such a math.exp: its results may be too large by one power of two
_WIDE_ENOUGH = ir.F32Type | ir.F64Type


class SoftmaxRows:
    """The facts that hold within a row, which is a point of the ``fixed`` dimensions."""

    def __init__(self, function: KernelFunction, dimensions: Dimensions, fixed: set[Dimension]):
        self._function = function
        self._dimensions = dimensions
        self._fixed = fixed

    def is_nonpositive(self, exponential: ir.Value) -> bool:
        """Whether this ``math.exp`` is one of ``x - m``."""
        difference = self._origin(self._generic_of(exponential), exponential.owner.operands[0])
        if not is_defined_by(difference, "arith.subf"):
            return False
        generic = self._generic_of(difference)
        value, largest = (self._origin(generic, v) for v in difference.owner.operands)
        reduced = self._reduced(largest, "arith.maximumf")
        return reduced is not None and reduced == value

    def is_share(self, generic: Structured, division: ir.Operation) -> bool:
        """Whether this ``arith.divf`` is one of such an exponential by the sum of all of them."""
        exponential, total = (self._origin(generic, v) for v in division.operands)
        if not is_defined_by(exponential, "math.exp"):
            return False
        reduced = self._reduced(total, "arith.addf")
        return reduced is not None and reduced == exponential and self.is_nonpositive(exponential)

    def closed_softmax(self, maximum: Structured) -> ir.Operation | None:
        """The exponential that alone reads a reduction's result, when its own results go only into marked divisions and
        the sums that they divide by; else None."""
        combinations = combinations_of(maximum)
        generic = self._only_reader(maximum.results[0])
        if not combinations or combinations[0].op != "arith.maximumf" or generic is None or len(generic.results) != 1:
            return None
        operations = [op.operation for op in generic.body.operations]
        if len(operations) < 2:
            return None
        exponential = operations[-2]
        value = exponential.results[0] if len(exponential.results) == 1 else None
        if value is None or NONPOSITIVE not in exponential.attributes or not isinstance(value.type, _WIDE_ENOUGH):
            return None
        arguments = [a for a, v in zip(generic.body.arguments, generic.inputs, strict=False) if v in maximum.results]
        difference = exponential.operands[0]
        once = all(len(list(v.uses)) == 1 for v in (*arguments, difference, value))
        if len(arguments) != 1 or not once or difference.owner.operands[1] != arguments[0]:
            return None
        powers = generic.results[0]
        readers = self._function.uses.get(powers, ())
        inside = not self._function.is_result(powers) and all(self._sums_or_divides(r, value) for r in readers)
        return exponential if inside else None

    def _only_reader(self, value: ir.Value) -> Structured | None:
        readers = self._function.uses.get(value, ())
        if self._function.is_result(value) or len(readers) != 1 or readers[0].name != "linalg.generic":
            return None
        generic = self._function.generic_of(readers[0].results[0])
        return generic if generic is not None and generic.is_parallel and value in generic.inputs else None

    def _sums_or_divides(self, reader: ir.Operation, exponential: ir.Value) -> bool:
        generic = self._function.generic_of(reader.results[0]) if reader.name == "linalg.generic" else None
        if generic is None:
            return False
        if not generic.is_parallel:
            total = generic.results[0]
            sums = self._reduced(total, "arith.addf") == exponential and _starts_at_zero(generic)
            divides = (self._only_divides(r, total) for r in self._function.uses.get(total, ()))
            return sums and not self._function.is_result(total) and all(divides)
        return self._only_divides(reader, exponential)

    def _only_divides(self, reader: ir.Operation, value: ir.Value) -> bool:
        """Whether a generic uses a value (a tensor, or its scalar) in marked divisions only."""
        generic = self._function.generic_of(reader.results[0]) if reader.name == "linalg.generic" else None
        if generic is None or not generic.is_parallel:
            return False
        read = [a for a in generic.body.arguments if self._origin(generic, a) == value]
        return bool(read) and all(SHARE in use.owner.operation.attributes for a in read for use in a.uses)

    def _reduced(self, value: ir.Value, op: str) -> ir.Value | None:
        """The tensor whose rows ``value`` reduces by ``op``; None when ``value`` is no such reduction."""
        generic = self._function.generic_of(value)
        if generic is None or generic.is_parallel or len(generic.results) != 1:
            return None
        loops = {self._dimensions.loop(generic, n) for n in generic.parallel_loops}
        combinations = combinations_of(generic)
        if not combinations or combinations[0].op != op or not loops <= self._fixed:
            return None
        accumulator = list(generic.body.arguments)[-1]
        (element,) = [v for v in combining(generic).operands if v != accumulator]
        return self._origin(generic, element)

    def _origin(self, generic: Structured, value: ir.Value) -> ir.Value:
        """A scalar of a generic's body traced back through point-wise generics: to the op that computes it, else to
        the tensor it is read from."""
        while isinstance(value.owner, ir.Block) and value.owner == generic.body:
            number = ir.BlockArgument(value).arg_number
            if number >= len(generic.inputs):
                return value
            tensor = generic.inputs[number]
            producer = self._function.generic_of(tensor)
            if producer is None or not producer.is_parallel:
                return tensor
            value = producer.yielded()[producer.results.index(tensor)]
            generic = producer
        return value

    def _generic_of(self, value: ir.Value) -> Structured:
        """The generic whose body computes an op's result."""
        return next(g for g in self._function.generics if g.op == value.owner.parent)


def combining(reduction: Structured) -> ir.Operation:
    """The op that combines the accumulator of a reduction with one result."""
    combining = defining(reduction.yielded()[0])
    assert combining is not None
    return combining


def _starts_at_zero(reduction: Structured) -> bool:
    init = defining(reduction.inits[0])
    if init is None or init.name != "linalg.fill":
        return False
    value = defining(init.operands[0])
    return value is not None and value.name == "arith.constant" and ir.FloatAttr(value.attributes["value"]).value == 0.0

"""Loop and Scan: host loops (``scf.for``, or ``scf.while`` with a condition that only run time knows).

The body is imported to find out which extents of the carried tensors change from one iteration to the next; those
travel as ``index`` values of their own, and the import is repeated until nothing else changes. Loops that carry
sequences, or tensors whose rank changes, are unrolled; their trip count must be known.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from torch_mlir import ir
from torch_mlir.dialects import arith, scf

from rillet.frontends.building.conversions import convert
from rillet.frontends.building.drafts import give_up
from rillet.frontends.building.scalars import constant
from rillet.frontends.building.tensor import Tensor
from rillet.frontends.errors import InvalidNode, UnsupportedFeature
from rillet.frontends.onnx.node import Node
from rillet.frontends.onnx.ops.shape import reverse
from rillet.frontends.onnx.registry import op
from rillet.ir import builders
from rillet.ir.builders import Extent
from rillet.ir.structured import DYNAMIC

if TYPE_CHECKING:
    import onnx

_MAX_UNROLLED = 4096  # iterations


@dataclass
class _Carried:
    """A carried tensor: its extents, None where they change from iteration to iteration."""

    dtype: str
    shape: list[Extent | None]

    @property
    def type(self) -> ir.Type:
        dims = [DYNAMIC if d is None else d for d in self.shape]
        return builders.tensor_type(dims, _element(self.dtype))

    @property
    def changing(self) -> list[int]:
        return [axis for axis, d in enumerate(self.shape) if d is None]


@dataclass
class _Plan:
    """What a loop carries: the state tensors, and for each scan output its element's extents (None: changing)."""

    state: list[_Carried]
    scans: list[_Carried] = field(default_factory=list)
    preallocated: bool = False
    condition: Extent | bool | None = True


def _element(dtype: str) -> ir.Type:
    from rillet.frontends.building.element_types import element_type

    return element_type(dtype)


@op("Loop")
def loop(node: Node, trip: Tensor | None = None, condition: Tensor | None = None, *initial: Any) -> list[Any]:
    """``for i in range(trip): if not condition: break; (condition, state, scans) = body(i, condition, state)``

    Raises UnsupportedFeature for a carried sequence when the trip count or the condition is not known, and InvalidNode
    for a body with another number of outputs.
    """
    b = node.b
    graph = node.attr("body")
    # A negative trip count is none.
    count = None if trip is None else b.extents.maximum(b.extents_of(trip, "the trip count")[0], 0)
    if condition is not None and condition.array is not None and not bool(condition.array.reshape(-1)[0]):
        count = 0
    given = condition is not None and condition.array is None

    def arguments(i: ir.Value | int, state: Sequence[Any]) -> list[Any]:
        number = b.symbolic([i], [], "int64")
        return [number, b.constant(True), *state]

    body = lambda i, state: node.run_graph(graph, arguments(i, state))  # noqa: E731
    if count == 0:  # whatever the condition
        return [*initial, *_no_elements(node, graph, initial, body)]
    if isinstance(count, int) and _must_unroll(graph, initial, count, given):
        return _unrolled(node, graph, count, initial, body)
    if not all(isinstance(t, Tensor) for t in initial):
        raise UnsupportedFeature(
            "it carries a sequence and its trip count or condition is not known at compile time",
            "make the trip count an initializer",
        )
    scan_count = len(graph.output) - 1 - len(initial)
    if scan_count < 0:
        raise InvalidNode(f"the body gives {len(graph.output)} outputs for {len(initial)} carried values")
    outer = b.scalar(condition).value if given and condition is not None else None
    return _Builder(node, body, count, outer, list(initial), has_condition=True).build()


def _must_unroll(graph: onnx.GraphProto, initial: Sequence[Any], count: int, given: bool) -> bool:
    """Whether the loop carries what only an unrolled loop can: a sequence, or another type each time."""
    if given or count > _MAX_UNROLLED:
        return False
    if not all(isinstance(t, Tensor) for t in initial):
        return True
    return any(o.type.HasField("sequence_type") or o.type.HasField("optional_type") for o in graph.output)


def _unrolled(
    node: Node,
    graph: onnx.GraphProto,
    count: int,
    state: Sequence[Any],
    body: Callable[[int, Sequence[Any]], list[Any]],
) -> list[Any]:
    b = node.b
    carried = list(state)
    scans: list[list[Tensor]] = [[] for _ in range(len(graph.output) - 1 - len(carried))]
    for i in range(count):
        going, *results = body(i, carried)
        carried, elements = results[: len(carried)], results[len(carried) :]
        for scan, element in zip(scans, elements, strict=True):
            scan.append(b.unsqueeze(element, [0]))
        if going.array is None:
            raise UnsupportedFeature(
                "a loop over sequences whose condition is not known at compile time",
                "make the trip count an initializer",
            )
        if not bool(going.array.reshape(-1)[0]):
            break
    return [*carried, *(b.concat(scan, 0) for scan in scans)]


def _no_elements(
    node: Node, graph: onnx.GraphProto, initial: Sequence[Any], body: Callable[[Any, Sequence[Any]], list[Any]]
) -> list[Tensor]:
    """The scan outputs of a loop that does not run.

    Extents of an element that are known before the loop are kept, as in a loop of zero trips at run time. The others
    are 0.
    """
    from rillet.frontends.onnx.node import dtype_name

    declared = [o.type.tensor_type for o in graph.output[1 + len(initial) :]]
    known = [t.HasField("shape") and all(d.HasField("dim_value") for d in t.shape.dim) for t in declared]
    if not all(known) and all(isinstance(t, Tensor) for t in initial):
        elements = _Builder(node, body, 0, None, list(initial), has_condition=True).plan().scans
    else:
        dims = [[d.dim_value for d in t.shape.dim] for t in declared]  # 0 where it has a name
        elements = [_Carried(dtype_name(t.elem_type), list(d)) for t, d in zip(declared, dims, strict=True)]
    return [node.b.fill(0, e.dtype, [0, *(0 if d is None else d for d in e.shape)]) for e in elements]


class _Builder:
    """Builds one loop; see the module's docstring."""

    def __init__(
        self,
        node: Node,
        body: Callable[[ir.Value, Sequence[Any]], list[Any]],
        count: Extent | None,
        condition: ir.Value | None,
        initial: list[Tensor],
        has_condition: bool,
    ):
        self.body, self.b = body, node.b
        self.count, self.condition, self.initial = count, condition, initial
        self.has_condition = has_condition

    def build(self) -> list[Tensor]:
        """The final state and the scan outputs."""
        return self._emit(self.plan())

    def plan(self) -> _Plan:
        """Find out what the loop carries, without building it."""
        plan = _Plan([_Carried(t.dtype, list(t.shape)) for t in self.initial])
        # Every round makes at least one more extent a changing one.
        while True:
            found = self._draft(plan)
            if found is None:
                return plan
            plan = found

    # --- finding out what changes ---

    def _draft(self, plan: _Plan) -> _Plan | None:
        """Import the body in a region that is given up: the relaxed plan, or None when ``plan`` fits."""
        operation = self._loop_op(plan, [])
        block = operation.regions[0].blocks[0]
        self.b.extents.push()
        with ir.InsertionPoint(block):
            i = block.arguments[0]
            state = self._bind(plan, list(block.arguments)[1:])
            results = list(self.body(i, state))
            relaxed = self._compare(plan, results, state, operation)
        self.b.extents.pop()
        give_up(operation)
        return relaxed

    def _compare(
        self, plan: _Plan, results: list[Tensor], state: list[Tensor], operation: ir.Operation
    ) -> _Plan | None:
        going = results.pop(0) if self.has_condition else None
        after, scans = results[: len(state)], results[len(state) :]
        changed = False
        carried: list[_Carried] = []
        for known, old, new in zip(plan.state, state, after, strict=True):
            if not isinstance(new, Tensor) or old.rank != new.rank or old.dtype != new.dtype:
                raise UnsupportedFeature(
                    "a carried value changes its rank or type from iteration to iteration",
                    "make the trip count an initializer",
                )
            shape = [
                k if k is None or self.b.extents.equal(x, y) else None
                for k, x, y in zip(known.shape, old.shape, new.shape, strict=True)
            ]
            changed |= any(k is not None and s is None for k, s in zip(known.shape, shape, strict=True))
            carried.append(_Carried(known.dtype, shape))
        if changed:
            return _Plan(carried)
        condition: bool | None = True
        if going is not None and not (going.array is not None and bool(going.array.reshape(-1)[0])):
            condition = None
        elements = [_Carried(t.dtype, [None if _is_inside(d, operation) else d for d in t.shape]) for t in scans]
        fixed = self.count is not None and not any(e.changing for e in elements)
        done = _Plan(plan.state, elements, fixed, condition)
        plan.scans, plan.preallocated, plan.condition = done.scans, done.preallocated, done.condition
        return None

    # --- building ---

    def _state_types(self, plan: _Plan) -> list[ir.Type]:
        index = ir.IndexType.get()
        return [c.type for c in plan.state] + [index for c in plan.state for _ in c.changing]

    def _initial_values(self, plan: _Plan) -> list[ir.Value]:
        values = [
            builders.cast(self.b.value(t), [DYNAMIC if d is None else d for d in c.shape])
            for t, c in zip(self.initial, plan.state, strict=True)
        ]
        return values + self._changing(plan.state, self.initial)

    @staticmethod
    def _changing(plan: Sequence[_Carried], tensors: Sequence[Tensor]) -> list[ir.Value]:
        return [builders.as_index(t.shape[a]) for t, c in zip(tensors, plan, strict=True) for a in c.changing]

    def _loop_op(self, plan: _Plan, extra: list[ir.Value]) -> ir.Operation:
        high = builders.as_index(1 if self.count is None else self.count)
        return scf.ForOp(builders.index(0), high, builders.index(1), [*self._initial_values(plan), *extra]).operation

    def _bind(self, plan: _Plan, values: list[ir.Value]) -> list[Tensor]:
        """The carried tensors from loop-carried values; the others of ``values`` are left alone."""
        extents = iter(values[len(plan.state) :])
        result = []
        for carried, value in zip(plan.state, values, strict=False):
            shape = [d if d is not None else self.b.extents.declare(next(extents)) for d in carried.shape]
            result.append(self.b.tensor(value, carried.dtype, shape))
        return result

    def _scan_start(self, plan: _Plan) -> list[ir.Value]:
        """Buffers of the scan outputs, and the changing extents of their elements."""
        buffers, extents = [], []
        for scan in plan.scans:
            if plan.preallocated:
                assert self.count is not None
                shape = [self.count, *(d for d in scan.shape if d is not None)]
                buffers.append(builders.empty(shape, _element(scan.dtype)))
                continue
            empty = builders.empty([0, *(0 if d is None else d for d in scan.shape)], _element(scan.dtype))
            dynamic = [DYNAMIC, *(DYNAMIC if d is None else d for d in scan.shape)]
            buffers.append(builders.cast(empty, dynamic))
            extents += [builders.index(0) for _ in scan.changing]
        return [*buffers, *extents]

    def _append(self, plan: _Plan, buffers: list[ir.Value], elements: list[Tensor], i: ir.Value) -> list[ir.Value]:
        """The buffers with one more element each, and the elements' changing extents."""
        grown, extents = [], []
        for scan, buffer, element in zip(plan.scans, buffers, elements, strict=True):
            row = self.b.unsqueeze(element, [0])
            if plan.preallocated:
                offsets: list[Extent] = [i, *([0] * element.rank)]
                grown.append(builders.insert_slice(self.b.value(row), buffer, offsets, row.shape, [1] * row.rank))
                continue
            size = self.b.extents.add(i, 1)
            shape = [size, *element.shape]
            # Before the first iteration the elements' extents are not known: they are 0 there, as there is no element.
            before = builders.reshape(buffer, [i, *element.shape]) if scan.changing else buffer
            joined = builders.concat([before, self.b.value(row)], 0, shape)
            dynamic = [DYNAMIC, *(DYNAMIC if d is None else d for d in scan.shape)]
            grown.append(builders.cast(joined, dynamic))
            extents += [builders.as_index(element.shape[a]) for a in scan.changing]
        return [*grown, *extents]

    def _emit(self, plan: _Plan) -> list[Tensor]:
        # Upstream gives a carried tensor of an scf.for the static type that its initial value was cast from, which is
        # wrong for one that changes its size.
        grows = any(c.changing for c in plan.state) or (plan.scans and not plan.preallocated)
        if plan.condition is True and self.condition is None and self.count is not None and not grows:
            return self._emit_for(plan)
        return self._emit_while(plan)

    def _step(self, plan: _Plan, i: ir.Value, values: list[ir.Value]) -> tuple[Tensor | None, list[ir.Value]]:
        """One iteration: the condition afterwards and the new loop-carried values."""
        width = len(self._state_types(plan))
        state = self._bind(plan, values[:width])
        results = list(self.body(i, state))
        going = results.pop(0) if self.has_condition else None
        after = results[: len(state)]
        new = [
            builders.cast(self.b.value(t), [DYNAMIC if d is None else d for d in c.shape])
            for t, c in zip(after, plan.state, strict=True)
        ]
        new += self._changing(plan.state, after)
        return going, [*new, *self._append(plan, values[width : width + len(plan.scans)], results[len(state) :], i)]

    def _emit_for(self, plan: _Plan) -> list[Tensor]:
        operation = self._loop_op(plan, self._scan_start(plan))
        block = operation.regions[0].blocks[0]
        self.b.extents.push()
        with ir.InsertionPoint(block):
            _, values = self._step(plan, block.arguments[0], list(block.arguments)[1:])
            scf.YieldOp(values)
        self.b.extents.pop()
        assert self.count is not None
        return self._results(plan, list(operation.results), self.count)

    def _emit_while(self, plan: _Plan) -> list[Tensor]:
        """``(i, going, values)`` go round while ``going`` holds and ``i`` is below the trip count."""
        true = constant(True, "bool").value
        start = [
            builders.index(0),
            self.condition if self.condition is not None else true,
            *self._initial_values(plan),
            *self._scan_start(plan),
        ]
        types = [v.type for v in start]
        operation = scf.WhileOp(types, start).operation
        before = ir.Block.create_at_start(operation.regions[0], types)
        with ir.InsertionPoint(before):
            flag = before.arguments[1]
            if self.count is not None:
                below = arith.cmpi(arith.CmpIPredicate.slt, before.arguments[0], builders.as_index(self.count))
                flag = arith.andi(flag, below)
            scf.ConditionOp(flag, list(before.arguments))
        after = ir.Block.create_at_start(operation.regions[1], types)
        self.b.extents.push()
        with ir.InsertionPoint(after):
            i = after.arguments[0]
            self.b.extents.declare(i)
            going, values = self._step(plan, i, list(after.arguments)[2:])
            flag = true if going is None else convert(self.b.scalar(going), "bool").value
            scf.YieldOp([self.b.extents.add(i, 1), flag, *values])
        self.b.extents.pop()
        steps = self.b.extents.declare(operation.results[0])
        return self._results(plan, list(operation.results)[2:], steps)

    def _results(self, plan: _Plan, values: list[ir.Value], steps: Extent) -> list[Tensor]:
        b = self.b
        width = len(self._state_types(plan))
        final = self._bind(plan, values[:width])
        buffers = values[width : width + len(plan.scans)]
        extents = iter(values[width + len(plan.scans) :])
        for scan, buffer in zip(plan.scans, buffers, strict=True):
            shape = [d if d is not None else b.extents.declare(next(extents)) for d in scan.shape]
            if plan.preallocated:
                assert self.count is not None
                whole = b.tensor(buffer, scan.dtype, [self.count, *shape])
                final.append(b.slice_axis(whole, 0, 0, steps))
            else:
                typed = builders.cast(buffer, [DYNAMIC if not isinstance(steps, int) else steps, *_static(shape)])
                final.append(b.tensor(typed, scan.dtype, [steps, *shape]))
        return final


def _static(shape: Sequence[Extent]) -> list[Extent]:
    return [d if isinstance(d, int) else DYNAMIC for d in shape]


def _is_inside(extent: Extent, operation: ir.Operation) -> bool:
    """Whether an extent is computed in a region of ``operation``."""
    if isinstance(extent, int):
        return False
    block = extent.owner if isinstance(extent.owner, ir.Block) else extent.owner.operation.block
    while block is not None:
        owner = block.owner.operation
        if owner == operation:
            return True
        if owner.name in ("func.func", "builtin.module"):
            return False
        block = owner.block
    return False


# --- Scan ---


@op("Scan", until=8)
def scan_batched(node: Node, lengths: Tensor | None = None, *inputs: Tensor) -> list[Tensor]:
    """Opset 8: the first dimension is the batch, and each batch is scanned on its own.

    Raises UnsupportedFeature for ``sequence_lens``.
    """
    b = node.b
    if lengths is not None:
        raise UnsupportedFeature("sequence_lens", "convert the model to opset 9 or newer")
    batch = inputs[0].shape[0]
    for tensor in inputs[1:]:
        batch = b.agree(batch, tensor.shape[0], "its inputs have batches of {0} and {1}")
    directions = node.attr("directions", None)

    def one(n: ir.Value, _: Sequence[Any]) -> list[Any]:
        parts = [b.squeeze(b.slice_axis(t, 0, n, 1), [0]) for t in inputs]
        return _scan(node, parts, directions, None, None, None)

    return _Builder(node, one, batch, None, [], has_condition=False).build()


@op("Scan", since=9)
def scan(node: Node, *inputs: Tensor) -> list[Tensor]:
    """The body maps the state and an element of each scan input to a new state and an element of each scan output."""
    return _scan(
        node,
        inputs,
        node.attr("scan_input_directions", None),
        node.attr("scan_input_axes", None),
        node.attr("scan_output_directions", None),
        node.attr("scan_output_axes", None),
    )


def _scan(
    node: Node,
    inputs: Sequence[Tensor],
    input_directions: list[int] | None,
    input_axes: list[int] | None,
    output_directions: list[int] | None,
    output_axes: list[int] | None,
) -> list[Tensor]:
    b = node.b
    graph = node.attr("body")
    scanned = node.attr("num_scan_inputs")
    initial, sequences = list(inputs[: len(inputs) - scanned]), list(inputs[len(inputs) - scanned :])
    if not sequences:
        raise InvalidNode("it has no scan inputs")
    axes = [node.axis(a, t.rank) for a, t in zip(input_axes or [0] * scanned, sequences, strict=True)]
    directions = input_directions or [0] * scanned
    count = sequences[0].shape[axes[0]]
    for tensor, axis in zip(sequences, axes, strict=True):
        count = b.agree(count, tensor.shape[axis], "its scan inputs have lengths of {0} and {1}")

    def arguments(i: ir.Value | int, state: Sequence[Any]) -> list[Any]:
        elements = []
        for sequence, axis, direction in zip(sequences, axes, directions, strict=True):
            at = b.extents.sub(b.extents.sub(count, 1), i) if direction else i
            elements.append(b.squeeze(b.slice_axis(sequence, axis, at, 1), [axis]))
        return [*state, *elements]

    def body(i: ir.Value | int, state: Sequence[Any]) -> list[Any]:
        """What the graph gives; the state keeps its shape, as ONNX wants."""
        after = node.run_graph(graph, arguments(i, state))
        kept = [
            b.refine(new, old.shape, info.name) for new, old, info in zip(after, initial, graph.output, strict=False)
        ]
        return [*kept, *after[len(initial) :]]

    results = _Builder(node, body, count, None, initial, has_condition=False).build()
    finished, outputs = results[: len(initial)], results[len(initial) :]
    for number, output in enumerate(outputs):
        if output_directions and output_directions[number]:
            output = reverse(node, output, [0])
        if output_axes and output_axes[number] % output.rank:
            axis = node.axis(output_axes[number], output.rank)
            order = list(range(1, output.rank))
            order.insert(axis, 0)
            output = b.transpose(output, order)
        finished.append(output)
    return finished

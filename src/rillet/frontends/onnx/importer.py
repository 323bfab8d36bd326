"""Walks an ONNX graph and builds the tensor form.

Each node takes the first of ``STEPS`` that knows what to do with it. A node that cannot be compiled is recorded, what
depends on it is skipped, and the walk goes on, so that one error lists all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from torch_mlir import ir
from torch_mlir.dialects import cf

from rillet.errors import CompileError, RilletError, UnsupportedError, UnsupportedNode
from rillet.frontends.building.builder import Builder
from rillet.frontends.building.drafts import erase_given_up
from rillet.frontends.building.main_function import MainFunction, Result, main_function
from rillet.frontends.building.scalars import Scalar
from rillet.frontends.building.tensor import Tensor
from rillet.frontends.errors import InvalidNode, UnsupportedFeature
from rillet.frontends.frontend import InputSpec, Shapes, Values
from rillet.frontends.onnx import functions
from rillet.frontends.onnx.boundary import (
    check_type,
    contradiction,
    declared_names,
    graph_inputs,
    string_inputs,
    string_parts,
    unequal_sizes,
    warn_of_contradictions,
)
from rillet.frontends.onnx.branches import Branches, DivergingBranches, Wanted, Way, tensors
from rillet.frontends.onnx.initializers import initializers
from rillet.frontends.onnx.node_use import NodeUse
from rillet.frontends.onnx.scope import SKIPPED, Scope, Skipped, Value
from rillet.frontends.onnx.sequences import flatten
from rillet.frontends.onnx.steps.control_flow import import_control_flow
from rillet.frontends.onnx.steps.fold import fold_known
from rillet.frontends.onnx.steps.function_bodies import expand_function_body
from rillet.frontends.onnx.steps.importers import call_importer
from rillet.frontends.onnx.steps.local_functions import call_local_function
from rillet.frontends.onnx.steps.run_time_axes import choose_axes
from rillet.frontends.onnx.steps.shape_arithmetic import compute_extents
from rillet.frontends.onnx.steps.strings import import_strings
from rillet.frontends.onnx.steps.validity import refuse_invalid
from rillet.frontends.onnx.strings.checks import received
from rillet.frontends.onnx.strings.tensor import StringTensor, from_array
from rillet.frontends.onnx.unknown_ops import is_known, why_unknown
from rillet.frontends.tensor_size import check_size
from rillet.ir import Program, dtypes, locations

if TYPE_CHECKING:
    import onnx

# Tried in this order; what no step takes is an unknown op.
STEPS: tuple[Callable[[NodeUse], Sequence[Value | None] | None], ...] = (
    call_local_function,  # the model's own functions come before ONNX's ops of that name
    refuse_invalid,  # the steps from here on rely on what the op's schema promises
    fold_known,
    import_strings,
    import_control_flow,
    compute_extents,  # shapes stay extents where they can, before an importer makes tensors of them
    choose_axes,
    call_importer,
    expand_function_body,
)


# Conditions behind each of which the rest of the model is imported twice: the work may double with each.
_MOST_FORKS = 32


class GraphImporter:
    """Imports one model into a fresh program. ``shapes`` replace those of its inputs by name.

    Initializers in ``optional`` become inputs with a default.
    """

    b: Builder

    def __init__(self, model: onnx.ModelProto, shapes: Shapes, values: Values, optional: Collection[str] = ()):
        self.model = model
        self._optional = optional
        self.functions: Mapping[tuple[str, str, str], onnx.FunctionProto] = {
            (f.domain, f.name, f.overload): f for f in model.functions
        }
        self.ranks: Mapping[str, int] = {
            info.name: len(info.type.tensor_type.shape.dim)
            for info in (*model.graph.value_info, *model.graph.output)
            if info.type.tensor_type.HasField("shape")
        }
        self._shapes = shapes
        self._values = values
        self._opsets = {o.domain if o.domain != "ai.onnx" else "": o.version for o in model.opset_import} or {"": 1}
        self._unsupported: list[UnsupportedNode] = []
        self._counter = 0
        self._forks = 0
        self._contradictions: dict[str, str] = {}  # of values between nodes
        self._other_outputs: dict[str, str] = {}

    def run(self) -> Program:
        """Import the whole model. Raises UnsupportedError, which lists every node that cannot be compiled.

        Raises CompileError for other faults.
        """
        try:
            return self._import_main()
        except UnsupportedError:
            raise
        except CompileError as error:
            # Names of dimensions are not always intended, so unequal sizes are an error only when something fails.
            if not (hint := unequal_sizes(self.model.graph, self._shapes)):
                raise
            raise CompileError(f"{error}; {hint}") from error
        finally:
            warn_of_contradictions(self._contradictions, self._other_outputs)

    # --- the function @main ---

    def _import_main(self) -> Program:
        graph = self.model.graph
        scope = Scope(self._opsets, declared=_declared(graph))
        # An initializer that the caller names is an input.
        held = {n: a for n, a in initializers(graph).items() if n not in self._shapes}
        defaults = {name: held.pop(name) for name in self._optional}
        inputs = graph_inputs(graph, held, defaults, self._shapes, self._opsets.get("", 0))
        with main_function(inputs) as main:
            main.program.defaults.update(defaults)
            self.b = main.b
            for name, array in held.items():
                scope.values[name] = self._constant(array, name)
            self._bind_inputs(main, scope)
            for name in string_inputs(graph, held):
                with ir.Location.name(name):
                    ends, data = (scope.values.pop(part) for part in string_parts(name))
                    scope.values[name] = received(self.b, name, ends, data)  # type: ignore[arg-type]
            outputs = [_present(o.name, v) for o, v in zip(graph.output, self._body(graph, scope), strict=True)]
            if self._unsupported:
                raise UnsupportedError(self._unsupported)
            main.finish(
                [result for o, value in zip(graph.output, outputs, strict=True) for result in self._results(o, value)]
            )
            erase_given_up(main.body)
        return main.program

    def _bind_inputs(self, main: MainFunction, scope: Scope) -> None:
        """Inputs whose value is given stay arguments, which nothing reads."""
        for spec, tensor in zip(main.inputs, main.arguments, strict=True):
            scope.values[spec.name] = tensor
        for name, array in self._values.items():
            _check_value(name, array, main.inputs)
            scope.values[name] = self.b.constant(array, name=name)

    def _constant(self, array: np.ndarray, name: str) -> Tensor | StringTensor:
        return from_array(self.b, array, name) if array.dtype == object else self.b.constant(array, name=name)

    def _results(self, info: onnx.ValueInfoProto, value: Value) -> list[Result]:
        """The results of @main that stand for an output of the graph."""
        assert not isinstance(value, Skipped)  # then there is an unsupported node
        named = True
        if isinstance(value, Tensor):
            check_type(info, value.dtype)
            if wrong := contradiction(info, value.dtype, value.shape):
                self._other_outputs[info.name] = wrong
                named = value.rank == len(info.type.tensor_type.shape.dim)
        return [
            Result(name, t, declared_names(info, name) if named else ())
            for name, t in flatten(self.b, info.name, value)
        ]

    # --- nodes ---

    def _body(self, graph: onnx.GraphProto, scope: Scope) -> list[Value | None]:
        """Import the nodes of a graph and give the values of its outputs."""
        return self._import_nodes(graph.node, Wanted.of(graph), scope)

    def _import_nodes(self, nodes: Sequence[onnx.NodeProto], wanted: Wanted, scope: Scope) -> list[Value | None]:
        """Import nodes in order and give the values that are wanted after them, None for those that are missing."""
        for position, written in enumerate(nodes):
            proto = functions.resolve(written, scope.attributes)
            self._counter += 1
            name = proto.name or f"{proto.op_type}_{self._counter}"
            inputs: list[Any] = []
            skipped = False
            for input_name in proto.input:
                value = scope.find(input_name) if input_name else None
                if value is None and input_name:
                    raise CompileError(
                        f"{proto.op_type} '{name}' reads '{input_name}', which no input, initializer or node defines"
                    )
                skipped |= isinstance(value, Skipped)
                inputs.append(None if isinstance(value, Skipped) else value)
            try:
                results = self._skip(proto, name, scope) if skipped else self._import_node(proto, name, inputs, scope)
            except DivergingBranches as fork:
                return self._import_both(fork, proto, name, nodes[position + 1 :], wanted, scope)
            self._define(proto, name, results, scope)
        return [scope.find(name) for name in wanted.names]

    def _import_both(
        self,
        fork: DivergingBranches,
        proto: onnx.NodeProto,
        name: str,
        rest: Sequence[onnx.NodeProto],
        wanted: Wanted,
        scope: Scope,
    ) -> list[Value | None]:
        """Import what follows a node for each of the ways that its outputs may be.

        Where it does not fit one of them, or its results then have a rank that is not the declared one, a call that
        goes that way is an error at run time.
        """
        self._forks += 1
        counter, noted = self._counter, dict(self._contradictions)

        def go_on(way: Way) -> list[Value | None]:
            self._counter = counter
            inner = scope.of_subgraph(scope.declared)
            try:
                with ir.Location.name(name):
                    outputs = way()
            except DivergingBranches as another:
                return self._import_both(another, proto, name, rest, wanted, inner)
            self._define(proto, name, outputs, inner)
            return self._import_nodes(rest, wanted, inner)

        both = Branches(self.b, fork.flag)
        ways = [partial(go_on, way) for way in fork.ways]
        outcomes = [self._attempt(partial(both.build, number, way)) for number, way in enumerate(ways)]
        taken = wanted.possible(outcomes)
        if taken == [0, 1] and self._forks <= _MOST_FORKS:
            return list(both.finish([tensors(outcome) for outcome in outcomes]))
        both.give_up()
        self._contradictions = noted
        if len(taken) != 1 or self._forks > _MOST_FORKS:
            self._define(proto, name, [self._refuse(proto, name, scope, fork.reason, fork.advice)], scope)
            return self._import_nodes(rest, wanted, scope)
        (only,) = taken
        flag = fork.flag if only == 0 else (~Scalar(fork.flag, "bool")).value
        cf.assert_(flag, f"{locations.label(ir.Location.name(name))}: {fork.demands[only]}")
        return ways[only]()

    def _attempt(self, work: Callable[[], list[Value | None]]) -> list[Value | None] | None:
        """What ``work`` gives, or None where it cannot be compiled, of which no trace is left."""
        count = len(self._unsupported)
        try:
            outcome = work()
        except (CompileError, UnsupportedFeature, InvalidNode):
            outcome = None
        failed = len(self._unsupported) > count
        del self._unsupported[count:]
        return None if failed else outcome

    def _define(self, proto: onnx.NodeProto, name: str, results: Sequence[Value | None], scope: Scope) -> None:
        for output, result in zip(proto.output, [*results, *[None] * len(proto.output)], strict=False):
            if not output:
                continue
            if output in scope.values:
                raise CompileError(f"{proto.op_type} '{name}' defines '{output}', which is defined already")
            if isinstance(result, Tensor):
                check_size(result.shape, dtypes.by_name[result.dtype].bits // 8, f"{proto.op_type} '{name}'")
                if 0 in result.shape and result.array is None:  # whatever computes it need not run
                    result = self.b.tensor(self.b.empty(result.dtype, result.shape), result.dtype, result.shape)
            if result is None:
                result = self._refuse(proto, name, scope, f"output '{output}' is not implemented")
            self._compare(output, result, scope)
            scope.values[output] = result

    def _compare(self, name: str, value: Value, scope: Scope) -> None:
        """Note where a value is not what its graph declares it to be."""
        if not isinstance(value, Tensor) or name not in scope.declared:
            return
        if wrong := contradiction(scope.declared[name], value.dtype, value.shape):
            self._contradictions[name] = wrong

    def _skip(self, proto: onnx.NodeProto, name: str, scope: Scope) -> list[Value]:
        """A node after an unsupported one: note whether its op is known at all."""
        opset = scope.opset(functions.domain_of(proto))
        if not is_known(proto, opset, self.functions):
            self._refuse(proto, name, scope, *why_unknown(proto, opset))
        return [SKIPPED] * len(proto.output)

    def _refuse(self, proto: onnx.NodeProto, name: str, scope: Scope, reason: str, advice: str = "") -> Skipped:
        opset = scope.opset(functions.domain_of(proto))
        op_type = f"{proto.domain}.{proto.op_type}" if proto.domain else proto.op_type
        self._unsupported.append(UnsupportedNode(name, op_type, opset, reason, advice))
        return SKIPPED

    def _import_node(self, proto: onnx.NodeProto, name: str, inputs: list[Any], scope: Scope) -> Sequence[Value | None]:
        try:
            with ir.Location.name(name):
                attributes = functions.attributes_of(proto)
                results = self.lower(NodeUse(proto, name, tuple(inputs), attributes, scope, self))
        except DivergingBranches:
            raise
        except UnsupportedFeature as error:
            self._refuse(proto, name, scope, error.reason, error.advice)
            return [SKIPPED] * len(proto.output)
        except InvalidNode as error:
            raise CompileError(f"{proto.op_type} '{name}': {error}") from error
        except RilletError:
            raise
        except Exception as error:
            # A defect in an importer, or a malformed node that no check before found: say which node.
            raise CompileError(
                f"{proto.op_type} '{name}' cannot be imported ({type(error).__name__}: {error}): this is an error in "
                "Rillet, please report it with the node; if onnx.checker finds faults in the model, mend those first"
            ) from error
        return results

    def lower(self, use: NodeUse) -> Sequence[Value | None]:
        """The outputs of a node. Raises InvalidNode and UnsupportedFeature."""
        for step in STEPS:
            results = step(use)
            if results is not None:
                return results
        raise UnsupportedFeature(*why_unknown(use.proto, use.opset))

    # --- functions and subgraphs ---

    def call(
        self, function: onnx.FunctionProto, defaults: functions.Attributes, use: NodeUse
    ) -> Sequence[Value | None]:
        """Import a function's body in a scope of its own."""
        attributes = {**defaults, **{a.name: a for a in (*function.attribute_proto, *use.proto.attribute)}}
        # Some bodies that onnx builds import only their own domain; the opsets of others are the caller's.
        named = {o.domain if o.domain != "ai.onnx" else "": o.version for o in function.opset_import}
        body = use.scope.of_function(named, attributes)
        for formal, actual in zip(function.input, use.inputs, strict=False):
            if actual is not None:
                body.values[formal] = actual
        absent = {f for f in function.input if f not in body.values}
        nodes = [_without_inputs(n, absent) for n in function.node]
        return self._import_nodes(nodes, Wanted(tuple(function.output)), body)

    def run_graph(self, graph: onnx.GraphProto, arguments: Sequence[Any], scope: Scope) -> list[Any]:
        """Import a body at the insertion point. Raises UnsupportedFeature when a node in it cannot be compiled.

        Raises InvalidNode for another number of arguments than it takes.
        """
        if len(graph.input) != len(arguments):
            raise InvalidNode(f"its body '{graph.name}' has {len(graph.input)} inputs, not {len(arguments)}")
        inner = scope.of_subgraph(_declared(graph))
        for name, array in initializers(graph).items():
            inner.values[name] = self._constant(array, name)
        for info, argument in zip(graph.input, arguments, strict=True):
            inner.values[info.name] = argument
        results = [_present(o.name, v) for o, v in zip(graph.output, self._body(graph, inner), strict=True)]
        tensors = [r for r in results if not isinstance(r, Skipped)]
        if len(tensors) != len(results):
            raise UnsupportedFeature("its subgraph has nodes that are not supported", "see the others in this list")
        return tensors


def _present(name: str, value: Value | None) -> Value:
    if value is None:
        raise CompileError(f"the graph's output '{name}' is not computed by any node")
    return value


def _declared(graph: onnx.GraphProto) -> dict[str, onnx.ValueInfoProto]:
    """The declared types of the values between the nodes of the graph."""
    return {info.name: info for info in graph.value_info if info.type.HasField("tensor_type")}


def _check_value(name: str, array: np.ndarray, inputs: Sequence[InputSpec]) -> None:
    """Raise CompileError where a value is given for a name that is not an input, or does not fit the input."""
    given = next((i for i in inputs if i.name == name), None)
    if given is None:
        known = ", ".join(i.name for i in inputs) or "none"
        raise CompileError(f"values['{name}']: the model has no such input; its inputs are: {known}")
    if array.dtype.name != given.dtype or not given.accepts(array.shape):
        raise CompileError(
            f"values['{name}'] is {array.dtype.name} {list(array.shape)}, but the input is {given.dtype} "
            f"[{', '.join(map(str, given.dims))}]"
        )


def _without_inputs(proto: onnx.NodeProto, absent: set[str]) -> onnx.NodeProto:
    """The node with inputs that the caller of the function left out made empty."""
    import onnx

    if not absent.intersection(proto.input):
        return proto
    copy = onnx.NodeProto()
    copy.CopyFrom(proto)
    for index, name in enumerate(copy.input):
        if name in absent:
            copy.input[index] = ""
    return copy

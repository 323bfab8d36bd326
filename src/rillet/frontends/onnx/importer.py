"""Walks an ONNX graph and builds the tensor form.

For each node, in this order: fold it when all inputs are known (``fold.py``); carry shape arithmetic along
(``symbolic.py``); call its importer (``registry.py``); expand a function body (``functions.py``). A node that cannot
be compiled is recorded, what depends on it is skipped, and the walk goes on, so that one error lists all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from torch_mlir import ir
from torch_mlir.dialects import arith, func

from rillet.errors import CompileError, RilletError, UnsupportedError, UnsupportedNode
from rillet.frontends.arguments import checked_shapes, checked_values
from rillet.frontends.building.builder import Builder
from rillet.frontends.building.tensor import Tensor
from rillet.frontends.errors import InvalidNode, UnsupportedFeature
from rillet.frontends.onnx import functions, registry, symbolic
from rillet.frontends.onnx.boundary import (
    GraphInput,
    InputShapes,
    check_result,
    contradiction,
    edge,
    graph_inputs,
    string_inputs,
    string_parts,
    unequal_sizes,
    warn_of_contradictions,
)
from rillet.frontends.onnx.fold import fold
from rillet.frontends.onnx.initializers import check_size, initializers
from rillet.frontends.onnx.node import Node
from rillet.frontends.onnx.sequences import Structured, all_tensors, flatten
from rillet.frontends.onnx.strings.branches import Unpacked
from rillet.frontends.onnx.strings.checks import received
from rillet.frontends.onnx.strings.moving_ops import hands_on, move, moves, touches_strings
from rillet.frontends.onnx.strings.tensor import StringTensor, from_array
from rillet.frontends.onnx.validate import check_expanded, check_node, check_operands, schema_of
from rillet.ir import Program, builders

if TYPE_CHECKING:
    import onnx

_MAX_DEPTH = 64  # nesting of functions and subgraphs


class _Skipped:
    """Stands for the outputs of a node that could not be imported."""


SKIPPED = _Skipped()
Value: TypeAlias = Structured | _Skipped


@dataclass
class _Scope:
    """Names visible to a graph or function body, innermost first."""

    opsets: Mapping[str, int]
    parent: _Scope | None = None
    attributes: functions.Attributes = field(default_factory=dict)
    values: dict[str, Value] = field(default_factory=dict)
    depth: int = 0
    declared: Mapping[str, onnx.ValueInfoProto] = field(default_factory=dict)

    def find(self, name: str) -> Value | None:
        scope: _Scope | None = self
        while scope is not None:
            if name in scope.values:
                return scope.values[name]
            scope = scope.parent
        return None


class GraphImporter:
    """Imports one model into a fresh program. ``unsupported`` collects the nodes that cannot be compiled."""

    def __init__(
        self,
        model: onnx.ModelProto,
        inputs: InputShapes | None = None,
        values: Mapping[str, np.ndarray] | None = None,
    ):
        self.model = model
        self._values = checked_values(values)
        self.unsupported: list[UnsupportedNode] = []
        self._overrides = checked_shapes(inputs)
        self._opsets = {o.domain if o.domain != "ai.onnx" else "": o.version for o in model.opset_import} or {"": 1}
        self._functions = {(f.domain, f.name, f.overload): f for f in model.functions}
        self._ranks = {
            info.name: len(info.type.tensor_type.shape.dim)
            for info in (*model.graph.value_info, *model.graph.output)
            if info.type.tensor_type.HasField("shape")
        }
        self._counter = 0
        self._dim_names: dict[ir.Value, str] = {}
        self._contradictions: dict[str, str] = {}
        self.b: Builder

    def run(self) -> Program:
        """Import the whole model. The program is incomplete when ``unsupported`` is not empty."""
        from rillet.ir import thread_context

        context = thread_context()
        with context, ir.Location.unknown(context):
            program = Program(ir.Module.create())
            try:
                self._import_main(program)
            except UnsupportedError:
                raise
            except CompileError as error:
                # Names of dimensions are not always meant, so unequal sizes are no fault before something fails.
                if not (hint := unequal_sizes(self.model.graph, self._overrides)):
                    raise
                raise CompileError(f"{error}; {hint}") from error
            finally:
                warn_of_contradictions(self._contradictions)
        return program

    # --- the function @main ---

    def _import_main(self, program: Program) -> None:
        graph = self.model.graph
        scope = _Scope(self._opsets, declared=_declared(graph))
        # An initializer that the caller names is an input.
        held = {n: a for n, a in initializers(graph).items() if n not in self._overrides}
        inputs = graph_inputs(graph, held, self._overrides, self._opsets.get("", 0))
        types = [i.type for i in inputs]
        with ir.InsertionPoint(program.module.body):
            main = func.FuncOp("main", ir.FunctionType.get(types, []))
        entry = main.add_entry_block()
        with ir.InsertionPoint(entry):
            anchor = arith.ConstantOp(ir.IndexType.get(), 0)
            self.b = Builder(program, anchor.operation)
            for name, array in held.items():
                scope.values[name] = self._constant(array, name)
            self._bind_inputs(inputs, list(entry.arguments), scope)
            for name in string_inputs(graph, held):
                with self._located(name):
                    ends, data = (scope.values.pop(part) for part in string_parts(name))
                    scope.values[name] = received(self.b, name, ends, data)  # type: ignore[arg-type]
            self._import_nodes(graph.node, scope)
            outputs = [self._output(o.name, scope) for o in graph.output]
            if self.unsupported:
                return
            for info, value in zip(graph.output, outputs, strict=True):
                if isinstance(value, Tensor):
                    check_result(info, value.dtype, value.shape)
            tensors = [
                (o, *named)
                for o, value in zip(graph.output, outputs, strict=True)
                if not isinstance(value, _Skipped)
                for named in flatten(self.b, o.name, value)
            ]
            results = [self.b.value(t) for _, _, t in tensors]
            func.ReturnOp(results)
        main.operation.attributes["function_type"] = ir.TypeAttr.get(
            ir.FunctionType.get(types, [r.type for r in results])
        )
        main.arg_attrs = ir.ArrayAttr.get([edge(i.name, i.dtype, i.dims) for i in inputs])
        main.operation.attributes["res_attrs"] = ir.ArrayAttr.get(
            [edge(name, t.dtype, self._result_dims(t, name, o)) for o, name, t in tensors]
        )
        if not list(anchor.result.uses):
            anchor.operation.erase()

    def _bind_inputs(self, inputs: Sequence[GraphInput], arguments: Sequence[ir.Value], scope: _Scope) -> None:
        """Dimensions of one name are one extent; the runtime checks that they agree."""
        named: dict[str, ir.Value] = {}
        for spec, argument in zip(inputs, arguments, strict=True):
            shape: list[builders.Extent] = []
            with self._located(spec.name):
                for axis, d in enumerate(spec.dims):
                    if isinstance(d, int):
                        shape.append(d)
                        continue
                    if d not in named:
                        extent = builders.dim(argument, axis)
                        assert isinstance(extent, ir.Value)
                        named[d] = self.b.extents.declare(extent)
                        self._dim_names[named[d]] = d
                    shape.append(named[d])
            scope.values[spec.name] = self.b.tensor(argument, spec.dtype, shape)
        for name, array in self._values.items():
            given = next((i for i in inputs if i.name == name), None)
            if given is None:
                known = ", ".join(i.name for i in inputs) or "none"
                raise CompileError(f"values['{name}']: the model has no such input; its inputs are: {known}")
            if array.dtype.name != given.dtype or not given.accepts(array.shape):
                raise CompileError(
                    f"values['{name}'] is {array.dtype.name} {list(array.shape)}, but the input is {given.dtype} "
                    f"[{', '.join(map(str, given.dims))}]"
                )
            scope.values[name] = self.b.constant(array, name=name)

    def _constant(self, array: np.ndarray, name: str) -> Tensor | StringTensor:
        return from_array(self.b, array, name) if array.dtype == object else self.b.constant(array, name=name)

    def _output(self, name: str, scope: _Scope) -> Value:
        value = scope.find(name)
        if value is None:
            raise CompileError(f"the graph's output '{name}' is not computed by any node")
        return value

    def _result_dims(self, tensor: Tensor, name: str, info: onnx.ValueInfoProto) -> list[int | str]:
        """Names for the dimensions of a result: the input's where it is one, else the declared name."""
        declared = [] if name == string_parts(info.name)[1] else info.type.tensor_type.shape.dim
        names: list[int | str] = []
        for axis, extent in enumerate(tensor.shape):
            if isinstance(extent, int):
                names.append(extent)
                continue
            known = next((n for v, n in self._dim_names.items() if self.b.extents.equal(v, extent)), None)
            written = declared[axis].dim_param if axis < len(declared) else ""
            names.append(known or written or f"{name}_{axis}")
        return names

    # --- nodes ---

    def _import_nodes(self, nodes: Sequence[onnx.NodeProto], scope: _Scope) -> None:
        for written in nodes:
            proto = functions.resolve(written, scope.attributes)
            self._counter += 1
            name = proto.name or f"{proto.op_type}_{self._counter}"
            inputs: list[Any] = []
            skipped = False
            for input_name in proto.input:
                value = scope.find(input_name) if input_name else None
                if value is None and input_name:
                    raise CompileError(
                        f"{proto.op_type} '{name}' reads '{input_name}', "
                        "which no input, initializer or earlier node defines"
                    )
                skipped |= isinstance(value, _Skipped)
                inputs.append(None if isinstance(value, _Skipped) else value)
            results = self._skip(proto, name, scope) if skipped else self._import_node(proto, name, inputs, scope)
            self._define(proto, name, results, scope)

    def _define(self, proto: onnx.NodeProto, name: str, results: Sequence[Value | None], scope: _Scope) -> None:
        for output, result in zip(proto.output, [*results, *[None] * len(proto.output)], strict=False):
            if not output:
                continue
            if output in scope.values:
                raise CompileError(f"{proto.op_type} '{name}' defines '{output}', which is defined already")
            if isinstance(result, Tensor):
                check_size(result.shape, result.dtype, f"{proto.op_type} '{name}'")
                if 0 in result.shape and result.array is None:  # whatever computes it need not run
                    result = self.b.tensor(self.b.empty(result.dtype, result.shape), result.dtype, result.shape)
            if result is None:
                result = self._refuse(proto, name, scope, f"output '{output}' is not implemented")
            self._compare(output, result, scope)
            scope.values[output] = result

    def _compare(self, name: str, value: Value, scope: _Scope) -> None:
        """Note where a value is not what its graph declares it to be."""
        if not isinstance(value, Tensor) or name not in scope.declared:
            return
        if wrong := contradiction(scope.declared[name], value.dtype, value.shape):
            self._contradictions[name] = wrong

    def _skip(self, proto: onnx.NodeProto, name: str, scope: _Scope) -> list[Value]:
        """A node after an unsupported one: note whether its op is known at all."""
        domain = "" if proto.domain == "ai.onnx" else proto.domain
        opset = scope.opsets.get(domain, 0)
        known = (
            registry.lookup(domain, proto.op_type, opset)
            or registry.lookup(domain, proto.op_type, opset, strings=True)
            or (not domain and symbolic.has_rule(proto.op_type))
            or (proto.domain, proto.op_type, proto.overload) in self._functions
            or functions.body_of(proto, opset, [])
        )
        if not known:
            self._refuse(proto, name, scope, *self._unknown(proto, domain, opset))
        return [SKIPPED] * len(proto.output)

    def _refuse(self, proto: onnx.NodeProto, name: str, scope: _Scope, reason: str, advice: str = "") -> _Skipped:
        opset = scope.opsets.get("" if proto.domain == "ai.onnx" else proto.domain, 0)
        op_type = f"{proto.domain}.{proto.op_type}" if proto.domain else proto.op_type
        self.unsupported.append(UnsupportedNode(name, op_type, opset, reason, advice))
        return SKIPPED

    def _unknown(self, proto: onnx.NodeProto, domain: str, opset: int) -> tuple[str, str]:
        import onnx

        if not opset:
            return f"the model imports no opset for domain '{domain or 'ai.onnx'}'", "add it to opset_import"
        if onnx.defs.has(proto.op_type, domain):
            return "the op has no implementation for this opset", "convert the model to a newer opset"
        what = f"domain '{domain}' is not known" if domain else "ONNX has no op of this name"
        if domain and registry.supported(domain):
            what = f"the op is not among those of domain '{domain}' that are known"
        if "quantize" in proto.op_type.lower() or proto.op_type.startswith("Q"):
            return (
                what,
                "quantize with QuantizeLinear and DequantizeLinear of ONNX (QDQ format; 4 bits from opset 21 on)",
            )
        return what, "export the model with standard ONNX ops, or with a function body for this op"

    def _import_node(
        self, proto: onnx.NodeProto, name: str, inputs: list[Any], scope: _Scope
    ) -> Sequence[Value | None]:
        try:
            with self._located(name):
                results = self._lower(proto, name, inputs, scope)
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

    def _lower(self, proto: onnx.NodeProto, name: str, inputs: list[Any], scope: _Scope) -> Sequence[Value | None]:
        domain = "" if proto.domain == "ai.onnx" else proto.domain
        opset = scope.opsets.get(domain, 0)
        attributes = functions.attributes_of(proto)
        local = self._functions.get((proto.domain, proto.op_type, proto.overload))
        if local is not None:
            return self._call(local, {}, proto, inputs, scope)
        if not opset:
            raise UnsupportedFeature(*self._unknown(proto, domain, opset))
        check_node(proto, domain, opset, inputs)
        plain = all_tensors(inputs)
        if plain and all(t is None or t.array is not None for t in inputs):
            folded = fold(proto, scope.opsets, [None if t is None else t.array for t in inputs], self.model.ir_version)
            if folded is not None:
                return [self.b.constant(a, name=o) for a, o in zip(folded, proto.output, strict=True)]

        def run_graph(graph: onnx.GraphProto, arguments: Sequence[Any]) -> list[Any]:
            return self._import_subgraph(graph, arguments, scope)

        plain_node = Unpacked(proto.op_type, inputs, attributes, run_graph)
        operands, run = plain_node.inputs, plain_node.run_graph
        ranks = {} if scope.depth else self._ranks
        node = Node(proto, name, opset, self.b, operands, plain_node.attributes, run, ranks)
        strings = touches_strings(proto.op_type, attributes, inputs)
        entry = registry.lookup(domain, proto.op_type, opset, strings)
        if strings and entry is None and moves(proto, opset):
            return move(self.b, proto, opset, inputs, attributes, lambda v: self._lower(proto, name, list(v), scope))
        if entry is None:
            entry = registry.lookup(domain, proto.op_type, opset)
            if strings and entry is not None and not hands_on(proto.op_type):
                raise UnsupportedFeature("it is not supported on tensors of strings", "number the strings before")
        result: Any = symbolic.apply(node) if plain and not strings else None
        if result is None and entry is not None:
            if schema_of(proto.op_type, domain, opset) is None:
                check_operands(entry.importer, operands)
            result = entry.importer(node, *operands)
            _check_attributes(node, entry)
        if result is not None:
            return plain_node.outputs(result if isinstance(result, list | tuple) else [result])
        if entry is not None:
            return []
        expansion = functions.body_of(proto, opset, inputs)
        if expansion is None:
            raise UnsupportedFeature(*self._unknown(proto, domain, opset))
        check_expanded(proto, domain, opset, inputs)
        try:
            return self._call(expansion[0], expansion[1], proto, inputs, scope)
        except CompileError as error:  # it names a node that the model does not have
            raise InvalidNode(f"in the body that ONNX defines for it, {error}") from error

    # --- functions and subgraphs ---

    def _call(
        self,
        function: onnx.FunctionProto,
        defaults: functions.Attributes,
        proto: onnx.NodeProto,
        inputs: Sequence[Tensor | None],
        scope: _Scope,
    ) -> Sequence[Value | None]:
        attributes = {**defaults, **{a.name: a for a in (*function.attribute_proto, *proto.attribute)}}
        # Some bodies that onnx builds name only their own domain; what they leave out is the caller's.
        named = {o.domain if o.domain != "ai.onnx" else "": o.version for o in function.opset_import}
        opsets = {**scope.opsets, **named}
        body = _Scope(opsets, None, attributes, {}, self._deeper(scope))
        for formal, actual in zip(function.input, inputs, strict=False):
            if actual is not None:
                body.values[formal] = actual
        absent = {f for f in function.input if f not in body.values}
        self._import_nodes([_without_inputs(n, absent) for n in function.node], body)
        return [body.find(o) for o in function.output]

    def _deeper(self, scope: _Scope) -> int:
        if scope.depth >= _MAX_DEPTH:
            raise CompileError(f"functions and subgraphs nest deeper than {_MAX_DEPTH}; is a function recursive?")
        return scope.depth + 1

    def _import_subgraph(
        self, graph: onnx.GraphProto, arguments: Sequence[Structured], scope: _Scope
    ) -> list[Structured]:
        """Import a body at the insertion point. Raises UnsupportedFeature when a node in it cannot be compiled."""
        if len(graph.input) != len(arguments):
            raise InvalidNode(f"its body '{graph.name}' has {len(graph.input)} inputs, not {len(arguments)}")
        inner = _Scope(scope.opsets, scope, scope.attributes, {}, self._deeper(scope), _declared(graph))
        for name, array in initializers(graph).items():
            inner.values[name] = self._constant(array, name)
        for info, argument in zip(graph.input, arguments, strict=True):
            inner.values[info.name] = argument
        self._import_nodes(graph.node, inner)
        results = [self._output(o.name, inner) for o in graph.output]
        tensors = [r for r in results if not isinstance(r, _Skipped)]
        if len(tensors) != len(results):
            raise UnsupportedFeature("its subgraph has nodes that are not supported", "see the others in this list")
        return tensors

    @contextmanager
    def _located(self, name: str) -> Iterator[None]:
        with ir.Location.name(name):
            yield


def _declared(graph: onnx.GraphProto) -> dict[str, onnx.ValueInfoProto]:
    """What the graph declares its values between nodes to be."""
    return {info.name: info for info in graph.value_info if info.type.HasField("tensor_type")}


def _check_attributes(node: Node, entry: registry.Entry) -> None:
    """Refuse a node with an attribute that its importer does not know, as a newer opset may add."""
    unread = [name for name in node.unread() if name not in entry.ignores]
    if not unread:
        return
    schema = schema_of(node.op_type, "" if node.proto.domain == "ai.onnx" else node.proto.domain, node.opset)
    formals = schema.attributes if schema is not None else {}
    for name in unread:
        default = formals[name].default_value if name in formals else None
        given = next(a for a in node.proto.attribute if a.name == name)
        if default is None or functions.attribute_value(default) != functions.attribute_value(given):
            raise UnsupportedFeature(
                f"attribute '{name}' is not implemented", "remove it, or convert the model to an older opset"
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

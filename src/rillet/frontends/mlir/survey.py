"""Describes an MLIR module before it is brought to the tensor form: inputs, ops, constants."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator

from torch_mlir import ir

from rillet.frontends.dimension_names import own_name
from rillet.frontends.frontend import InputSpec, OpUse, Survey
from rillet.frontends.mlir.edges import dimension_names, dtype_name
from rillet.frontends.mlir.entry import entry
from rillet.frontends.mlir.external_constants import stored_bytes
from rillet.ir.attributes import DIMS, DTYPE, NAME

_CONTROL_FLOW = (
    "scf.if",
    "scf.for",
    "scf.while",
    "stablehlo.case",
    "stablehlo.if",
    "stablehlo.while",
    "tosa.cond_if",
    "tosa.while_loop",
)
_FRAME = ("func.func", "func.return")  # what holds a function's ops together


def inputs(module: ir.Module) -> tuple[InputSpec, ...]:
    """The arguments of the entry. Raises CompileError when there is none."""
    main = entry(module)
    type_ = ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value)
    edges = [_edge(main, "arg_attrs", ordinal) for ordinal in range(len(type_.inputs))]
    written = {name for edge in edges for name in dimension_names(edge.get(DIMS))}
    return tuple(_input(n, *pair, written) for n, pair in enumerate(zip(type_.inputs, edges, strict=True)))


def survey(module: ir.Module) -> Survey:
    """The ops of the module's functions; the scalar operations in bodies of structured ops do not count."""
    main = entry(module)
    counts: Counter[str] = Counter()
    types: dict[str, set[str]] = defaultdict(set)
    weight_bytes = 0
    for op in _ops(module.operation):
        weight_bytes += stored_bytes(op)
        if op.name in _FRAME or op.name.startswith("ml_program."):
            continue
        counts[op.name] += 1
        types[op.name] |= {_dtype(v.type) for v in (*op.operands, *op.results) if isinstance(v.type, ir.ShapedType)}
    results = ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value).results
    functions = [op.operation for op in module.body.operations if op.operation.name == "func.func"]
    return Survey(
        ops=tuple(OpUse(op, 0, count, tuple(sorted(types[op]))) for op, count in sorted(counts.items())),
        outputs=tuple(_text(_edge(main, "res_attrs", n), NAME) or f"result{n}" for n in range(len(results))),
        weight_bytes=weight_bytes,
        control_flow={op: counts[op] for op in _CONTROL_FLOW if op in counts},
        functions=tuple(ir.StringAttr(f.attributes["sym_name"]).value for f in functions if f != main),
    )


def _input(ordinal: int, type_: ir.Type, given: dict[str, ir.Attribute], written: Collection[str]) -> InputSpec:
    name = _text(given, NAME) or f"argument{ordinal}"
    if not isinstance(type_, ir.RankedTensorType):  # refused when it is imported
        return InputSpec(name, str(type_), ())
    names = dimension_names(given.get(DIMS))
    dims = [
        (names[axis] if axis < len(names) else "") or own_name(name, axis, written)
        if type_.is_dynamic_dim(axis)
        else type_.get_dim_size(axis)
        for axis in range(type_.rank)
    ]
    return InputSpec(name, _text(given, DTYPE) or _dtype(type_), tuple(dims))


def _edge(main: ir.Operation, key: str, ordinal: int) -> dict[str, ir.Attribute]:
    """The attributes of an argument or result."""
    if key not in main.attributes:
        return {}
    return {named.name: named.attr for named in ir.DictAttr(ir.ArrayAttr(main.attributes[key])[ordinal])}


def _text(given: dict[str, ir.Attribute], key: str) -> str:
    return ir.StringAttr(given[key]).value if key in given else ""


def _dtype(type_: ir.Type) -> str:
    return dtype_name(type_.element_type) or str(type_.element_type)


def _ops(op: ir.Operation) -> Iterator[ir.Operation]:
    for region in op.regions:
        for block in region:
            for inner in block.operations:
                yield inner.operation
                if not inner.operation.name.startswith("linalg."):
                    yield from _ops(inner.operation)

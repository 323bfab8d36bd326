"""Small editing tools: upstream pass pipelines, moving and replacing operations, cleaning up."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from torch_mlir import ir
from torch_mlir.passmanager import PassManager

from rillet.dialects import linalg
from rillet.errors import CompileError
from rillet.ir.program import Program
from rillet.ir.structured import Expr, Structured, index_loop, iterators_attr, maps_attr, walk

# Folding a pad of a filled tensor makes its extents by ``affine.apply``, which is not part of the tensor form.
CLEANUP = "builtin.module(func.func(canonicalize,lower-affine,cse))"
PURE_DIALECTS = ("arith", "math", "tensor", "linalg", "complex", "affine", "flow")


def run_upstream(op: ir.Operation | ir.OpView, pipeline: str) -> None:
    """Run an upstream pass pipeline, ``builtin.module(...)``, on a module operation."""
    try:
        PassManager.parse(pipeline, op.context).run(op.operation)
    except ir.MLIRError as error:
        raise CompileError(f"internal: the passes '{pipeline}' failed: {error}") from error


def defining(value: ir.Value, *names: str) -> ir.Operation | None:
    """The op that defines ``value``, if it has one of ``names`` (any op when none are given). None for a block
    argument."""
    owner = value.owner
    if isinstance(owner, ir.Block) or (names and owner.operation.name not in names):
        return None
    return owner.operation


def is_defined_by(value: ir.Value, *names: str) -> bool:
    """Whether an op with one of these names defines the value."""
    return defining(value, *names) is not None


def int_constant(value: ir.Value) -> int | None:
    """The value of an integer or index constant, else None."""
    operation = defining(value, "arith.constant")
    if operation is None:
        return None
    attribute = operation.attributes["value"]
    return int(attribute.value) if isinstance(attribute, ir.IntegerAttr) else None


def scalar_constant(value: ir.Value) -> ir.Attribute | None:
    """The constant that a scalar, or each element of a vector or tensor, equals; None when there is none."""
    while (spread := defining(value, "vector.broadcast", "vector.splat")) is not None:
        value = spread.operands[0]
    operation = defining(value, "arith.constant")
    if operation is None:
        return None
    attribute = operation.attributes["value"]
    if isinstance(attribute, ir.DenseElementsAttr):
        return attribute.get_splat_value() if attribute.is_splat else None
    return attribute


def float_constant(value: ir.Value) -> float | None:
    """The float that a scalar, or each element of a vector or tensor, equals; None when there is none."""
    attribute = scalar_constant(value)
    return float(attribute.value) if isinstance(attribute, ir.FloatAttr) else None


def create_like(
    op: ir.Operation, operands: Sequence[ir.Value], results: Sequence[ir.Type] | None = None, *, regions: int = 0
) -> ir.Operation:
    """An op at the insertion point with the name, attributes and location of ``op``; it also has its result types
    unless others are given."""
    return ir.Operation.create(
        op.name,
        results=[r.type for r in op.results] if results is None else list(results),
        operands=list(operands),
        attributes=dict(op.attributes.items()),
        regions=regions,
        loc=op.location,
    )


def has_uses(op: ir.Operation) -> bool:
    """Whether any result of the op is used."""
    return any(next(iter(r.uses), None) is not None for r in op.results)


def users(value: ir.Value) -> list[ir.Operation]:
    """The operations that use ``value``, each once."""
    return list(dict.fromkeys(use.owner.operation for use in value.uses))


def blocks(op: ir.Operation | ir.OpView) -> list[ir.Block]:
    """The blocks of ``op`` that hold host code: its own, and those of nested control flow, outermost first."""
    found = []
    for region in op.operation.regions:
        for block in region.blocks:
            found.append(block)
            for inner in block.operations:
                if inner.operation.name.startswith("scf."):
                    found += blocks(inner)
    return found


def erase_dead(op: ir.Operation | ir.OpView) -> None:
    """Erase unused side-effect-free operations nested in the host code of ``op``."""
    for block in reversed(blocks(op)):
        for inner in reversed(list(block.operations)):
            operation = inner.operation
            if len(operation.results) and not has_uses(operation) and is_pure(operation):
                operation.erase()


def is_pure(op: ir.Operation) -> bool:
    """True for the tensor form's side-effect-free operations."""
    return (
        op.name.split(".")[0] in PURE_DIALECTS
        or op.name in ("ml_program.global_load_const",)
        or (op.name in ("scf.for", "scf.if") and all(is_pure(o) or o.name == "scf.yield" for o in walk(op)))
    )


def sweep_constants(program: Program) -> None:
    """Erase globals that nothing reads, and drop their arrays."""
    used = {
        ir.FlatSymbolRefAttr(op.attributes["global"]).value
        for block in blocks(program.main())
        for view in block.operations
        if (op := view.operation).name == "ml_program.global_load_const"
    }
    for op in list(program.module.body.operations):
        if op.operation.name != "ml_program.global":
            continue
        name = ir.StringAttr(op.operation.attributes["sym_name"]).value
        if name not in used:
            op.operation.erase()
            if name in program.constants:
                del program.constants[name]


def clone_body(
    source: ir.Block, target: ir.Block, mapping: dict[ir.Value, ir.Value], *, terminator: bool = True
) -> None:
    """Append clones of the operations of ``source`` to ``target``; ``mapping`` has the values that replace its
    arguments."""
    operations = list(source.operations)
    if not terminator:
        operations = operations[:-1]
    with ir.InsertionPoint(target):
        clone_operations([op.operation for op in operations], mapping)


def clone_operations(ops: Sequence[ir.Operation], mapping: dict[ir.Value, ir.Value]) -> None:
    """Clone ``ops`` at the insertion point; ``mapping`` has the values that replace their operands, and gets their
    results."""
    for op in ops:
        clone = op.clone()
        remap(clone, mapping)
        mapping.update(zip(op.results, clone.results, strict=True))


def remap(op: ir.Operation, mapping: Mapping[ir.Value, ir.Value]) -> None:
    """Replace operands of ``op`` and of all ops nested in it as ``mapping`` says."""
    for i, operand in enumerate(op.operands):
        if operand in mapping:
            op.operands[i] = mapping[operand]
    for region in op.regions:
        for block in region.blocks:
            for inner in block.operations:
                remap(inner.operation, mapping)


def rebuild_generic(
    op: ir.Operation,
    operands: Sequence[ir.Value],
    result_types: Sequence[ir.Type],
    maps: Sequence[Sequence[Expr]],
    parallel: Sequence[bool],
) -> ir.Operation:
    """A copy of ``op``, a ``linalg.generic``, right before it, with other operands, maps and iterators, and the same
    body.

    ``linalg.index`` in the body is not adapted: see ``renumber_index``.
    """
    count = len(operands) - len(result_types)
    with ir.InsertionPoint(op), op.location:
        new, block = empty_generic(operands[:count], operands[count:], maps, parallel, result_types)
    old = op.regions[0].blocks[0]
    clone_body(old, block, dict(zip(old.arguments, block.arguments, strict=True)))
    return new


def empty_generic(
    inputs: Sequence[ir.Value],
    inits: Sequence[ir.Value],
    maps: Sequence[Sequence[Expr]],
    parallel: Sequence[bool],
    result_types: Sequence[ir.Type] | None = None,
) -> tuple[ir.Operation, ir.Block]:
    """A ``linalg.generic`` at the insertion point, and its empty body. Results have the types of the ``inits`` unless
    others are given."""
    op = ir.Operation.create(
        "linalg.generic",
        results=[init.type for init in inits] if result_types is None else list(result_types),
        operands=[*inputs, *inits],
        attributes={
            "indexing_maps": maps_attr(len(parallel), maps),
            "iterator_types": iterators_attr(parallel),
            "operandSegmentSizes": ir.DenseI32ArrayAttr.get([len(inputs), len(inits)]),
        },
        regions=1,
    )
    elements = [getattr(v.type, "element_type", v.type) for v in (*inputs, *inits)]
    return op, op.regions[0].blocks.append(*elements, arg_locs=[op.location] * len(elements))


def generic_like(
    view: Structured,
    inputs: Sequence[ir.Value],
    init: ir.Value,
    body: Callable[[list[ir.Value]], ir.Value],
    maps: Sequence[Sequence[Expr]] | None = None,
    parallel: Sequence[bool] | None = None,
) -> ir.Value:
    """A ``linalg.generic`` with the loops and maps of ``view``, which has one result, or others, on other operands.

    ``body`` is called with the block's scalars (inputs, then init) and returns the scalar to yield.
    """
    maps = view.maps if maps is None else maps
    parallel = view.parallel if parallel is None else parallel
    return generic_with(inputs, [init], maps, parallel, lambda arguments: [body(arguments)]).results[0]


def generic_with(
    inputs: Sequence[ir.Value],
    inits: Sequence[ir.Value],
    maps: Sequence[Sequence[Expr]],
    parallel: Sequence[bool],
    body: Callable[[list[ir.Value]], Sequence[ir.Value]],
) -> ir.Operation:
    """A ``linalg.generic`` with these maps.

    ``body`` is called with the block's scalars (inputs, then inits) and returns those to yield.
    """
    op, block = empty_generic(inputs, inits, maps, parallel)
    with ir.InsertionPoint(block):
        linalg.YieldOp(list(body(list(block.arguments))))
    return op


def renumber_index(op: ir.Operation, new: Sequence[int]) -> None:
    """Make every ``linalg.index`` in the body of ``op`` read loop ``new[i]`` instead of loop ``i``."""
    for inner in walk(op):
        if inner.name == "linalg.index":
            i64 = ir.IntegerType.get_signless(64)
            inner.attributes["dim"] = ir.IntegerAttr.get(i64, new[index_loop(inner)])


def replace(op: ir.Operation, values: Iterable[ir.Value]) -> None:
    """Use ``values`` instead of the results of ``op``, and erase it."""
    for old, new in zip(op.results, values, strict=True):
        old.replace_all_uses_with(new)
    op.erase()


def fused_location(ops: Iterable[ir.Operation], limit: int = 16) -> ir.Location:
    """The locations of ``ops`` as one, without repetition; only the first ``limit`` when there are more."""
    locations = list({str(op.location): op.location for op in ops}.values())[:limit]
    return locations[0] if len(locations) == 1 else ir.Location.fused(locations)

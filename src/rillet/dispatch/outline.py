"""Moves each marked region into a kernel of its own and calls it from the host program (docs/reference/flow-form.md).

Members are moved, not copied. The values that a region reads become arguments, except constants and tensors made from
no other tensor, which each kernel makes for itself. Extents of tensors at the kernel's edge become scalar arguments.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence

from torch_mlir import ir
from torch_mlir.dialects import arith, cf

from rillet.dialects import flow
from rillet.dispatch.host_views import splat
from rillet.dispatch.regions.nodes import argument, guards, host_blocks, is_argument, is_source
from rillet.ir import Program, builders, dtypes, locations
from rillet.ir.builders import Extent
from rillet.ir.extents import extents
from rillet.ir.limits import LONGEST_ROW
from rillet.ir.rewrite import (
    CLEANUP,
    clone_operations,
    defining,
    erase_dead,
    fused_location,
    int_constant,
    remap,
    run_upstream,
    sweep_constants,
)
from rillet.ir.structured import DYNAMIC, reads, walk


def run(program: Program, options: None) -> None:
    """Outline every region of ``@main``; kernels are called ``dispatch_0``, ``dispatch_1``, … in program order."""
    with program.context, ir.Location.unknown():
        with ir.InsertionPoint(program.module.body):
            holder = ir.Operation.create(
                "builtin.module", attributes={"sym_name": ir.StringAttr.get("kernels")}, regions=1
            )
        holder.regions[0].blocks.append()
        outliner = _Outliner(program, holder.regions[0].blocks[0])
        for block in host_blocks(program.main()):
            outliner.outline(block)
        _materialize_sources(program)
        erase_dead(program.main())
        sweep_constants(program)
        run_upstream(program.module.operation, CLEANUP)


class _Outliner:
    def __init__(self, program: Program, kernels: ir.Block) -> None:
        self.program = program
        self.kernels = kernels
        self.main = program.main()
        self.count = 0
        self.known: dict[ir.Value, Sequence[Extent]] = {}

    def outline(self, block: ir.Block) -> None:
        """Replace the regions of one block by calls, everything in an order that respects the new dependencies."""
        with ir.InsertionPoint.at_block_begin(block):
            self._know(block.arguments)
        operations = [op.operation for op in block.operations]
        terminator = operations.pop()
        for unit in _ordered(operations):
            if len(unit) == 1 and flow.REGION not in unit[0].attributes:
                unit[0].move_before(terminator)
                if unit[0].name.startswith("scf."):
                    with ir.InsertionPoint(terminator):
                        self._know(unit[0].results)
                continue
            with ir.InsertionPoint(terminator), fused_location(unit):
                self._region(unit)

    def _know(self, values: Iterable[ir.Value]) -> None:
        """Name the dynamic extents of tensors whose definition does not determine them, once, for all calls below."""
        for value in values:
            if not isinstance(value.type, ir.RankedTensorType) or ir.RankedTensorType(value.type).has_static_shape:
                continue
            old = [u.owner.operation for u in value.uses if u.owner.operation.name == "tensor.dim"]
            self.known[value] = [builders.dim(value, axis) for axis in range(ir.RankedTensorType(value.type).rank)]
            for op in old:
                axis = int_constant(op.operands[1])
                if axis is not None:
                    op.results[0].replace_all_uses_with(builders.as_index(self.known[value][axis]))

    def _region(self, unit: list[ir.Operation]) -> None:
        tensors, scalars, sources = _inputs(unit)
        results = _results(unit)
        self._bound_rows(unit)
        dims = {value: extents(value, self.known) for value in (*tensors, *results)}
        passed = _passed(dims)
        scalars = list(dict.fromkeys([*scalars, *(e for d in passed.values() for e in d)]))
        arguments = [*tensors, *scalars]
        number = {value: i for i, value in enumerate(arguments)}
        name = f"dispatch_{self.count}"
        self.count += 1

        def attributes(values: Sequence[ir.Value]) -> ir.ArrayAttr:
            return ir.ArrayAttr.get([_dims_attr([number[e] for e in passed.get(v, ())]) for v in values])

        type_ = ir.FunctionType.get([v.type for v in arguments], [v.type for v in results])
        described = {
            "sym_name": ir.StringAttr.get(name),
            "function_type": ir.TypeAttr.get(type_),
            "arg_attrs": attributes(arguments),
            "res_attrs": attributes(results),
        }
        tied = _tied(unit, results, number)
        if tied:
            described[flow.TIED] = ir.DenseI64ArrayAttr.get(tied)
        self._declare(name, described)
        call = ir.Operation.create(
            "func.call",
            results=[v.type for v in results],
            operands=arguments,
            attributes={"callee": ir.FlatSymbolRefAttr.get(name)},
        )
        for value, result in zip(results, call.results, strict=True):
            self.known[result] = dims[value]
        self._build(name, described, unit, arguments, sources, results, list(call.results))

    def _bound_rows(self, unit: list[ir.Operation]) -> None:
        """Assert that the rows which a chain keeps in scratch fit there."""
        bounds: dict[ir.Value, int] = {}
        for op in unit:
            if flow.LONG in op.attributes:
                axis = ir.IntegerAttr(op.attributes[flow.LONG]).value
                size = dtypes.storage_bytes(ir.RankedTensorType(op.results[0].type).element_type)
                extent = builders.as_index(extents(op.results[0], self.known)[axis])
                bounds[extent] = min(LONGEST_ROW // size, bounds.get(extent, LONGEST_ROW))
                del op.attributes[flow.LONG]
        for extent, bound in bounds.items():
            fits = arith.cmpi(arith.CmpIPredicate.sle, extent, builders.index(bound))
            label = locations.label(ir.Location.current)
            cf.assert_(fits, f"{label}: rows of {{0}} elements are longer than {{1}}, the most that a kernel can hold")

    def _declare(self, name: str, described: dict[str, ir.Attribute]) -> None:
        reference = ir.Attribute.parse(f"@kernels::@{name}")
        visibility = ir.StringAttr.get("private")
        with ir.InsertionPoint(self.main), ir.Location.unknown():
            ir.Operation.create(
                "func.func",
                attributes=described | {"sym_visibility": visibility, flow.KERNEL: reference},
                regions=1,
            )

    def _build(
        self,
        name: str,
        described: dict[str, ir.Attribute],
        unit: list[ir.Operation],
        arguments: Sequence[ir.Value],
        sources: Sequence[ir.Operation],
        results: Sequence[ir.Value],
        replacements: Sequence[ir.Value],
    ) -> None:
        module = ir.Operation.create(
            "builtin.module",
            attributes={"sym_name": ir.StringAttr.get(name), flow.KERNEL: ir.UnitAttr.get()},
            regions=1,
            ip=ir.InsertionPoint(self.kernels),
        )
        body = module.regions[0].blocks.append()
        function = ir.Operation.create("func.func", attributes=described, regions=1, ip=ir.InsertionPoint(body))
        locations = [ir.Location.unknown()] * len(arguments)
        block = function.regions[0].blocks.append(*[a.type for a in arguments], arg_locs=locations)
        mapping = dict(zip(arguments, block.arguments, strict=True))
        with ir.InsertionPoint(block):
            clone_operations(sources, mapping)
            ends = ir.Operation.create("func.return", operands=list(results))
        # Uses outside first: afterwards the only uses left are those of members and of the terminator.
        members = {*unit, ends}
        for value, replacement in zip(results, replacements, strict=True):
            for use in list(value.uses):
                user = use.owner.operation
                if user not in members and not _is_nested(user, members):
                    user.operands[use.operand_number] = replacement
        for op in unit:
            op.move_before(ends)
            del op.attributes[flow.REGION]
            remap(op, mapping)


def _is_nested(op: ir.Operation, members: set[ir.Operation]) -> bool:
    parent = op.parent
    while parent is not None:
        if parent.operation in members:
            return True
        parent = parent.operation.parent
    return False


def _ordered(operations: list[ir.Operation]) -> list[list[ir.Operation]]:
    """Regions and other operations, dependencies first, otherwise in program order."""
    units: dict[object, list[ir.Operation]] = {}
    of: dict[ir.Operation, int] = {}
    for op in operations:
        key = ir.IntegerAttr(op.attributes[flow.REGION]).value if flow.REGION in op.attributes else op
        units.setdefault(key, []).append(op)
    ordered = list(units.values())
    for i, unit in enumerate(ordered):
        of.update(dict.fromkeys(unit, i))
    waits: list[set[int]] = [set() for _ in ordered]
    feeds: list[list[int]] = [[] for _ in ordered]
    checks = dict(zip(operations, guards(operations), strict=True))
    for i, unit in enumerate(ordered):
        for op in unit:
            for owner in (checks[op], *map(defining, reads(op))):
                maker = of.get(owner) if owner is not None else None
                if maker is not None and maker != i and maker not in waits[i]:
                    waits[i].add(maker)
                    feeds[maker].append(i)
    ready = [i for i, w in enumerate(waits) if not w]
    heapq.heapify(ready)
    result = []
    while ready:
        i = heapq.heappop(ready)
        result.append(ordered[i])
        for j in feeds[i]:
            waits[j].discard(i)
            if not waits[j]:
                heapq.heappush(ready, j)
    assert len(result) == len(ordered), "regions depend on each other in a cycle"
    return result


def _inputs(unit: list[ir.Operation]) -> tuple[list[ir.Value], list[ir.Value], list[ir.Operation]]:
    """Tensors and scalars a region takes from the host, and the operations it repeats, operands first."""
    made = {r for op in unit for r in op.results}
    tensors: dict[ir.Value, None] = {}
    scalars: dict[ir.Value, None] = {}
    sources: dict[ir.Operation, None] = {}

    def visit(value: ir.Value) -> None:
        if value in made:
            return
        owner = defining(value)
        if owner is not None and (is_source(owner) or not is_argument(owner)):
            if owner not in sources:
                for operand in owner.operands:
                    visit(operand)
                sources.setdefault(owner)
        elif isinstance(value.type, ir.RankedTensorType):
            tensors.setdefault(value)
        else:
            scalars.setdefault(value)

    for op in unit:
        for value in reads(op):
            visit(value)
    return list(tensors), list(scalars), list(sources)


def _results(unit: list[ir.Operation]) -> list[ir.Value]:
    """The values of a region that ops outside it use, and those that a loop works on: see ``_is_room``."""
    members = set(unit)
    return [
        r
        for op in unit
        for r in op.results
        if _is_room(op, r)
        or any(u.owner.operation not in members and not _is_nested(u.owner.operation, members) for u in r.uses)
    ]


def _is_room(op: ir.Operation, result: ir.Value) -> bool:
    """Whether ``result`` is a tensor that a loop works on and whose size is known at run time only.

    Used or not, it takes memory, which only the host can allocate: as a result.
    """
    if op.name != "scf.for" or not isinstance(result.type, ir.RankedTensorType):
        return False
    return not ir.RankedTensorType(result.type).has_static_shape


def _passed(dims: Mapping[ir.Value, Sequence[Extent]]) -> dict[ir.Value, list[ir.Value]]:
    """The extents that each tensor's type leaves open, as values, including those known by other means."""
    numbers: dict[Extent, ir.Value] = {}
    found = {}
    for value, sizes in dims.items():
        open_ = [e for e, static in zip(sizes, ir.RankedTensorType(value.type).shape, strict=True) if static == DYNAMIC]
        for extent in open_:
            if extent not in numbers:
                numbers[extent] = argument(extent) if isinstance(extent, int) else extent
        found[value] = [numbers[e] for e in open_]
    return found


def _dims_attr(positions: Sequence[int]) -> ir.DictAttr:
    return ir.DictAttr.get({flow.DIMS: ir.DenseI64ArrayAttr.get(positions)} if positions else {})


def _tied(unit: list[ir.Operation], results: list[ir.Value], number: dict[ir.Value, int]) -> list[int]:
    """(result, argument) pairs for updates of a tensor: an insertion writes into its destination."""
    pairs = []
    for op in unit:
        if (
            op.name in ("tensor.insert_slice", "tensor.insert")
            and op.operands[1] in number
            and op.results[0] in results
        ):
            pairs += [results.index(op.results[0]), number[op.operands[1]]]
        if op.name == "scf.for":
            for init, result in zip(list(op.operands)[3:], op.results, strict=True):
                if init in number and result in results and isinstance(init.type, ir.RankedTensorType):
                    pairs += [results.index(result), number[init]]
    return pairs


def _materialize_sources(program: Program) -> None:
    """Fill the tensors that are made from no other tensor and that the host itself uses."""
    for op in list(walk(program.main())):
        if op.name in ("linalg.fill", "tensor.empty") and any(True for _ in op.results[0].uses):
            users = {u.owner.operation.name for u in op.results[0].uses}
            if users == {"linalg.fill"}:
                continue
            with ir.InsertionPoint(op), op.location:
                op.results[0].replace_all_uses_with(splat(op))
            op.erase()

"""Packs the constants that the program reads into one segment of the module file for each memory that holds them.

Arrays stay where they are: the segment is a list of (name, offset), and the writer streams them. Equal contents share
bytes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from torch_mlir import ir

from rillet.dialects import stream
from rillet.ir import Program
from rillet.ir.builders import i64_attr
from rillet.schedule import host


@dataclass(frozen=True)
class Options:
    """``alignment``: bytes at which each constant starts."""

    alignment: int = 64


def run(program: Program, options: Options) -> None:
    """Replace ``stream.constant`` by ranges of ``stream.segment``; records the layout in ``stream.segments``."""
    with program.context, ir.Location.unknown():
        constants: list[ir.Operation] = []
        _collect(program.main(), constants)
        held: dict[int, list[ir.Operation]] = {}
        for op in constants:
            held.setdefault(stream.device_of(op), []).append(op)
        segments = [
            _segment(program, held[device], ordinal, device, options.alignment)
            for ordinal, device in enumerate(sorted(held))
        ]
        program.module.operation.attributes["stream.segments"] = ir.ArrayAttr.get(segments)


def _segment(
    program: Program, constants: list[ir.Operation], ordinal: int, device: int, alignment: int
) -> ir.Attribute:
    """Make ``constants`` ranges of one segment; its layout."""
    names = list(dict.fromkeys(ir.StringAttr(op.attributes["symbol"]).value for op in constants))
    offsets, parts, length = _layout(program, names, alignment)
    with ir.InsertionPoint.at_block_begin(program.main().regions[0].blocks[0]):
        segment = stream.SegmentOp(stream.ResourceType.get(), i64_attr(ordinal))
    stream.set_device(segment, device)
    for op in constants:
        name = ir.StringAttr(op.attributes["symbol"]).value
        _replace(op, segment.operation.results[0], offsets[name], program.constants[name].nbytes)
    return ir.DictAttr.get(
        {
            "length": i64_attr(length),
            "names": ir.ArrayAttr.get([ir.StringAttr.get(name) for name, _ in parts]),
            "offsets": ir.DenseI64ArrayAttr.get([offset for _, offset in parts]),
        }
    )


def _collect(op: ir.Operation, into: list[ir.Operation]) -> None:
    for region in op.regions:
        for block in region.blocks:
            for inner in block.operations:
                if inner.operation.name == "stream.constant":
                    into.append(inner.operation)
                _collect(inner.operation, into)


def _layout(program: Program, names: list[str], alignment: int) -> tuple[dict[str, int], list[tuple[str, int]], int]:
    """The offset of every name, the arrays to write, and the length of the segment."""
    seen: dict[tuple[int, bytes, bytes], list[tuple[np.ndarray, int]]] = {}
    offsets: dict[str, int] = {}
    parts: list[tuple[str, int]] = []
    end = 0
    for name in names:
        raw = _bytes(program.constants[name])
        # Both ends differ between most arrays, so that hardly any array is read as a whole.
        alike = seen.setdefault((raw.size, raw[:64].tobytes(), raw[-64:].tobytes()), [])
        offset = next((known for other, known in alike if np.array_equal(raw, other)), None)
        if offset is None:
            offset = end
            alike.append((raw, offset))
            parts.append((name, offset))
            # An empty array gets an address of its own too.
            end += -(-max(raw.size, 1) // alignment) * alignment
        offsets[name] = offset
    return offsets, parts, end


def _bytes(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _replace(op: ir.Operation, segment: ir.Value, offset: int, length: int) -> None:
    for use in list(op.results[0].uses):
        user = use.owner.operation
        touch = next((t for t in stream.touches(user) if t.resource_operand == use.operand_number), None)
        with ir.InsertionPoint(stream.step_of(user)):
            if touch is not None:
                touch.move(segment, host.add(host.index(offset), touch.offset))
            elif user.name == "stream.load":
                user.operands[1] = host.add(host.index(offset), user.operands[1])
                user.operands[0] = segment
            else:
                view = stream.SubviewOp(segment.type, segment, host.index(offset), host.index(length))
                user.operands[use.operand_number] = view.operation.results[0]
    op.erase()

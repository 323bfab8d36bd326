"""``rillet.check``: what a model needs and whether it can be compiled, without compiling it.

The frontend walks the whole graph and collects every node that is not supported. When there is none, the host stages of
the pipeline (no code generation) give the work and the memory: multiply-accumulates, weights, arena.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from rillet.errors import UnsupportedNode

if TYPE_CHECKING:
    import onnx

    from rillet.ir import Program
    from rillet.targets import Target

__all__ = ["OpCoverage", "Report", "check"]

_CONTROL_FLOW = ("If", "Loop", "Scan", "SequenceMap")


@dataclass(frozen=True)
class OpCoverage:
    """How one op is used: name with its domain, opset, number of nodes, element types, how many are not supported."""

    op: str
    opset: int
    count: int
    dtypes: tuple[str, ...]
    unsupported: int
    reasons: tuple[str, ...]


@dataclass(frozen=True)
class Report:
    """What ``check`` found. Work and memory are None when the model is not supported; dynamic extents count as 1."""

    ops: tuple[OpCoverage, ...]
    unsupported: tuple[UnsupportedNode, ...]
    opsets: Mapping[str, int]
    inputs: Mapping[str, Sequence[int | str]]
    outputs: Sequence[str]
    dynamic_dimensions: tuple[str, ...]
    control_flow: Mapping[str, int]
    functions: tuple[str, ...]
    weight_bytes: int  # of the initializers, as the file has them
    macs: int | None = None
    constant_bytes: int | None = None  # as the module will have them: folded, packed
    dispatch_count: int | None = None
    arena_bytes: int | None = None  # None as well where it is only known at run time
    refused: str = ""  # why the target cannot have the model, all of whose nodes are supported, as it is

    @property
    def supported(self) -> bool:
        """Whether the model compiles."""
        return not self.unsupported and not self.refused

    def as_dict(self) -> dict[str, Any]:
        """The report as JSON-ready data."""
        return {"supported": self.supported, **asdict(self)}


def check(
    source: str | os.PathLike[str] | bytes | onnx.ModelProto,
    *,
    target: str = "host",
    inputs: Mapping[str, Sequence[int | str]] | None = None,
    dims: Mapping[str, int] | None = None,
) -> Report:
    """Report on an ONNX model: a path, the bytes of a file, or a ModelProto.

    ``inputs`` and ``dims`` override shapes of inputs, as for ``rillet.compile``. Raises CompileError when the model is
    invalid; what is not supported is in the report.
    """
    from rillet import pipeline
    from rillet.analysis.static_memory import refused_inputs, refused_results
    from rillet.analysis.survey import survey
    from rillet.frontends.onnx.importer import GraphImporter
    from rillet.frontends.onnx.loader import load_model
    from rillet.frontends.pinned_dimensions import pin
    from rillet.ir import turn
    from rillet.targets import get

    with turn:
        source, inputs = pin(source, inputs, dims)
        model = load_model(source)
        importer = GraphImporter(model, inputs)
        program = importer.run()
        facts = survey(model, importer.unsupported, inputs or {})
        if importer.unsupported:
            return Report(**facts)
        pipeline.verify(program, "frontend")
        machine = get(target)
        refused = refused_inputs(program, machine) if machine.is_bare_metal else ""
        estimate = _estimate(program, machine)
        if machine.is_bare_metal and not refused:
            refused = refused_results(program, machine)
        return Report(**facts, **estimate, refused=refused)


def _estimate(program: Program, target: Target) -> dict[str, Any]:
    """Work and memory from the host stages."""
    from torch_mlir import ir

    from rillet import pipeline

    steps = [s for s in pipeline.passes(target) if s.stage in ("optimize", "dispatch", "schedule")]
    pipeline.run(program, steps)
    attributes = program.module.operation.attributes

    def count(name: str) -> int | None:
        return ir.IntegerAttr(attributes[name]).value if name in attributes else None

    return {
        "macs": count("rillet.macs"),
        "dispatch_count": count("rillet.dispatch_count"),
        "constant_bytes": count("rillet.weight_bytes"),
        "arena_bytes": None if count("stream.arena_is_dynamic") else count("stream.arena_bytes"),
    }

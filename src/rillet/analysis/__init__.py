"""``rillet.check``: what a model needs and whether it can be compiled, without compiling it.

The frontend reads the whole model and collects every node that is not supported. When there is none, the host stages of
the pipeline (no code generation) give the work and the memory: multiply-accumulates, weights, arena.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from rillet.errors import UnsupportedError, UnsupportedNode
from rillet.frontends.frontend import OpUse
from rillet.ir.attributes import DISPATCH_COUNT, MACS, WEIGHT_BYTES
from rillet.support.suggestions import suggests_keywords

if TYPE_CHECKING:
    from rillet.frontends.frontend import Model
    from rillet.ir import Program
    from rillet.targets import Target

__all__ = ["OpCoverage", "Report", "check"]


@dataclass(frozen=True)
class OpCoverage:
    """How one op is used: name with its domain or dialect, opset (0: none), number of nodes, element types, how many
    are not supported.
    """

    op: str
    opset: int
    count: int
    dtypes: tuple[str, ...]
    unsupported: int
    reasons: tuple[str, ...]


@dataclass(frozen=True)
class Report:
    """A report of ``check``. Work and memory are None when the model is not supported; dynamic extents count as 1."""

    ops: tuple[OpCoverage, ...]
    unsupported: tuple[UnsupportedNode, ...]
    opsets: Mapping[str, int]
    inputs: Mapping[str, Sequence[int | str]]
    defaults: Sequence[str]  # inputs that calls may leave out
    outputs: Sequence[str]
    dynamic_dimensions: tuple[str, ...]
    control_flow: Mapping[str, int]
    functions: tuple[str, ...]
    weight_bytes: int  # as the source has them
    macs: int | None = None
    constant_bytes: int | None = None  # as the module will have them: folded, packed
    dispatch_count: int | None = None
    arena_bytes: int | None = None  # None as well where it is only known at run time
    refused: str = ""  # why the target cannot have the model as it is, though all nodes are supported

    @property
    def supported(self) -> bool:
        """Whether the model compiles."""
        return not self.unsupported and not self.refused

    def as_dict(self) -> dict[str, Any]:
        """The report as JSON-ready data."""
        return {"supported": self.supported, **asdict(self)}


@suggests_keywords
def check(
    source: object,
    *,
    target: str = "host",
    inputs: Mapping[str, Sequence[int | str]] | None = None,
    dims: Mapping[str, int] | None = None,
) -> Report:
    """Report on a model: anything that ``rillet.compile`` takes.

    ``inputs`` and ``dims`` override shapes of inputs, as for ``rillet.compile``. Raises CompileError when the model is
    invalid; what is not supported is in the report.
    """
    from rillet import pipeline
    from rillet.analysis.static_memory import refused_inputs, refused_results
    from rillet.frontends.registry import import_program, open_model
    from rillet.ir import defaults, turn
    from rillet.targets import get

    with turn:
        model = open_model(source, inputs, dims)
        try:
            program = import_program(model)
        except UnsupportedError as error:
            return Report(**_facts(model, error.nodes))
        pipeline.verify(program, "frontend")
        chosen = get(target)
        facts, refused, is_static = _facts(model, ()), "", not chosen.deployment.has_loader
        if is_static:
            defaults.hold(program)  # as its export does
            facts["inputs"] = {name: dims for name, dims in facts["inputs"].items() if name not in facts["defaults"]}
            facts["defaults"] = []
            refused = refused_inputs(program, chosen)
        estimate = _estimate(program, chosen)
        if is_static and not refused:
            refused = refused_results(program, chosen)
        return Report(**facts, **estimate, refused=refused)


def _facts(model: Model, unsupported: Sequence[UnsupportedNode]) -> dict[str, Any]:
    """The fields of a report that need no compilation."""
    survey = model.survey()
    inputs = {spec.name: list(spec.dims) for spec in model.inputs}
    return {
        "ops": tuple(_coverage(survey.ops, unsupported)),
        "unsupported": tuple(unsupported),
        "opsets": survey.versions,
        "inputs": inputs,
        "defaults": [spec.name for spec in model.inputs if spec.has_default],
        "outputs": list(survey.outputs),
        "dynamic_dimensions": tuple(dict.fromkeys(d for dims in inputs.values() for d in dims if isinstance(d, str))),
        "control_flow": survey.control_flow,
        "functions": survey.functions,
        "weight_bytes": survey.weight_bytes,
    }


def _coverage(uses: Sequence[OpUse], unsupported: Sequence[UnsupportedNode]) -> Iterator[OpCoverage]:
    """The coverage of every op of the model and of its functions' bodies."""
    refused: dict[str, list[UnsupportedNode]] = defaultdict(list)
    for node in unsupported:
        refused[node.op].append(node)
    used = {use.op: use for use in uses}
    for op in sorted({*used, *refused}):
        use = used.get(op) or OpUse(op, 0, 0, ())
        version = refused[op][0].opset if refused[op] else use.version
        reasons = tuple(dict.fromkeys(node.reason for node in refused[op]))
        yield OpCoverage(op, version, use.count, use.dtypes, len(refused[op]), reasons)


def _estimate(program: Program, target: Target) -> dict[str, Any]:
    """Work and memory from the host stages."""
    from torch_mlir import ir

    from rillet import pipeline

    pipeline.run(program, pipeline.options_for(target), until="schedule")
    attributes = program.module.operation.attributes

    def count(name: str) -> int | None:
        return ir.IntegerAttr(attributes[name]).value if name in attributes else None

    return {
        "macs": count(MACS),
        "dispatch_count": count(DISPATCH_COUNT),
        "constant_bytes": count(WEIGHT_BYTES),
        "arena_bytes": None if count("stream.arena_is_dynamic") else count("stream.arena_bytes"),
    }

"""Finds the first node whose result departs from the oracles, and a small part of the model that shows it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rillet.errors import CompileError, RilletError
from rillet.runtime.sample_inputs import sample_inputs
from rillet.verify.difference import Difference, difference
from rillet.verify.oracles import ORACLES, OracleError
from rillet.verify.steps import Judge
from rillet.verify.submodel import reads, submodel, value_types

if TYPE_CHECKING:
    import onnx

    from rillet.runtime import Module

Feeds = Mapping[str, np.ndarray]
_BATCH = 64  # intermediate values that one compilation exposes


@dataclass(frozen=True)
class Finding:
    """One value compared: ``differences`` by oracle, and ``between`` the two oracles where both computed it.

    ``explanation``: why a value that differs is right, as `rillet.verify.steps` judges quantized models.
    """

    node: str
    op: str
    value: str
    differences: Mapping[str, Difference]
    between: Difference | None = None
    explanation: str = ""

    @property
    def departs(self) -> bool:
        """Whether Rillet agrees with no oracle, without an explanation."""
        return bool(self.differences) and not self.explanation and not any(d.agrees for d in self.differences.values())

    @property
    def oracles_disagree(self) -> bool:
        return self.between is not None and not self.between.agrees

    def as_dict(self) -> dict[str, Any]:
        return {
            "node": self.node,
            "op": self.op,
            "value": self.value,
            "departs": self.departs,
            "oracles_disagree": self.oracles_disagree,
            "explanation": self.explanation,
            "differences": {name: d.as_dict() for name, d in self.differences.items()},
        }

    def __str__(self) -> str:
        text = f"{self.op} '{self.node}', value '{self.value}'"
        for name, found in self.differences.items():
            text += f"\n    against {name}: {found}"
        if self.oracles_disagree:
            text += f"\n    the oracles disagree with each other: {self.between}"
        return text


@dataclass(frozen=True)
class Report:
    """``outputs`` of the unmodified model, then its ``layers`` in order; why oracles are ``missing``; the inputs."""

    outputs: tuple[Finding, ...]
    layers: tuple[Finding, ...]
    missing: Mapping[str, str]
    feeds: Feeds

    @property
    def agrees(self) -> bool:
        return not any(f.departs for f in (*self.outputs, *self.layers))

    @property
    def first(self) -> Finding | None:
        """The first value that departs, in the order of the nodes; an output if only the unmodified model departs."""
        return next((f for f in (*self.layers, *self.outputs) if f.departs), None)

    def as_dict(self) -> dict[str, Any]:
        """The report as JSON-ready data."""
        return {
            "agrees": self.agrees,
            "first": self.first.as_dict() if self.first else None,
            "outputs": [f.as_dict() for f in self.outputs],
            "layers": [f.as_dict() for f in self.layers],
            "missing": dict(self.missing),
        }


def verify(
    source: str | os.PathLike[str] | bytes | onnx.ModelProto,
    *,
    feeds: Feeds | None = None,
    seed: int = 0,
    inputs: Mapping[str, Sequence[int | str]] | None = None,
    dims: Mapping[str, int] | None = None,
    sizes: Mapping[str, int] | None = None,
    layers: bool = True,
) -> Report:
    """Compare a model with the oracles on ``feeds``; inputs not in it are random with ``seed``.

    ``inputs`` and ``dims`` pin shapes, as for ``rillet.compile``; ``sizes`` are those of dynamic dimensions in random
    inputs (default: 1, or what ``feeds`` have); ``layers`` False compares the outputs only. Raises CompileError when
    the model does not compile, and OracleError when no oracle runs it.
    """
    from rillet.frontends.onnx.loader import load_model
    from rillet.frontends.pinned_dimensions import pin

    source, inputs = pin(source, inputs, dims)
    model = load_model(source)
    module = _compile(model, inputs)
    values = sample_inputs(module.inputs, feeds, sizes, seed)
    names = [output.name for output in model.graph.output]
    missing: dict[str, str] = {}
    judge = Judge(model)
    if not layers:
        return Report(tuple(_compare(model, module, values, names, missing, judge)), (), missing, values)
    inner = [n for n in _intermediate(model) if n not in names]
    # Inner values first: what differs in them explains what differs in the outputs.
    found = tuple(_layers(model, values, inner, inputs, missing, judge))
    known = _inputs_of(model, names, values, inputs) if judge.found_steps else values
    return Report(tuple(_compare(model, module, values, names, missing, judge, known)), found, missing, values)


def bisect(model: onnx.ModelProto, feeds: Feeds, finding: Finding) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """A small part of ``model`` that still departs at ``finding.value``, and its inputs; the whole if no part does.

    The part is cut before the value: what its first nodes read becomes an input with the reference's value. Cuts are
    tried from one node to twice, four times, ... as many before it, until the part departs.
    """
    nodes = {o: node for node in model.graph.node for o in node.output if o}
    wanted = [finding.value]
    whole = submodel(model, wanted)
    depth = 1
    while True:
        kept = _before(nodes, finding.value, depth)
        cut = sorted({n for node in kept for n in reads(node) if n in nodes and not any(nodes[n] is k for k in kept)})
        values = {**feeds, **(_first_oracle(submodel(model, cut), feeds) if cut else {})}
        part = submodel(model, wanted, cut, value_types(model, values))
        own = {i.name: values[i.name] for i in part.graph.input}
        if len(part.graph.node) >= len(whole.graph.node):
            return whole, {i.name: feeds[i.name] for i in whole.graph.input}
        if any(f.departs for f in _compare(part, _compile(part, None), own, wanted, {}, Judge(part))):
            return part, own
        depth *= 2


def _before(nodes: Mapping[str, onnx.NodeProto], value: str, count: int) -> list[onnx.NodeProto]:
    """The node that makes ``value`` and the nearest ones before it, ``count`` in all, breadth first."""
    found: list[onnx.NodeProto] = []
    pending = [value]
    while pending and len(found) < count:
        node = nodes.get(pending.pop(0))
        if node is None or any(node is f for f in found):
            continue
        found.append(node)
        pending.extend(reads(node))
    return found


def _layers(
    model: onnx.ModelProto,
    feeds: Feeds,
    names: Sequence[str],
    inputs: Mapping[str, Sequence[int | str]] | None,
    missing: dict[str, str],
    judge: Judge,
) -> Iterator[Finding]:
    """Compare intermediate values, ``_BATCH`` for each compilation."""
    for start in range(0, len(names), _BATCH):
        batch = names[start : start + _BATCH]
        exposed, module, own = _exposed(model, [*batch, *_read_by(model, batch)], feeds, inputs)
        yield from _compare(exposed, module, own, batch, missing, judge)


def _exposed(
    model: onnx.ModelProto, names: Sequence[str], feeds: Feeds, inputs: Mapping[str, Sequence[int | str]] | None
) -> tuple[onnx.ModelProto, Module, Feeds]:
    """The part of the model that computes ``names``, compiled, and its inputs."""
    part = submodel(model, names, (), value_types(model))
    own = {i.name: feeds[i.name] for i in part.graph.input if i.name in feeds}
    return part, _compile(part, {name: shape for name, shape in (inputs or {}).items() if name in own}), own


def _read_by(model: onnx.ModelProto, names: Sequence[str]) -> list[str]:
    """What the nodes that make ``names`` read of the values of other nodes that can be outputs."""
    wanted = {n for node in model.graph.node if not set(names).isdisjoint(node.output) for n in reads(node)}
    return [n for n in _intermediate(model) if n in wanted and n not in names]


def _inputs_of(
    model: onnx.ModelProto, names: Sequence[str], feeds: Feeds, inputs: Mapping[str, Sequence[int | str]] | None
) -> Feeds:
    """The model's inputs, and what the nodes that make its outputs read."""
    wanted = _read_by(model, names)
    if not wanted:
        return feeds
    _, module, own = _exposed(model, wanted, feeds, inputs)
    return {**feeds, **module.run({spec.name: own[spec.name] for spec in module.inputs})}


def _compare(
    model: onnx.ModelProto,
    module: Module,
    feeds: Feeds,
    names: Sequence[str],
    missing: dict[str, str],
    judge: Judge,
    known: Feeds | None = None,
) -> Iterator[Finding]:
    """Rillet's values and the oracles'; ``known``: values that nodes read, besides those that the module returns."""
    own = {spec.name: feeds[spec.name] for spec in module.inputs}
    actual = module.run(own)
    expected: dict[str, Mapping[str, Any]] = {}
    for oracle, run in ORACLES.items():
        try:
            expected[oracle] = run(model, own, names)
        except OracleError as error:
            missing.setdefault(oracle, str(error))
    if not expected:
        raise OracleError("no oracle runs the model: " + "; ".join(missing.values()))
    nodes = {o: node for node in model.graph.node for o in node.output}
    for name in names:
        if name not in actual:  # a sequence or an optional
            continue
        arrays = {oracle: np.asarray(results[name]) for oracle, results in expected.items()}
        first, *others = arrays.values()
        between = difference(first, others[0]) if others else None
        found = {oracle: difference(actual[name], array) for oracle, array in arrays.items()}
        node = nodes.get(name)
        why = ""
        if not any(d.agrees for d in found.values()):
            why = judge.explanation(name, np.asarray(actual[name]), {**feeds, **(known or {}), **actual}, found)
        yield Finding(node.name if node else name, node.op_type if node else "input", name, found, between, why)


def _first_oracle(model: onnx.ModelProto, feeds: Feeds) -> Mapping[str, Any]:
    for run in ORACLES.values():
        try:
            return run(model, feeds)
        except OracleError:
            continue
    raise OracleError("no oracle computes the inputs of the part")


def _intermediate(model: onnx.ModelProto) -> list[str]:
    """The tensors that the graph's nodes make, in order; those of known type, so that they can be outputs."""
    types = value_types(model)
    return [o for node in model.graph.node for o in node.output if o and o in types]


def _compile(model: onnx.ModelProto, inputs: Mapping[str, Sequence[int | str]] | None) -> Module:
    import rillet

    try:
        return rillet.compile(model, inputs=inputs)
    except CompileError:
        raise
    except RilletError as error:
        raise CompileError(str(error)) from error

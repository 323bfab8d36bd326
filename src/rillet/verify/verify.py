"""Finds the first node whose result departs from the oracles, and a small part of the model that shows it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rillet.errors import CompileError, RilletError
from rillet.frontends.registry import open_model
from rillet.frontends.verification import Arrays, ComputingNode, OracleError, VerifiableModel
from rillet.runtime.sample_inputs import sample_inputs
from rillet.verify.difference import Difference, difference
from rillet.verify.steps import Judge, given

if TYPE_CHECKING:
    from rillet.runtime import Module

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
        """Whether two oracles computed the value and differ."""
        return self.between is not None and not self.between.agrees

    def as_dict(self) -> dict[str, Any]:
        """The finding as JSON-ready data."""
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
    feeds: Arrays

    @property
    def agrees(self) -> bool:
        """Whether no output and no layer departs."""
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
    source: object,
    *,
    feeds: Arrays | None = None,
    seed: int = 0,
    inputs: Mapping[str, Sequence[int | str]] | None = None,
    dims: Mapping[str, int] | None = None,
    sizes: Mapping[str, int] | None = None,
    layers: bool = True,
) -> Report:
    """Compare a model with its oracles on ``feeds``; inputs not in it are random with ``seed``.

    ``source``, ``inputs`` and ``dims`` are as for ``rillet.compile``; ``sizes`` are those of dynamic dimensions in
    random inputs (default: 1, or what ``feeds`` have); ``layers`` False compares the outputs only. Raises CompileError
    when the model does not compile or has no oracles, and OracleError when none of them runs it.
    """
    model = verifiable(source, inputs, dims)
    module = _compile(model)
    values = sample_inputs(module.inputs, feeds, sizes, seed)
    missing: dict[str, str] = {}
    judge = Judge(model)
    if not layers:
        return Report(tuple(_compare(model, module, values, model.outputs, missing, judge)), (), missing, values)
    # Inner values first: what differs in them explains what differs in the outputs.
    inner = [name for node in model.nodes for name in node.exposable if name not in model.outputs]
    found = tuple(_layers(model, values, inner, missing, judge))
    known = _inputs_of(model, model.outputs, values) if judge.found_steps else values
    outputs = tuple(_compare(model, module, values, model.outputs, missing, judge, known))
    return Report(outputs, found, missing, values)


def verifiable(
    source: object,
    inputs: Mapping[str, Sequence[int | str]] | None = None,
    dims: Mapping[str, int] | None = None,
) -> VerifiableModel:
    """The model in ``source``, as for ``rillet.compile``. Raises CompileError where it has no oracles."""
    model = open_model(source, inputs, dims)
    if not isinstance(model, VerifiableModel):
        raise CompileError(
            "the model cannot be verified: its frontend knows no other implementation to compare with; "
            "'rillet run' computes its outputs"
        )
    return model


def bisect(model: VerifiableModel, feeds: Arrays, finding: Finding) -> tuple[VerifiableModel, dict[str, np.ndarray]]:
    """A small part of ``model`` that still departs at ``finding.value``, and its inputs; the whole model if no part
    does.

    The part is cut before the value: the values that its first nodes read become inputs with the reference's values.
    The first part tried has one node, and each further one twice as many, until a part departs.
    """
    nodes = _by_value(model)
    wanted = [finding.value]
    whole = model.part(wanted)
    depth = 1
    while True:
        kept = _before(nodes, finding.value, depth)
        cut = sorted({n for node in kept for n in node.reads if n in nodes and nodes[n] not in kept})
        values = {**feeds, **(_first_oracle(model.part(cut), feeds) if cut else {})}
        part = model.part(wanted, cut, values)
        if len(part.nodes) >= len(whole.nodes):
            return whole, given(whole.inputs, feeds)
        own = given(part.inputs, values)
        if any(f.departs for f in _compare(part, _compile(part), own, wanted, {}, Judge(part))):
            return part, own
        depth *= 2


def _by_value(model: VerifiableModel) -> dict[str, ComputingNode]:
    """The node that makes a value, by the value's name."""
    return {value: node for node in model.nodes for value in node.makes}


def _before(nodes: Mapping[str, ComputingNode], value: str, count: int) -> list[ComputingNode]:
    """The node that makes ``value`` and the nearest ones before it, ``count`` in all, breadth first."""
    found: list[ComputingNode] = []
    pending = [value]
    while pending and len(found) < count:
        node = nodes.get(pending.pop(0))
        if node is None or node in found:
            continue
        found.append(node)
        pending.extend(node.reads)
    return found


def _layers(
    model: VerifiableModel, feeds: Arrays, names: Sequence[str], missing: dict[str, str], judge: Judge
) -> Iterator[Finding]:
    """Compare intermediate values, ``_BATCH`` for each compilation."""
    for start in range(0, len(names), _BATCH):
        batch = names[start : start + _BATCH]
        exposed, module, own = _exposed(model, [*batch, *_read_by(model, batch)], feeds)
        yield from _compare(exposed, module, own, batch, missing, judge)


def _exposed(
    model: VerifiableModel, names: Sequence[str], feeds: Arrays
) -> tuple[VerifiableModel, Module, dict[str, np.ndarray]]:
    """The part of the model that computes ``names``, compiled, and its inputs."""
    part = model.part(names)
    return part, _compile(part), {spec.name: feeds[spec.name] for spec in part.inputs if spec.name in feeds}


def _read_by(model: VerifiableModel, names: Sequence[str]) -> list[str]:
    """The values of other nodes that the nodes of ``names`` read and that can be outputs."""
    wanted = {n for node in model.nodes if not set(names).isdisjoint(node.makes) for n in node.reads}
    return [n for node in model.nodes for n in node.exposable if n in wanted and n not in names]


def _inputs_of(model: VerifiableModel, names: Sequence[str], feeds: Arrays) -> Arrays:
    """The model's inputs, and what the nodes that make its outputs read."""
    wanted = _read_by(model, names)
    if not wanted:
        return feeds
    _, module, own = _exposed(model, wanted, feeds)
    return {**feeds, **module.run(given(module.inputs, own))}


def _compare(
    model: VerifiableModel,
    module: Module,
    feeds: Arrays,
    names: Sequence[str],
    missing: dict[str, str],
    judge: Judge,
    known: Arrays | None = None,
) -> Iterator[Finding]:
    """Rillet's values and the oracles'; ``known``: values that nodes read, besides those that the module returns."""
    own = given(module.inputs, feeds)
    actual = module.run(own)
    expected: dict[str, Mapping[str, Any]] = {}
    for oracle, run in model.oracles().items():
        try:
            expected[oracle] = run(own, names)
        except OracleError as error:
            missing.setdefault(oracle, str(error))
    if not expected:
        raise OracleError("no oracle runs the model: " + "; ".join(missing.values()))
    nodes = _by_value(model)
    for name in names:
        if name not in actual:  # a sequence or an optional
            continue
        arrays = {oracle: results[name] for oracle, results in expected.items()}
        first, *others = arrays.values()
        between = difference(first, others[0]) if others else None
        found = {oracle: difference(actual[name], array) for oracle, array in arrays.items()}
        node = nodes.get(name)
        why = ""
        if not any(d.agrees for d in found.values()):
            why = judge.explanation(name, np.asarray(actual[name]), {**feeds, **(known or {}), **actual}, found)
        yield Finding(node.name if node else name, node.op if node else "input", name, found, between, why)


def _first_oracle(model: VerifiableModel, feeds: Arrays) -> Mapping[str, Any]:
    for run in model.oracles().values():
        try:
            return run(feeds, model.outputs)
        except OracleError:
            continue
    raise OracleError("no oracle computes the inputs of the part")


def _compile(model: VerifiableModel) -> Module:
    from rillet.driver.compile import compile

    try:
        return compile(model)
    except CompileError:
        raise
    except RilletError as error:
        raise CompileError(str(error)) from error

"""Which function imports which ONNX op at which opsets.

An importer is registered with ``@op("Conv", since=1)``. It takes the ``Node`` and its inputs, one argument each (None
for an absent optional input), and returns a Tensor or a sequence of them, one for each output of the node (trailing
ones may be left out when ``node.wants(i)`` is false; an unused one in the middle may be None)::

    @op("LeakyRelu", since=6)
    def leaky_relu(node: Node, x: Tensor) -> Tensor:
        alpha = node.attr("alpha", 0.01)
        return node.b.map(lambda v: select(v < 0, v * alpha, v), x)

Attributes that it does not read are refused unless they are at their default or listed in ``ignores``.
A function may carry several decorators: one for each op or opset range. It is called with constants too. Nodes whose
inputs are all constant are folded first where that pays (``steps/fold.py``), and integer shape arithmetic goes through
``steps/shape_arithmetic.py``. An importer raises InvalidNode or UnsupportedFeature (``rillet.frontends.errors``); the
graph walk adds the node.

Ops without an importer fall back to ONNX's own function bodies (``functions.py``) when the op has one.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

Importer = Callable[..., Any]
LATEST = 1 << 30


@dataclass(frozen=True)
class Entry:
    """An importer, its opset range, and the attributes that it may leave unread (they cannot change the result)."""

    since: int
    until: int
    importer: Importer
    ignores: frozenset[str]


_importers: dict[tuple[str, str, bool], list[Entry]] = {}
_loaded = False


def op(
    *op_types: str,
    since: int = 1,
    until: int = LATEST,
    domain: str = "",
    ignores: Sequence[str] = (),
    strings: bool = False,
) -> Callable[[Importer], Importer]:
    """Register an importer for ``op_types`` where ``domain`` has an opset in ``since..until`` (included).

    ``ignores`` lists attributes that cannot change the result. A node with any other attribute that the importer does
    not read, and that is not at its default, is refused rather than imported without its effect. ``strings`` makes it
    the importer for nodes that take or give strings, which come as StringTensors. Raises ValueError when an opset of an
    op is registered twice.
    """

    def register(importer: Importer) -> Importer:
        for op_type in op_types:
            entries = _importers.setdefault((domain, op_type, strings), [])
            for entry in entries:
                if since <= entry.until and entry.since <= until:
                    raise ValueError(f"{op_type}: opsets {since}..{until} are registered twice")
            entries.append(Entry(since, until, importer, frozenset(ignores)))
        return importer

    return register


def lookup(domain: str, op_type: str, opset: int, strings: bool = False) -> Entry | None:
    """The entry of an op at an opset, for nodes with or without strings, or None."""
    _load()
    for entry in _importers.get((domain, op_type, strings), ()):
        if entry.since <= opset <= entry.until:
            return entry
    return None


def supported(domain: str = "") -> Sequence[str]:
    """The ops of ``domain`` that have an importer for some opset, sorted."""
    _load()
    return sorted({op_type for d, op_type, _ in _importers if d == domain})


def opsets(domain: str, op_type: str) -> list[tuple[int, int]]:
    """The ranges of opsets (first, last) for which an op has an importer, with strings or without; ascending."""
    _load()
    return sorted({(e.since, e.until) for s in (False, True) for e in _importers.get((domain, op_type, s), ())})


def _load() -> None:
    """Import every module of ``ops`` and its folders, which registers their importers."""
    global _loaded
    if _loaded:
        return
    from rillet.frontends.onnx import ops

    for module in pkgutil.walk_packages(ops.__path__, f"{ops.__name__}."):
        importlib.import_module(module.name)
    _loaded = True

"""Random graphs against the oracles: graphs that failed once, and a sample of new ones. See ``tests.fuzz.graphs``."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

pytest.importorskip("onnxruntime")

from . import graphs

_REGRESSIONS = sorted((Path(__file__).parent / "regressions").glob("*.txt"))


@pytest.mark.parametrize("path", _REGRESSIONS, ids=lambda p: p.stem)
def test_graph_that_failed_once(path: Path) -> None:
    model = onnx.parser.parse_model(path.read_text())
    rng = np.random.default_rng(0)
    names = sorted({d.dim_param for i in model.graph.input for d in i.type.tensor_type.shape.dim} - {""})
    sets = [{name: size for name in names} for size in (1, 3, 5)]
    feeds = [graphs.random_feeds(model, sizes, rng, structured) for sizes in sets for structured in (False, True)]
    outcome = graphs.check(model, feeds)
    assert outcome.kind in ("ok", "invalid"), outcome.detail


def test_sample_of_random_graphs() -> None:
    """The seeds are always the same ones; ``python -m tests.fuzz.graphs`` runs others."""
    bad = [f"seed {s}: {o.kind}: {o.detail}" for s, o in graphs.outcomes(_FIRST_SEED, _SEEDS) if o.failed]
    assert not bad, "\n".join(bad)


_FIRST_SEED, _SEEDS = 5000, 50


def test_a_graph_whose_inferred_shapes_are_wrong_is_reduced() -> None:
    """Of slopes that do not broadcast to the values, onnx infers the values' shape and runtimes compute another."""
    text = """<ir_version: 10, opset_import: ["" : 20]> g (float[4] x, float[3,2,1] slope) => (float y) <float[4] t>
    { t = PRelu(x, slope)  y = ReduceMax<keepdims: int = 0>(t) }"""
    rng = np.random.default_rng(0)
    model = onnx.parser.parse_model(text)
    assert graphs.reduce(model, [graphs.random_feeds(model, {}, rng, False)])[2].failed

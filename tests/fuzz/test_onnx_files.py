"""Mutated ONNX files: no crash, no hang, no error but Rillet's. See ``tests.fuzz.onnx_files``."""

from __future__ import annotations

import pytest

from . import onnx_files
from .corpus import models

_MUTANTS = 2000


def test_corpus_compiles() -> None:
    kinds = [onnx_files.check(model.SerializeToString())[0] for model in models()]
    assert kinds == ["ok"] * len(kinds)


@pytest.mark.timeout(900)
def test_sample_of_mutants() -> None:
    """The seeds are always the same ones; ``python -m tests.fuzz.onnx_files`` runs others."""
    results = dict(onnx_files.outcomes(0, _MUTANTS))
    bad = [f"seed {s}: {kind}: {detail}" for s, (kind, detail) in results.items() if kind in ("bug", "crash")]
    assert not bad, "\n".join(bad)
    assert sum(kind == "ok" for kind, _ in results.values()) > _MUTANTS // 20

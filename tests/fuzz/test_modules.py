"""Damaged module files: no crash, and no error but Rillet's. See ``tests.fuzz.modules``."""

from __future__ import annotations

from . import modules

_MUTANTS = 500


def test_sample_of_damaged_modules() -> None:
    """The seeds are always the same ones; ``python -m tests.fuzz.modules`` runs others."""
    results = dict(modules.outcomes(0, _MUTANTS))
    bad = [f"seed {s}: {kind}: {detail}" for s, (kind, detail) in results.items() if kind in ("bug", "crash")]
    assert not bad, "\n".join(bad)
    kinds = [kind for kind, _ in results.values()]
    assert kinds.count("rejected") > _MUTANTS // 2
    assert kinds.count("ok") > 1

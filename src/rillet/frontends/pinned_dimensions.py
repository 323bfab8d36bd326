"""Sizes that a caller gives for dimensions by their names in the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rillet.errors import CompileError, advice
from rillet.frontends.frontend import InputSpec


def sized_shapes(inputs: Sequence[InputSpec], sizes: Mapping[str, int]) -> dict[str, tuple[int | str, ...]]:
    """The shapes, by name, of those ``inputs`` that have dimensions named in ``sizes``, with the sizes in them.

    Raises CompileError for a name that no input has.
    """
    known = dict.fromkeys(d for spec in inputs for d in spec.dims if isinstance(d, str))
    if unknown := [name for name in sizes if name not in known]:
        what = advice(f"dims[{unknown[0]!r}]", f"--dim {unknown[0]}={sizes[unknown[0]]}")
        there = f"its dynamic dimensions: {', '.join(known)}" if known else "its inputs have no dynamic dimensions"
        raise CompileError(f"{what}: the model has no dimension of this name; {there}")
    return {
        spec.name: tuple(sizes.get(d, d) if isinstance(d, str) else d for d in spec.dims)
        for spec in inputs
        if not sizes.keys().isdisjoint(d for d in spec.dims if isinstance(d, str))
    }

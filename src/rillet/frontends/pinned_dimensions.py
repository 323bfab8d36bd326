"""Shapes of inputs, and sizes of named dimensions, that a caller gives for a model."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

from rillet.errors import CompileError, advice
from rillet.frontends.frontend import InputSpec, Shapes


def pinned_inputs(inputs: Sequence[InputSpec], shapes: Shapes, sizes: Mapping[str, int]) -> tuple[InputSpec, ...]:
    """``inputs`` with the dimensions that ``shapes`` (by input) and ``sizes`` (by dimension) give them.

    A size that ``shapes`` gives to a named dimension also holds for the inputs left out. Raises CompileError for
    unknown names, shapes that do not fit, and different sizes for one dimension.
    """
    known = [spec.name for spec in inputs]
    if unknown := [name for name in shapes if name not in known]:
        raise CompileError(
            f"the model has no input '{unknown[0]}'; its inputs are: {', '.join(sorted(known)) or 'none'}"
        )
    shared = given_sizes(inputs, shapes)
    for name, size in _given(inputs, shapes):
        if shared[name] != size:
            raise CompileError(f"the dimension '{name}' is given the sizes {shared[name]} and {size}: give one")
    shaped = [
        dataclasses.replace(spec, dims=given_dims(spec.name, spec.dims, shapes[spec.name]))
        if spec.name in shapes
        else dataclasses.replace(spec, dims=tuple(shared.get(d, d) if isinstance(d, str) else d for d in spec.dims))
        for spec in inputs
    ]
    sized = sized_shapes(shaped, sizes, shared)
    return tuple(dataclasses.replace(spec, dims=sized.get(spec.name, spec.dims)) for spec in shaped)


def given_sizes(inputs: Sequence[InputSpec], shapes: Shapes) -> dict[str, int]:
    """The sizes that ``shapes`` give to the named dimensions of ``inputs``, by name: the first one of each."""
    sizes: dict[str, int] = {}
    for name, size in _given(inputs, shapes):
        sizes.setdefault(name, size)
    return sizes


def _given(inputs: Sequence[InputSpec], shapes: Shapes) -> Iterator[tuple[str, int]]:
    for spec in inputs:
        for name, size in zip(spec.dims, shapes.get(spec.name, ()), strict=False):
            if isinstance(name, str) and isinstance(size, int) and size >= 0:
                yield name, size


def sized_shapes(
    inputs: Sequence[InputSpec], sizes: Mapping[str, int], given: Mapping[str, int]
) -> dict[str, tuple[int | str, ...]]:
    """The shapes, by name, of those ``inputs`` that have dimensions named in ``sizes``, with the sizes in them.

    ``given`` are the sizes that dimensions have already from the shapes of inputs. Raises CompileError for a name that
    no input has, and for one that has another size in ``given``.
    """
    known = dict.fromkeys(d for spec in inputs for d in spec.dims if isinstance(d, str))
    if unknown := [name for name in sizes if name not in known and given.get(name) != sizes[name]]:
        what = advice(f"dims[{unknown[0]!r}]", f"--dim {unknown[0]}={sizes[unknown[0]]}")
        if unknown[0] in given:
            shapes, dims = advice("inputs=", "--shape"), advice("dims=", "--dim")
            raise CompileError(
                f"{what}: {shapes} pins the dimension '{unknown[0]}' to {given[unknown[0]]}, and {dims} to "
                f"{sizes[unknown[0]]}: give one of them"
            )
        there = f"its dynamic dimensions: {', '.join(known)}" if known else "its inputs have no dynamic dimensions"
        raise CompileError(f"{what}: the model has no dimension of this name; {there}")
    return {
        spec.name: tuple(sizes.get(d, d) if isinstance(d, str) else d for d in spec.dims)
        for spec in inputs
        if not sizes.keys().isdisjoint(d for d in spec.dims if isinstance(d, str))
    }


def given_dims(
    name: str, declared: Sequence[int | str] | None, given: Sequence[int | str | None]
) -> tuple[int | str, ...]:
    """The dimensions of an input for which the caller gives a shape; ``declared`` is None if the model has none for it.

    Raises CompileError where the two contradict each other.
    """
    if declared is not None and len(given) != len(declared):
        raise CompileError(
            f"input '{name}' was given {len(given)} dimensions, but the model declares {listed(declared)}"
        )
    result: list[int | str] = []
    for axis, d in enumerate(given):
        own = declared[axis] if declared is not None else f"{name}_{axis}"
        if isinstance(d, str):
            result.append(d)
        elif d is None or d < 0:
            result.append(own if isinstance(own, str) else f"{name}_{axis}")
        elif isinstance(own, int) and own != d:
            raise CompileError(
                f"input '{name}' was given the shape {listed(given)}, but the model declares "
                f"{listed(declared or ())}, a fixed size in dimension {axis}: export the model with a dynamic one, or "
                "give a name there, which makes it dynamic where the rest of the model allows it"
            )
        else:
            result.append(int(d))
    return tuple(result)


def listed(dims: Sequence[object]) -> str:
    """Dimensions as messages show them, ``?`` for one without size and name."""
    return f"[{', '.join('?' if d in (None, -1, '') else str(d) for d in dims)}]"

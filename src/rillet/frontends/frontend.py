"""What a frontend is: it opens sources as models, and a model says what it takes and becomes a program.

``registry.py`` knows which frontends there are. Everything behind them (``rillet.compile``, ``check``, ``bench``,
``export``, ``tune``) knows only these protocols; ``verification.py`` has the optional one for ``rillet verify``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np

from rillet.ir import Program

Shapes: TypeAlias = Mapping[str, Sequence[int | str | None]]
"""Shapes by input name: sizes, names of dynamic dimensions, and -1 or None for dynamic ones without a name."""

Values: TypeAlias = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class InputSpec:
    """An input of a model: ``dtype`` is numpy's, ml_dtypes' or "string"; a dimension is its size or its name.

    A dynamic dimension without a name of its own is called ``INPUT_AXIS``. Calls may leave out an input that
    ``has_default``; these come last.
    """

    name: str
    dtype: str
    dims: tuple[int | str, ...]
    has_default: bool = False

    def accepts(self, shape: Sequence[int]) -> bool:
        """Whether an array of this shape can be given for it."""
        return len(shape) == len(self.dims) and all(
            isinstance(d, str) or d == n for d, n in zip(self.dims, shape, strict=True)
        )


@dataclass(frozen=True)
class OpUse:
    """How a model uses one op: its name with the dialect or domain, its version (0: it has none), and how often.

    ``dtypes`` are those of its operands and results, sorted.
    """

    op: str
    version: int
    count: int
    dtypes: tuple[str, ...]


@dataclass(frozen=True)
class Survey:
    """A model's description of itself, sorted by op. ``versions`` are those of the op sets that it imports, by name."""

    ops: tuple[OpUse, ...]
    outputs: tuple[str, ...]
    weight_bytes: int  # as the source has them
    versions: Mapping[str, int] = field(default_factory=dict)
    control_flow: Mapping[str, int] = field(default_factory=dict)  # ops with bodies, and how often
    functions: tuple[str, ...] = ()


@runtime_checkable
class Model(Protocol):
    """A source that has been read, once; it never changes.

    ``program`` raises an error that lists all nodes that are not supported. No method asks for them before, since that
    would import the model twice.
    """

    @property
    def inputs(self) -> tuple[InputSpec, ...]:
        """The inputs as far as they are known without importing, with the shapes that ``pinned`` gave them."""

    def pinned(self, shapes: Shapes, dims: Mapping[str, int]) -> Model:
        """This model with ``shapes`` of inputs by name, and sizes of dimensions by name wherever they occur.

        Raises CompileError for a dimension that no input has. Shapes that do not fit may be found by ``program`` only.
        """

    def survey(self) -> Survey:
        """A description of the model, whether it can be compiled or not."""

    def program(self, values: Values | None = None) -> Program:
        """The model in the tensor form, in a program of its own at each call.

        ``values`` are inputs whose value the code may rely on. Raises UnsupportedError, which lists every node that
        cannot be compiled, and CompileError when the model is invalid.
        """


@runtime_checkable
class Frontend(Protocol):
    """One kind of source: a file format, a framework's objects.

    ``name`` is what it is called; ``sources`` says what it opens, as the end of "give ...".
    """

    name: str
    sources: str

    def accepts(self, source: object) -> bool:
        """Whether ``source`` is of this kind. Cheap: it reads no file and imports nothing large."""

    def open(self, source: object) -> Model:
        """Read an accepted source. Raises CompileError when it cannot be read or is not such a model."""

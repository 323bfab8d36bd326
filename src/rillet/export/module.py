"""A model compiled for a machine other than this one."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from rillet.errors import CompileError, RunError, advice
from rillet.export.build import Build
from rillet.export.folder import Exported, export
from rillet.ir import dtypes
from rillet.ir.image import Image
from rillet.ir.image import TensorSpec as Spec
from rillet.runtime.specs import TensorSpec, tensor_spec
from rillet.support.files import write_atomically
from rillet.support.suggestions import suggests_keywords
from rillet.targets import Target


class CrossModule:
    """What ``rillet.compile`` returns for a target that this machine cannot run: it can be exported, not called."""

    def __init__(
        self, targets: Sequence[Target], image: Image, file: memoryview | None, build: Callable[[], Build]
    ) -> None:
        """``targets``: best first; ``file``: the module file, for targets that have a loader; ``build`` makes the
        content that ``export`` writes."""
        self._targets = tuple(targets)
        self._names = ", ".join(t.name for t in targets)
        self._image = image
        self._file = file
        self._build = build

    @property
    def targets(self) -> list[str]:
        """The targets that have code, best first."""
        return [target.name for target in self._targets]

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """The model's inputs, in order."""
        return tuple(map(_spec, self._image.exports[0].inputs))

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """The model's outputs, in order."""
        return tuple(map(_spec, self._image.exports[0].outputs))

    @property
    def stats(self) -> dict[str, int]:
        """Arena, constant and bytecode bytes, multiply-accumulates, number of dispatches."""
        return dict(self._image.stats)

    @suggests_keywords
    def export(
        self,
        directory: str | os.PathLike[str],
        *,
        mode: str = "c",
        layout: str = "cmake",
        ram: int | None = None,
        flash: int | None = None,
        name: str | None = None,
    ) -> Exported:
        """Write a folder with C source, kernels, a build description, an example and a README.

        Args:
            directory: where to; created when missing.
            mode: "c": the host program as C, or "static": bytecode and the runtime that runs it.
            layout: "cmake", "zephyr" (a module), "arduino" (a library) or "web" (WebAssembly and JavaScript).
            ram: bytes of RAM there are for arena and stack; flash: for code and constants.
            name: what the model is called in C; default: the directory's name.

        Raises:
            CompileError: the mode or the layout is unknown, the module has several targets, or a budget is exceeded;
                then the message lists what takes the memory.
            SaveError: a file cannot be written; then the folder is as it was.
        """
        if len(self._targets) > 1:
            raise CompileError(f"an export is for one target, not for {self._names}: compile for the one to export")
        return export(self._build(), directory, mode=mode, layout=layout, ram=ram, flash=flash, name=name)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the module file, for targets whose runtime loads it.

        Raises ``CompileError`` for the others, and ``SaveError`` where the file cannot be written.
        """
        if self._file is None:
            how = advice("export() writes it as C sources and objects", "'rillet export' writes C sources and objects")
            raise CompileError(f"target {self._names} has no loader for module files; {how}")
        write_atomically(path, self._file)

    def __call__(self, /, *arrays: Any, **named: Any) -> NoReturn:
        raise RunError(
            f"this model is compiled for {self._names}, which this machine cannot run: export() writes it as C "
            "sources and objects, or compile it for the target 'host' to call it here"
        )

    run = __call__

    def __repr__(self) -> str:
        sides = [", ".join(map(str, specs)) for specs in (self.inputs, self.outputs)]
        return f"<rillet.CrossModule for {self._names} ({sides[0]}) -> ({sides[1]})>"


def _spec(spec: Spec) -> TensorSpec:
    name = dtypes.by_code[spec.dtype].name
    return tensor_spec(spec.name, name, spec.dims, spec.dim_names, spec.default is not None)

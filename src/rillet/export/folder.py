"""Writes an exported model to a folder, laid out for CMake, Zephyr, Arduino or the web."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from rillet.errors import CompileError
from rillet.export import layouts, objects, web
from rillet.export import source as c_source
from rillet.export.build import Build
from rillet.export.figures import Figures, check_budgets, measure
from rillet.export.names import identifier
from rillet.export.readme import readme

Layout = Callable[[layouts.Content], Mapping[str, str | bytes]]

LAYOUTS: dict[str, Layout] = {
    "cmake": layouts.cmake,
    "zephyr": layouts.zephyr,
    "arduino": layouts.arduino,
    "web": web.web,
}


@dataclass(frozen=True)
class Exported:
    """What was written where."""

    directory: Path
    name: str
    figures: Figures
    files: tuple[str, ...]


def export(
    build: Build,
    directory: str | os.PathLike[str],
    *,
    layout: str = "cmake",
    ram: int | None = None,
    flash: int | None = None,
    name: str | None = None,
) -> Exported:
    """Write ``build`` to ``directory``, which is created; files of the same names are replaced.

    ``ram``, ``flash``: budgets in bytes; ``name``: what the model is called in C (default: the directory's name).
    Raises ``CompileError`` for an unknown layout and when a budget is exceeded; then nothing is written.
    """
    if layout not in LAYOUTS:
        raise CompileError(f"unknown layout '{layout}'; layouts: {', '.join(LAYOUTS)}")
    path = Path(directory)
    symbol = identifier(name or path.resolve().name)
    header, source = c_source.header(build, symbol), c_source.source(build, symbol)
    figures = measure(build, objects.compile_c(source, header, f"{symbol}.h", build.target))
    check_budgets(build, figures, ram, flash)
    members = [(f"{k.name}.o", k.object) for k in build.kernels]
    if figures.constants:
        constants = objects.constants_object(build.image, f"{symbol}_constants", build.target)
        members.append((f"{symbol}_constants.o", constants))
    inputs, outputs = c_source.parameters(build)
    content = layouts.Content(
        name=symbol,
        target=build.target,
        inputs=tuple(inputs),
        outputs=tuple(outputs),
        header=header,
        source=source,
        example=c_source.example(build, symbol),
        library=objects.archive(members),
        readme=readme(build, symbol, figures, layout),
    )
    files = LAYOUTS[layout](content)
    for relative, text in files.items():
        file = path / relative
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return Exported(path, symbol, figures, tuple(files))

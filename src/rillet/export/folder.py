"""Writes an exported model to a folder, laid out for CMake, Zephyr, Arduino or the web."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from rillet.errors import CompileError
from rillet.export import objects, project_layouts, web
from rillet.export import source as c_source
from rillet.export.build import Build
from rillet.export.figures import Figures, check_budget, check_budgets
from rillet.export.modes import Parts, c_mode
from rillet.export.names import model_name
from rillet.export.readme import readme
from rillet.export.static_mode import static_mode
from rillet.support.files import check_folder, write_folder

Layout = Callable[[project_layouts.Content], Mapping[str, str | bytes]]

LAYOUTS: dict[str, Layout] = {
    "cmake": project_layouts.cmake,
    "zephyr": project_layouts.zephyr,
    "arduino": project_layouts.arduino,
    "web": web.web,
}
MODES: dict[str, Callable[[Build, str], Parts]] = {"c": c_mode, "static": static_mode}


@dataclass(frozen=True)
class Exported:
    """The files written, and where."""

    directory: Path
    name: str
    figures: Figures
    files: tuple[str, ...]


def export(
    build: Build,
    directory: str | os.PathLike[str],
    *,
    mode: str = "c",
    layout: str = "cmake",
    ram: int | None = None,
    flash: int | None = None,
    name: str | None = None,
) -> Exported:
    """Write ``build`` to ``directory``, which is created; files of the same names are replaced.

    ``mode``: "c" or "static"; ``ram``, ``flash``: budgets in bytes; ``name``: the model's name in C (default: the
    directory's name). Raises ``CompileError`` for an unknown mode or layout and when a budget or the address space is
    exceeded. Raises ``SaveError`` when a file cannot be written; then none is.
    """
    if layout not in LAYOUTS:
        raise CompileError(f"unknown layout '{layout}'; layouts: {', '.join(LAYOUTS)}")
    if mode not in MODES:
        raise CompileError(f"unknown mode '{mode}'; modes: {', '.join(MODES)}")
    check_budget("ram", ram)
    check_budget("flash", flash)
    if not isinstance(name, str | None):
        raise CompileError(f"name must be what the model is called in C, not {name!r}")
    check_folder(directory)
    path = Path(os.fsdecode(directory))
    symbol = model_name(name or path.resolve().name)
    parts = MODES[mode](build, symbol)
    check_budgets(build, parts.figures, parts.arena, ram, flash)
    inputs, outputs = c_source.parameters(build)
    content = project_layouts.Content(
        name=symbol,
        target=build.target,
        inputs=tuple(inputs),
        outputs=tuple(outputs),
        header=parts.header,
        source=parts.source,
        example=c_source.example(build, symbol),
        library=objects.archive(parts.members),
        readme=readme(build, symbol, parts, layout),
        definitions=parts.definitions,
        runtime=parts.runtime,
        runtime_headers=parts.runtime_headers,
    )
    files = LAYOUTS[layout](content)
    write_folder(path, {name: text if isinstance(text, bytes) else text.encode() for name, text in files.items()})
    return Exported(path, symbol, parts.figures, tuple(files))

"""The README of an exported model: how to call it, and the memory it needs."""

from __future__ import annotations

from rillet.export.build import Build
from rillet.export.modes import Parts
from rillet.export.source import parameters, signature

_USE = {
    "cmake": "`add_subdirectory` this folder and link `{name}`.",
    "zephyr": "List this folder in `ZEPHYR_EXTRA_MODULES`, set `CONFIG_RILLET_{upper}=y`; a sample is in `samples/`.",
    "web": "Serve this folder and open `index.html`, or run `node example.mjs`; `{name}.mjs` is the interface.",
    "arduino": "Put this folder into your sketchbook's `libraries` folder; an example is in `examples/`. "
    "Before you publish it, add your project's address to `library.properties` (`url=...`).",
}


def readme(build: Build, name: str, parts: Parts, layout: str) -> str:
    """Markdown text."""
    target, figures = build.target, parts.figures
    inputs, outputs = parameters(build)
    tensors = [
        f"| {kind} | `{p.name}` | `{p.type}` | {' x '.join(map(str, p.spec.dims)) or 'scalar'} |"
        for kind, group in (("input", inputs), ("output", outputs))
        for p in group
    ]
    unknown = "not computed for this target"
    stack = "not computed" if figures.stack is None else f"{figures.stack:,}"
    code = unknown if figures.code is None else f"{figures.code:,}"
    convention = f", floats in {'floating-point' if target.machine.float_abi == 'hard' else 'integer'} registers"
    runs = "kernel" if figures.dispatches == 1 else "kernels"
    lines = [
        f"# {name}",
        "",
        f"A neural network compiled for {target.name} (`{target.machine.triple}`, `{target.machine.cpu}`{convention}).",
        parts.uses,
        "",
        "```c",
        f"{signature(build, name)};  // 0: done",
        "```",
        "",
        "| | name | type | shape |",
        "|---|---|---|---|",
        *tensors,
        "",
        _USE[layout].format(name=name, upper=name.upper()),
        "",
        "| what | bytes |",
        "|---|---|",
        f"| arena (RAM, static; lower bound {figures.arena_lower_bound:,}) | {figures.arena:,} |",
        f"| stack (RAM, at most) | {stack} |",
        f"| constants (flash) | {figures.constants:,} |",
        f"| kernels (flash) | {figures.kernels:,} |",
        f"| {'bytecode and runtime' if parts.runtime else 'host program'} (flash) | {code} |",
        "",
        f"One call runs {figures.dispatches} {runs} and {figures.macs:,} multiply-accumulates.",
        "",
        parts.notes,
    ]
    return "\n".join(lines)

"""The layout for WebAssembly: a module ready to instantiate, and a JavaScript loader for browsers and Node."""

from __future__ import annotations

from collections.abc import Mapping

from rillet.errors import CompileError
from rillet.export import objects
from rillet.export.project_layouts import Content
from rillet.export.source import Parameter

_ARRAYS = {
    "float": "Float32Array",
    "double": "Float64Array",
    "int8_t": "Int8Array",
    "int16_t": "Int16Array",
    "int32_t": "Int32Array",
    "int64_t": "BigInt64Array",
    "uint8_t": "Uint8Array",
    "uint16_t": "Uint16Array",
    "uint32_t": "Uint32Array",
    "uint64_t": "BigUint64Array",
}


def web(c: Content) -> Mapping[str, str | bytes]:
    """A folder to serve: ``NAME.wasm``, ``NAME.mjs``, a page and a script that run it, and the C source of both.

    Raises ``CompileError`` for targets that are not WebAssembly.
    """
    if c.target.machine.arch != "wasm32":
        raise CompileError(f"layout 'web' needs a WebAssembly target such as wasm32, not {c.target.name}")
    interface = _interface(c)
    sources = {f"{c.name}.c": c.source, f"{c.name}_web.c": interface}
    return {
        f"{c.name}.wasm": objects.link_wasm(
            sources,
            {f"{c.name}.h": c.header, **c.runtime_headers},
            c.definitions,
            [c.library, c.runtime] if c.runtime else [c.library],
            c.target,
        ),
        f"{c.name}.mjs": _loader(c),
        "example.mjs": _EXAMPLE.format(name=c.name),
        "index.html": _PAGE.format(name=c.name),
        f"{c.name}.h": c.header,
        f"{c.name}.c": c.source,
        f"{c.name}_web.c": interface,
        f"lib{c.name}_kernels.a": c.library,
        **({"librillet_runtime.a": c.runtime, **c.runtime_headers} if c.runtime else {}),
        "README.md": c.readme,
    }


def _interface(c: Content) -> str:
    """C source of the module's exports: the addresses of the tensors, and ``run``."""
    parameters = [*c.inputs, *c.outputs]
    lines = [f'#include "{c.name}.h"', "", "#define EXPORT(name) __attribute__((export_name(name)))", ""]
    for p in parameters:
        lines.append(f"alignas(16) static {p.type} {p.variable}[{c.name.upper()}_{p.name.upper()}_ELEMENTS];")
    lines.append("")
    for side, group in (("input", c.inputs), ("output", c.outputs)):
        for number, p in enumerate(group):
            symbol = f"{side}_{number}"
            lines.append(f'EXPORT("{symbol}") {p.type}* {c.name}_{symbol}(void) {{ return {p.variable}; }}')
    arguments = ", ".join(p.variable for p in parameters)
    lines.append(f'EXPORT("run") int {c.name}_web_run(void) {{ return {c.name}_run({arguments}); }}')
    return "\n".join([*lines, ""])


def _loader(c: Content) -> str:
    sides = [_arrays("input", c.inputs), _arrays("output", c.outputs)]
    first, result = c.inputs[0].name if c.inputs else "x", c.outputs[0].name
    return _LOADER.format(name=c.name, inputs=sides[0], outputs=sides[1], first=first, result=result)


def _arrays(side: str, group: tuple[Parameter, ...]) -> str:
    return "".join(
        f"    {p.name}: new {_ARRAYS[p.type]}(wasm.memory.buffer, wasm.{side}_{number}(), {p.elements}),"
        f"  // [{', '.join(map(str, p.spec.dims))}]\n"
        for number, p in enumerate(group)
    )


_LOADER = """// {name}: a neural network compiled to WebAssembly.
//
//   const model = await load(fetch("{name}.wasm"));  // or the bytes of the file
//   model.inputs.{first}.set(data);
//   model.run();
//   model.outputs.{result}

/** Instantiates the module from a Response (or a promise of one) or from bytes. Tensors are row-major. */
export async function load(source) {{
  const given = await source;
  const {{ instance }} =
    given instanceof Response ? await WebAssembly.instantiateStreaming(given) : await WebAssembly.instantiate(given);
  const wasm = instance.exports;
  const inputs = {{
{inputs}  }};
  const outputs = {{
{outputs}  }};
  const run = () => {{
    const status = wasm.run();
    if (status !== 0) throw new RangeError(`{name}: an index in the data is out of bounds (status ${{status}})`);
    return outputs;
  }};
  return {{ inputs, outputs, run }};
}}
"""

_EXAMPLE = """// node example.mjs: one inference on zeros.
import {{ readFile }} from "node:fs/promises";
import {{ load }} from "./{name}.mjs";

const model = await load(readFile(new URL("{name}.wasm", import.meta.url)));
console.log(model.run());
"""

_PAGE = """<!doctype html>
<title>{name}</title>
<pre id="result"></pre>
<script type="module">
  import {{ load }} from "./{name}.mjs";
  const model = await load(fetch("{name}.wasm"));
  document.getElementById("result").textContent = Object.entries(model.run())
    .map(([name, values]) => `${{name}}: ${{values}}`)
    .join("\\n");
</script>
"""

"""The folder layouts: which files, under which names, with which build descriptions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rillet.codegen.cpu.machine import CpuTarget
from rillet.errors import CompileError
from rillet.export.source import Parameter


@dataclass(frozen=True)
class Content:
    """The content that every layout has."""

    name: str
    target: CpuTarget
    inputs: tuple[Parameter, ...]
    outputs: tuple[Parameter, ...]
    header: str
    source: str
    example: str
    library: bytes
    readme: str
    definitions: tuple[str, ...] = ()
    runtime: bytes = b""
    runtime_headers: Mapping[str, str] = field(default_factory=dict)

    def require_no_runtime(self, layout: str) -> None:
        """Raise ``CompileError`` where the layout has no place for the runtime."""
        if self.runtime:
            raise CompileError(f"layout '{layout}' is for mode 'c'; mode 'static' has layouts cmake and web")

    def require_hardware(self, layout: str) -> None:
        """Raise ``CompileError`` for WebAssembly where the layout links with code for a processor."""
        if self.target.machine.arch == "wasm32":
            raise CompileError(
                f"layout '{layout}' is not for WebAssembly (target {self.target.name}), which has layouts web and cmake"
            )


def cmake(c: Content) -> Mapping[str, str | bytes]:
    """A folder for ``add_subdirectory``."""
    more = ""
    if c.runtime:
        more = _CMAKE_RUNTIME.format(name=c.name, definitions=" ".join(c.definitions))
    return {
        f"{c.name}.h": c.header,
        f"{c.name}.c": c.source,
        f"lib{c.name}_kernels.a": c.library,
        **({_RUNTIME: c.runtime, **c.runtime_headers} if c.runtime else {}),
        "main.c": c.example,
        "CMakeLists.txt": _CMAKE.format(name=c.name, option=c.name.upper(), more=more),
        "README.md": c.readme,
    }


def zephyr(c: Content) -> Mapping[str, str | bytes]:
    """A Zephyr module: list the folder in ``ZEPHYR_EXTRA_MODULES``."""
    c.require_hardware("zephyr")
    c.require_no_runtime("zephyr")
    option = f"RILLET_{c.name.upper()}"
    return {
        "zephyr/module.yml": f"name: {c.name}\nbuild:\n  cmake: zephyr\n  kconfig: zephyr/Kconfig\n",
        "zephyr/Kconfig": f'config {option}\n\tbool "Neural network {c.name}"\n',
        "zephyr/CMakeLists.txt": _ZEPHYR.format(name=c.name, option=option),
        f"include/{c.name}.h": c.header,
        f"src/{c.name}.c": c.source,
        f"lib/lib{c.name}_kernels.a": c.library,
        f"samples/{c.name}/CMakeLists.txt": _ZEPHYR_SAMPLE.format(name=c.name),
        f"samples/{c.name}/prj.conf": f"CONFIG_FPU=y\nCONFIG_{option}=y\n",
        f"samples/{c.name}/src/main.c": c.example,
        "README.md": c.readme,
    }


def arduino(c: Content) -> Mapping[str, str | bytes]:
    """An Arduino library with precompiled kernels."""
    c.require_hardware("arduino")
    c.require_no_runtime("arduino")
    sketch = c.example.replace("int main(void) {", "void setup() {").replace("  return ", "  ")
    return {
        "library.properties": _ARDUINO.format(name=c.name),
        f"src/{c.name}.h": c.header,
        f"src/{c.name}.c": c.source,
        **{f"src/{folder}/lib{c.name}_kernels.a": c.library for folder in _arduino_folders(c.target)},
        f"examples/{c.name}_zeros/{c.name}_zeros.ino": f"{sketch}\nvoid loop() {{}}\n",
        "README.md": c.readme,
    }


def _arduino_folders(target: CpuTarget) -> list[str]:
    """Where the Arduino builder looks for a library of a CPU: ``build.mcu``, then the floating-point options."""
    if target.machine.arch != "arm":
        return [target.name]
    return [f"{target.name}/fpv4-sp-d16-hard" if target.name == "cortex-m4" else target.name]


_CMAKE = """cmake_minimum_required(VERSION 3.13)
project({name} C)
option({option}_EXAMPLE "Build main.c" ${{PROJECT_IS_TOP_LEVEL}})

add_library({name} STATIC {name}.c)
target_compile_features({name} PUBLIC c_std_11)
target_include_directories({name} PUBLIC ${{CMAKE_CURRENT_SOURCE_DIR}})
target_link_libraries({name} PUBLIC ${{CMAKE_CURRENT_SOURCE_DIR}}/lib{name}_kernels.a)
{more}
if({option}_EXAMPLE)
  add_executable({name}_example main.c)
  target_link_libraries({name}_example PRIVATE {name})
endif()
"""

_RUNTIME = "librillet_runtime.a"
_CMAKE_RUNTIME = """target_compile_definitions({name} PRIVATE {definitions})
target_link_libraries({name} PUBLIC ${{CMAKE_CURRENT_SOURCE_DIR}}/librillet_runtime.a)
"""

_ZEPHYR = """if(CONFIG_{option})
  zephyr_include_directories(${{CMAKE_CURRENT_SOURCE_DIR}}/../include)
  zephyr_library_named({name})
  zephyr_library_sources(${{CMAKE_CURRENT_SOURCE_DIR}}/../src/{name}.c)
  zephyr_library_import({name}_kernels ${{CMAKE_CURRENT_SOURCE_DIR}}/../lib/lib{name}_kernels.a)
endif()
"""

_ZEPHYR_SAMPLE = """cmake_minimum_required(VERSION 3.20.0)
list(APPEND ZEPHYR_EXTRA_MODULES ${{CMAKE_CURRENT_SOURCE_DIR}}/../..)
find_package(Zephyr REQUIRED HINTS $ENV{{ZEPHYR_BASE}})
project({name}_sample C)
target_sources(app PRIVATE src/main.c)
"""

_ARDUINO = """name={name}
version=1.0.0
author=Rillet
maintainer=Rillet
sentence=The neural network {name}, compiled to C.
paragraph=One function runs it. No heap, no interpreter.
category=Data Processing
architectures=*
includes={name}.h
precompiled=true
ldflags=-l{name}_kernels
"""

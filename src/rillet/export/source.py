"""The header, the C file and the example of an exported model."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from rillet.codegen.cpu.machine import CpuTarget
from rillet.export import print_c
from rillet.export.build import Build
from rillet.export.names import distinct
from rillet.export.scalars import c_type
from rillet.ir import dtypes
from rillet.ir.image import TensorSpec

# The macros by which a compiler says in which registers it passes floats.
_ABI_CHECKS = {
    ("arm", "hard"): ("!defined(__ARM_PCS_VFP)", "-mfloat-abi=hard"),
    ("arm", "soft"): ("defined(__ARM_PCS_VFP)", "-mfloat-abi=softfp"),
    ("riscv32", "hard"): ("!defined(__riscv_float_abi_single)", "-mabi=ilp32f"),
    ("riscv32", "soft"): ("!defined(__riscv_float_abi_soft)", "-mabi=ilp32"),
}


@dataclass(frozen=True)
class Parameter:
    """An input or output as the caller sees it.

    - ``name``: its part of the header's macros.
    - ``variable``: its parameter in C, which starts with ``in_`` or ``out_``, as no keyword, macro or other variable
      does: whatever the model calls it, the C file and any that includes the header compile.
    - ``type``: the C type of an element.
    """

    name: str
    variable: str
    type: str
    spec: TensorSpec

    @property
    def elements(self) -> int:
        """Scalars in the C array: two for a complex element."""
        count = 2 if dtypes.by_code[self.spec.dtype].name.startswith("complex") else 1
        for dim in self.spec.dims:
            count *= dim
        return count

    @property
    def bytes(self) -> int:
        """Bytes of the C array."""
        return math.prod(self.spec.dims) * dtypes.by_code[self.spec.dtype].bits // 8


def parameters(build: Build) -> tuple[list[Parameter], list[Parameter]]:
    """Inputs and outputs."""
    specs = [*build.inputs, *build.outputs]
    sides = ["in"] * len(build.inputs) + ["out"] * len(build.outputs)
    found = [
        Parameter(name, f"{side}_{name}", c_type(dtypes.by_code[s.dtype].name), s)
        for name, side, s in zip(distinct(s.name for s in specs), sides, specs, strict=True)
    ]
    return found[: len(build.inputs)], found[len(build.inputs) :]


def signature(build: Build, name: str) -> str:
    """The declaration of the one function."""
    inputs, outputs = parameters(build)
    arguments = [f"const {p.type}* {p.variable}" for p in inputs] + [f"{p.type}* {p.variable}" for p in outputs]
    return f"int {name}_run({', '.join(arguments) or 'void'})"


def header(build: Build, name: str, arena_bytes: int, functions: str) -> str:
    """``NAME.h``. ``arena_bytes``: working memory; ``functions``: the declarations, with comments."""
    upper = name.upper()
    inputs, outputs = parameters(build)
    lines = [
        f"// {name}: a neural network compiled for {build.target.name}.",
        f"#ifndef {upper}_H_",
        f"#define {upper}_H_",
        "",
        "#include <stdalign.h>",
        "#include <stdbool.h>",
        "#include <stddef.h>",
        "#include <stdint.h>",
        "",
        "// Bytes of working memory, 64-byte aligned: a static array unless RLT_ARENA names one to use instead.",
        f"#define {upper}_ARENA_BYTES {arena_bytes}u",
        "#ifndef RLT_ARENA_BYTES",
        f"#define RLT_ARENA_BYTES {upper}_ARENA_BYTES",
        "#endif",
        "",
    ]
    for p in [*inputs, *outputs]:
        dims = ", ".join(map(str, p.spec.dims)) or "1"
        lines += [
            f"// {p.spec.name}: {dtypes.by_code[p.spec.dtype].name}[{', '.join(map(str, p.spec.dims))}]",
            f"#define {upper}_{p.name.upper()}_RANK {len(p.spec.dims)}",
            f"#define {upper}_{p.name.upper()}_SHAPE {{{dims}}}",
            f"#define {upper}_{p.name.upper()}_ELEMENTS {p.elements}",
        ]
    lines += [
        "",
        "#ifdef __cplusplus",
        'extern "C" {',
        "#endif",
        "",
        functions,
        "",
        "#ifdef __cplusplus",
        "}",
        "#endif",
        "",
        f"#endif  // {upper}_H_",
        "",
    ]
    return "\n".join(lines)


def source(build: Build, name: str) -> str:
    """``NAME.c``"""
    function = next(op.operation for op in build.lowered.module.body.operations)
    inputs, outputs = parameters(build)
    with build.lowered.module.context:
        body = print_c.print_body(function, [p.variable for p in [*inputs, *outputs]])
    local = max((k.local_memory_size for k in build.kernels), default=0)
    parts = [f'#include "{name}.h"\n', abi_check(build.target), _LITTLE_STACK, _TYPES]
    declared = dict.fromkeys(build.lowered.dispatches)
    externals = "".join(
        f"extern int {k}(const state_t* state, const uint32_t id[3]);\n"
        + (f"extern void {k}__count(const int64_t* constants, uint32_t count[3]);\n" if f"{k}__count" in body else "")
        for k in declared
    )
    if "CONSTANTS" in body:
        externals += f"extern const uint8_t {name}_constants[];\n"
    if externals:
        parts.append(c_linkage(externals))
    if "CONSTANTS" in body:
        parts.append(f"#define CONSTANTS ((uint8_t*){name}_constants)\n")
    if build.lowered.arena_bytes:
        parts.append(ARENA.format(upper=name.upper()))
    scratch = f"arena + {build.lowered.arena_bytes - local}" if local else "NULL"
    if build.lowered.dispatches:
        parts.append(_CALL.format(scratch=scratch, local=local))
    if "RUN(" in body:
        parts.append(_RUN)
    if "DISPATCH(" in body:
        parts.append(_DISPATCH)
    if "COPY(" in body:
        parts.append(_COPY)
    if "FRESH(" in body:
        parts.append(_FRESH)
    if "FILL(" in body:
        parts.append(_FILL)
    unused = "".join(f"  (void){p.variable};\n" for p in [*inputs, *outputs])
    call = "  call_t call;\n  prepare(&call);\n" if build.lowered.dispatches else ""
    parts.append(f"{signature(build, name)} {{\n{unused}{call}{body}}}\n")
    return "\n".join(p for p in parts if p)


def c_linkage(declarations: str) -> str:
    """Declarations of what is not compiled as C++, in a file that may be."""
    return f'#ifdef __cplusplus\nextern "C" {{\n#endif\n{declarations.rstrip()}\n#ifdef __cplusplus\n}}\n#endif\n'


def abi_check(target: CpuTarget) -> str:
    """Lines that stop a C compiler whose calling convention is not the kernels'; "" where there is only one."""
    check = _ABI_CHECKS.get((target.machine.arch, target.machine.float_abi))
    return f'#if {check[0]}\n#error "the kernels need {check[1]}"\n#endif\n' if check else ""


def example(build: Build, name: str, body: Sequence[str] = ()) -> str:
    """``main.c``: one inference on zeros."""
    inputs, outputs = parameters(build)
    upper = name.upper()
    lines = [f'#include "{name}.h"', ""]
    lines += [f"static {p.type} {p.variable}[{upper}_{p.name.upper()}_ELEMENTS];" for p in [*inputs, *outputs]]
    call = f"{name}_run({', '.join(p.variable for p in [*inputs, *outputs])})"
    lines += ["", "int main(void) {"]
    lines += [f"  // Put your data into {p.variable}." for p in inputs]
    lines += [f"  return {call};", "}", ""]
    return "\n".join(lines)


_LITTLE_STACK = """// At other levels GNU C keeps vectors of pointers on the stack.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("Os", "no-tree-slp-vectorize")
#endif
"""

_TYPES = """// What a kernel sees, and how it is called: once for each workgroup of its grid.
typedef struct {
  void* const* bindings;
  const int64_t* constants;
  uint32_t workgroup_count[3];
  uint32_t binding_count;
  void* local_memory;
  size_t local_memory_size;
} state_t;
typedef int (*kernel_t)(const state_t* state, const uint32_t id[3]);
typedef void (*grid_t)(const int64_t* constants, uint32_t count[3]);
"""

ARENA = """#ifdef RLT_ARENA
extern uint8_t RLT_ARENA[];  // at least {upper}_ARENA_BYTES bytes, 64-byte aligned
#define arena RLT_ARENA
#else
alignas(64) static uint8_t arena[{upper}_ARENA_BYTES];
#endif
#define ARENA ((uint8_t*)arena)
"""

# All calls share one place for what a kernel sees, so that a compiler which writes out each call needs no more stack.
_CALL = """typedef struct {{
  state_t state;
  uint32_t id[3];
}} call_t;

static void prepare(call_t* call) {{
  call->state.binding_count = 0;
  call->state.local_memory = {scratch};
  call->state.local_memory_size = {local};
}}
"""

_RUN = """static int run(call_t* call, kernel_t kernel, void* const* bindings, const int64_t* constants) {
  call->state.bindings = bindings;
  call->state.constants = constants;
  call->state.workgroup_count[0] = call->state.workgroup_count[1] = call->state.workgroup_count[2] = 1;
  call->id[0] = call->id[1] = call->id[2] = 0;
  return kernel(&call->state, call->id);
}
#define RUN(kernel, bindings, constants) run(&call, kernel, bindings, constants)
"""

_DISPATCH = """static int dispatch(call_t* call, kernel_t kernel, grid_t grid, void* const* bindings,
                    const int64_t* constants) {
  const uint32_t* count = call->state.workgroup_count;
  uint32_t* id = call->id;
  call->state.bindings = bindings;
  call->state.constants = constants;
  grid(constants, call->state.workgroup_count);
  for (id[2] = 0; id[2] < count[2]; ++id[2]) {
    for (id[1] = 0; id[1] < count[1]; ++id[1]) {
      for (id[0] = 0; id[0] < count[0]; ++id[0]) {
        const int status = kernel(&call->state, id);
        if (status != 0) return status;
      }
    }
  }
  return 0;
}
#define DISPATCH(kernel, grid, bindings, constants) dispatch(&call, kernel, grid, bindings, constants)
"""

# Volatile keeps compilers from turning the loops into calls of memcpy and memset.
_COPY = """static void copy(volatile uint8_t* to, const uint8_t* from, size_t length) {
  for (size_t i = 0; i < length; ++i) to[i] = from[i];
}
#define COPY(to, from, length) copy(to, from, (size_t)(length))
"""

_FILL = """static void fill(volatile uint8_t* to, size_t length, uint64_t pattern, size_t size) {
  for (size_t i = 0; i < length; ++i) to[i] = (uint8_t)(pattern >> 8 * (i % size));
}
#define FILL(to, length, pattern, size) fill(to, (size_t)(length), (uint64_t)(pattern), (size_t)(size))
"""

_FRESH = """// The first of the places of `size` bytes from `base` on in which none of the pointers held lies.
static uint8_t* fresh(uint8_t* base, size_t size, uint8_t* const* held, size_t count) {
  for (size_t n = 0; n < count; ++n) {
    if ((uintptr_t)held[n] - (uintptr_t)base < size) {
      base += size;
      n = (size_t)-1;
    }
  }
  return base;
}
#define FRESH(base, size, held, count) fresh(base, (size_t)(size), held, (size_t)(count))
"""

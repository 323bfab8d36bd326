"""Static mode: bytecode linked into the program beside the kernels, run by the C runtime without a heap.

The folder's one function, its header and its example are those of C mode. The function is implemented by the runtime's
session. Its program is a module file in read-only memory, which names the library of kernels
(docs/reference/runtime.md).
"""

from __future__ import annotations

import dataclasses

from rillet.codegen.cpu.object_code import call_stack, object_file
from rillet.codegen.cpu.object_code.link import table_ir
from rillet.codegen.cpu.object_code.llvm import emit_object
from rillet.export import objects, runtime_library, session_memory, structure_sizes
from rillet.export import source as c_source
from rillet.export.build import Build
from rillet.export.convert_to_emitc import Memory
from rillet.export.figures import Figures, kernel_flash, kernel_stack, pieces_of, require_address_space
from rillet.export.modes import Parts
from rillet.export.source import ARENA, Parameter, abi_check, c_linkage, parameters, signature
from rillet.ir.image import LibraryFormat
from rillet.module import CompiledLibrary, write_module

_RUN = """// Runs the model: reads the inputs, writes the outputs. The first call loads it. Returns 0, or the status
// code of what failed (rillet/base/status.h). Not reentrant: calls share the working memory.
{signature};

// Bytes of the working memory that have been needed so far.
size_t {name}_arena_peak(void);"""

_NOTES = """The host program is bytecode: it is verified when it is loaded; each access is checked before a kernel runs.
`librillet_runtime.a` is the same for every model of one target; link it once, before the compiler's own helpers
(`-lgcc` where the linker is told `-nostdlib`).
"""


def static_mode(build: Build, name: str) -> Parts:
    """The bytecode module and the kernels linked into the program, and the runtime. Raises ``CompileError``."""
    arena = session_memory.bound(build.requests, structure_sizes.measure(build.target, build.cache))
    require_address_space(build, arena)
    module = module_bytes(build, name)
    header = c_source.header(build, name, arena, _RUN.format(signature=signature(build, name), name=name))
    text = source(build, name, len(module))
    runtime = runtime_library.build(build.target, runtime_library.STATIC, build.cache)
    table = kernel_table(build, name)
    members = objects.kernel_members(build.kernels, build.target)
    members += [
        (f"{name}_table.o", table),
        (f"{name}_module.o", objects.data_object(module, f"{name}_module", build.target)),
    ]
    headers = {f"{name}.h": header, **runtime_library.headers()}
    linked = objects.linked(text, headers, runtime_library.STATIC.definitions, runtime, f"{name}_run", build.target)
    figures = Figures(
        arena=arena,
        arena_lower_bound=build.image.stats["arena_lower_bound"],
        kernels=kernel_flash(build) + object_file.sizes(table).flash,
        constants=build.image.stats["constant_bytes"],
        code=object_file.sizes(linked.program).flash + len(module) - build.image.stats["constant_bytes"],
        stack=_stack_bytes(build, linked, f"{name}_run") if build.target.deployment.stack_bound else None,
        macs=build.image.stats.get("macs", 0),
        dispatches=len(build.lowered.dispatches),
    )
    return Parts(
        header=header,
        source=text,
        members=tuple(members),
        figures=figures,
        arena=pieces_of(_tensors(build), figures.arena, "objects of the runtime"),
        uses="It needs no heap, no operating system and no C library.",
        notes=_NOTES,
        definitions=runtime_library.STATIC.definitions,
        runtime=runtime,
        runtime_headers=runtime_library.headers(),
    )


def _tensors(build: Build) -> list[Memory]:
    """The tensors that the session allocates: results too."""
    return list(build.lowered.tensors) + [Memory(f"output '{p.spec.name}'", p.bytes) for p in parameters(build)[1]]


# Stack of functions that are active more than once: releasing an object releases the objects it holds, and so on.
_RELEASES = 256
# Stack of the compiler's own functions, which are linked in last: division of 64 bits, doubles, copies.
_HELPERS = 256


def _stack_bytes(build: Build, linked: objects.Linked, entry: str) -> int | None:
    """The most stack of one call: the deepest path through the runtime. None where objects do not record it
    (WebAssembly)."""
    if linked.functions is None:
        return None
    return call_stack.deepest(linked.functions, entry) + _RELEASES + max(_HELPERS, kernel_stack(build))


def kernel_table(build: Build, name: str) -> bytes:
    """The object that tells the runtime about the kernels: ``NAME_kernels()``."""
    return emit_object(table_ir(build.kernels, build.target, query=f"{name}_kernels"), build.target)


def module_bytes(build: Build, name: str) -> bytes:
    """The module file that is linked in, without the parts that only tools read."""
    library = CompiledLibrary(
        target=name,
        arch=build.target.machine.arch,
        features=(),  # the program as a whole needs them
        format=LibraryFormat.STATIC,
        data=b"",
        entries=list(build.image.entries[0]),
    )
    image = dataclasses.replace(build.image, facts=(), stats={})
    memory = write_module(image, [library], constant_alignment=objects.ALIGNMENT)
    assert memory is not None  # there was no sink
    return bytes(memory)


def source(build: Build, name: str, module_length: int) -> str:
    """``NAME.c``"""
    inputs, outputs = parameters(build)
    upper = name.upper()
    wrapped = "".join(_wrap(n, p, upper) for n, p in enumerate(inputs))
    taken = "".join(_take(n, p) for n, p in enumerate(outputs))
    headers = ("rillet/base/arena.h", "rillet/cpu/kernel_abi.h", "rillet/session.h")
    includes = f'#include "{name}.h"\n\n' + "".join(f'#include "{h}"\n' for h in headers)
    parts = [includes, abi_check(build.target)]
    parts.append(ARENA.format(upper=upper))
    parts.append(c_linkage(_EXTERNALS.format(name=name)))
    parts.append(
        _SOURCE.format(
            name=name,
            upper=upper,
            length=module_length,
            signature=signature(build, name),
            input_count=len(inputs),
            inputs=max(1, len(inputs)),
            outputs=max(1, len(outputs)),
            output_count=len(outputs),
            shapes="".join(_shape(n, p, upper) for n, p in enumerate(inputs)),
            wrapped=wrapped,
            taken=taken,
        )
    )
    return "\n".join(p for p in parts if p)


def _shape(number: int, p: Parameter, upper: str) -> str:
    return f"  static const int64_t shape{number}[] = {upper}_{p.name.upper()}_SHAPE;\n"


def _wrap(number: int, p: Parameter, upper: str) -> str:
    rank = f"{upper}_{p.name.upper()}_RANK"
    length = f"sizeof(*{p.variable}) * {upper}_{p.name.upper()}_ELEMENTS"
    return (
        "  if (status == RLT_OK) {\n"
        f"    status = rlt_session_wrap(session, (rlt_element_type_t){p.spec.dtype}, {rank}, shape{number}, "
        f"{p.variable},\n                              {length}, NULL, &inputs[{number}]);\n"
        "  }\n"
    )


def _take(number: int, p: Parameter) -> str:
    return f"  if (status == RLT_OK) take(outputs[{number}], {p.variable});\n"


_EXTERNALS = """extern const uint8_t {name}_module[];
extern const rlt_kernel_table_t* {name}_kernels(uint32_t abi_version);
"""

_SOURCE = """static rlt_arena_t allocator;
static rlt_session_t* session;

static rlt_status_t load(void) {{
  static const rlt_static_library_t library = {{"{name}", {name}_kernels}};
  rlt_session_options_t options;
  __builtin_memset(&options, 0, sizeof options);
  options.static_libraries.libraries = &library;
  options.static_libraries.count = 1;
  rlt_arena_initialize(&allocator, ARENA, {upper}_ARENA_BYTES);
  return rlt_session_create({name}_module, {length}, NULL, NULL, &options, rlt_arena_allocator(&allocator),
                            NULL, &session);
}}

static void take(const rlt_buffer_view_t* view, void* output) {{
  __builtin_memcpy(output, view->buffer->data, (size_t)view->length);
}}

size_t {name}_arena_peak(void) {{ return allocator.peak; }}

{signature} {{
{shapes}  rlt_buffer_view_t *inputs[{inputs}] = {{NULL}}, *outputs[{outputs}] = {{NULL}};
  rlt_status_t status = session ? RLT_OK : load();
{wrapped}  if (status == RLT_OK) {{
    status = rlt_session_run(session, 0, {input_count}, inputs, {output_count}, outputs, NULL);
  }}
{taken}  for (int i = 0; i < {output_count}; ++i) rlt_buffer_view_release(outputs[i]);
  for (int i = 0; i < {input_count}; ++i) rlt_buffer_view_release(inputs[i]);
  return (int)status;
}}
"""

"""From a kernel module to an object file: upstream's lowerings, the C ABI wrapper, LLVM's code generator."""

from __future__ import annotations

import functools
import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass

import llvmlite.binding as llvm
from torch_mlir import ir, passmanager
from torch_mlir._mlir_libs._mlirDialectsLLVM import translate_module_to_llvmir  # its operations take long to import

from rillet.codegen.cpu.machine import CpuTarget
from rillet.codegen.cpu.object_code import mve, object_file
from rillet.errors import CompileError

# The state structure of docs/reference/kernel-abi.md; LLVM lays it out for the target.
_STATE = "{ ptr, ptr, [3 x i32], i32, ptr, iSIZE }"

_FUNCTION = 'attributes #900 = {{ noinline nounwind{size} "no-builtins" "frame-pointer"="none" }}'
_ENTRY = 'attributes #901 = {{ nounwind{size} "no-builtins" "frame-pointer"="none" }}'


@dataclass(frozen=True)
class ObjectOptions:
    """How LLVM treats one module."""

    optimize_for_size: bool = False
    vectorize_loops: bool = False  # vectorize and unroll; kernels written on vectors, unrolled already, only get larger


def lower(module: ir.Module, target: CpuTarget) -> str:
    """Lower a kernel module (func, scf, memref, vector, arith) to LLVM IR text. Mutates ``module``."""
    bits = target.machine.pointer_bits
    layout = f"#dlti.dl_spec<index = {bits} : i32>"
    module.operation.attributes["dlti.dl_spec"] = ir.Attribute.parse(layout, module.context)
    passes = (
        "canonicalize",
        "cse",
        "convert-vector-to-scf",
        "lower-affine",
        "convert-scf-to-cf",
        "expand-strided-metadata",
        "lower-affine",
        "canonicalize",
        "cse",
        # The dedicated pass knows 64-bit indices only; the generic one takes their width from the module.
        "convert-vector-to-llvm{reassociate-fp-reductions=0}"
        if bits == 64
        else "convert-to-llvm{filter-dialects=vector,memref dynamic=true}",
        f"finalize-memref-to-llvm{{index-bitwidth={bits}}}",
        "convert-complex-to-llvm",
        "convert-math-to-llvm",
        f"convert-arith-to-llvm{{index-bitwidth={bits}}}",
        f"convert-func-to-llvm{{index-bitwidth={bits} use-bare-ptr-memref-call-conv=1}}",
        f"convert-cf-to-llvm{{index-bitwidth={bits}}}",
        f"convert-ub-to-llvm{{index-bitwidth={bits}}}",
        "reconcile-unrealized-casts",
    )
    passmanager.PassManager.parse(f"builtin.module({','.join(passes)})", module.context).run(module.operation)
    _check_lowered(module)
    return _bfloats_as_integers(_spell_floats_as_bits(translate_module_to_llvmir(module.operation)))


def _bfloats_as_integers(text: str) -> str:
    """bf16 values as their bits. Kernels only move them by now. LLVM keeps a bfloat in an f32 register, and returns to
    the bits by calling a library."""
    if "bfloat" not in text:
        return text
    text = re.sub(r"0xR([0-9A-Fa-f]{4})", lambda m: str(int(m[1], 16)), text)
    return text.replace("bfloat", "i16")


def _check_lowered(module: ir.Module) -> None:
    """Looks for other dialects' ops first: the translation to LLVM IR crashes on them."""

    def visit(op: ir.Operation) -> ir.WalkResult:
        if not op.name.startswith(("llvm.", "builtin.module")):
            raise CompileError(f"internal error: {op.name} has no lowering to LLVM")
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)


# A float type, or a literal of the type named last on the line.
_FLOAT_TOKEN = re.compile(
    r"(?<![\w%@.\"-])(?:(?P<type>half|bfloat|float|double)(?!\w)"
    r"|(?P<bits>f0x[0-9A-Fa-f]+)"
    r"|(?P<special>[+-]?(?:inf|q?nan)(?:\(0x[0-9A-Fa-f]+\))?)(?![\w.=])"
    r"|(?P<decimal>[+-]?\d+\.\d+(?:e[+-]?\d+)?)(?![\w.]))"
)
_FLOAT_FORMATS = {
    "half": ("H", "<e", 5, 10),
    "bfloat": ("R", "", 8, 7),
    "float": ("", "<f", 8, 23),
    "double": ("", "<d", 11, 52),
}


def _spell_floats_as_bits(text: str) -> str:
    """MLIR's LLVM prints ``float f0x3FB8AA3B``, ``double +inf`` and short decimals; the code generator's LLVM reads
    exact decimals and the older hexadecimal notation, in which a float is written with the bits of the equal double."""
    lines = text.split("\n")
    for number, line in enumerate(lines):
        if "half" in line or "float" in line or "double" in line:
            lines[number] = _spell_line(line)
    return "\n".join(lines)


def _spell_line(line: str) -> str:
    type_ = ""

    def spell(match: re.Match[str]) -> str:
        nonlocal type_
        if match["type"]:
            type_ = match["type"]
            return match[0]
        if not type_:
            return match[0]
        prefix, pack, exponent, mantissa = _FLOAT_FORMATS[type_]
        if match["bits"]:
            bits = int(match["bits"][3:], 16)
        elif match["special"]:
            bits = ((1 << exponent) - 1) << mantissa
            if "nan" in match["special"]:
                payload = re.search(r"\(0x([0-9A-Fa-f]+)\)", match["special"])
                bits |= 1 << (mantissa - 1) | (int(payload[1], 16) if payload else 0)
            if match["special"].startswith("-"):
                bits |= 1 << (exponent + mantissa)
        elif pack:
            bits = int.from_bytes(struct.pack(pack, float(match["decimal"])), "little")
        else:  # a bfloat written in decimal is exact, so the upper half of the float is the bfloat
            bits = int.from_bytes(struct.pack("<f", float(match["decimal"])), "little") >> 16
        if type_ == "float":
            bits = _double_bits(bits)
        return f"0x{prefix}{bits:0{4 if prefix else 16}X}"

    return _FLOAT_TOKEN.sub(spell, line)


def _double_bits(bits: int) -> int:
    """The bits of the double that equals a float given by its bits; NaN payloads are kept."""
    exponent, mantissa = bits >> 23 & 0xFF, bits & 0x7FFFFF
    if exponent == 0xFF:
        return bits >> 31 << 63 | 0x7FF << 52 | mantissa << 29
    (value,) = struct.unpack("<f", struct.pack("<I", bits))
    return int(struct.unpack("<Q", struct.pack("<d", value))[0])


def wrap(
    text: str, name: str, bindings: int, scalars: Sequence[str], target: CpuTarget, *, optimize_for_size: bool = False
) -> str:
    """Add the ABI functions ``NAME`` and ``NAME__count`` to LLVM IR that defines ``NAME__body`` and ``NAME__grid``.

    ``scalars``: the MLIR types of the push constants, in order.
    """
    text = re.sub(r"^define (?:dso_local )?(.*@([\w.]+).*)\{$", _internal, text, flags=re.MULTILINE)
    size = f"i{target.machine.pointer_bits}"
    state = _STATE.replace("iSIZE", size)
    loads, values = _scalar_loads(scalars, size)
    pointers = []
    for n in range(bindings):
        loads_n = [
            f"  %pb{n} = getelementptr ptr, ptr %bindings, i32 {n}",
            f"  %b{n} = load ptr, ptr %pb{n}, align {target.machine.pointer_bits // 8}, !invariant.load !900",
        ]
        pointers += loads_n
    arguments = ", ".join(
        [*(f"ptr %b{n}" for n in range(bindings)), *values, f"{size} %x", f"{size} %y", f"{size} %z", "ptr %scratch"]
    )
    lines = [
        f'define hidden i32 @"{name}"(ptr %state, ptr %id) #901 section ".text.{name}" {{',
        "  %bindings = load ptr, ptr %state",
        f"  %pc = getelementptr {state}, ptr %state, i32 0, i32 1",
        "  %constants = load ptr, ptr %pc",
        f"  %ps = getelementptr {state}, ptr %state, i32 0, i32 4",
        "  %scratch = load ptr, ptr %ps",
        *pointers,
        *loads,
    ]
    for n, axis in enumerate("xyz"):
        lines.append(f"  %p{axis} = getelementptr i32, ptr %id, i32 {n}")
        lines.append(f"  %i{axis} = load i32, ptr %p{axis}")
        lines.append(f"  %{axis} = {_resize('i32', size, f'%i{axis}')}")
    lines += [f'  %status = call i32 @"{name}__body"({arguments})', "  ret i32 %status", "}"]
    triple = f"{{ {size}, {size}, {size} }}"
    count = f'@"{name}__count"(ptr %constants, ptr %out) #901 section ".text.{name}__count"'
    lines += [f"define hidden void {count} {{", *loads]
    lines.append(f'  %grid = call {triple} @"{name}__grid"({", ".join(values)})')
    for n in range(3):
        lines.append(f"  %g{n} = extractvalue {triple} %grid, {n}")
        lines.append(f"  %c{n} = {_resize(size, 'i32', f'%g{n}')}")
        lines.append(f"  %o{n} = getelementptr i32, ptr %out, i32 {n}")
        lines.append(f"  store i32 %c{n}, ptr %o{n}")
    size = " optsize" if optimize_for_size else ""
    lines += ["  ret void", "}", _FUNCTION.format(size=size), _ENTRY.format(size=size), "!900 = !{}"]
    return f"{text}\n" + "\n".join(lines) + "\n"


def _internal(match: re.Match[str]) -> str:
    # A section for each function lets linkers drop and fold them; LLVM's own switch cannot be reached from Python.
    return f'define internal {match[1]}#900 section ".text.{match[2]}" {{'


def _resize(source: str, target: str, value: str) -> str:
    a, b = int(source[1:]), int(target[1:])
    if a == b:
        return f"add {source} {value}, 0"
    return f"{'zext' if a < b else 'trunc'} {source} {value} to {target}"


def _scalar_loads(scalars: Sequence[str], size: str) -> tuple[list[str], list[str]]:
    """Loads of the push constants from ``%constants`` (64-bit slots), and the typed values that they give."""
    lines, values = [], []
    floats = {"f16": "half", "bf16": "bfloat", "f32": "float", "f64": "double"}
    for n, type_ in enumerate(scalars):
        lines.append(f"  %ps{n} = getelementptr i64, ptr %constants, i32 {n}")
        lines.append(f"  %w{n} = load i64, ptr %ps{n}, align 8")
        if type_ in floats:
            width = re.sub(r"\D", "", type_)
            lines.append(f"  %t{n} = {_resize('i64', f'i{width}', f'%w{n}')}")
            lines.append(f"  %s{n} = bitcast i{width} %t{n} to {floats[type_]}")
            values.append(f"{floats[type_]} %s{n}")
            continue
        kind = size if type_ == "index" else type_
        lines.append(f"  %s{n} = {_resize('i64', kind, f'%w{n}')}")
        values.append(f"{kind} %s{n}")
    return lines, values


def emit_object(text: str, target: CpuTarget, options: ObjectOptions = ObjectOptions()) -> bytes:
    """Optimize LLVM IR text and generate a relocatable object. Deterministic. Raises ``CompileError`` on invalid IR."""
    return emit(text, target, options, assembly=False)[0]


def emit(text: str, target: CpuTarget, options: ObjectOptions, *, assembly: bool) -> tuple[bytes, str]:
    """``emit_object``'s object and, when asked for, the same code as assembly."""
    machine = _machine(target, options.optimize_for_size)
    module = optimize(text, target, options)
    if mve.is_affected(target):
        module = _parse(mve.fence_conversions(str(module)), target, machine)
        assembly = True
    # Generating code changes the module, so the assembly comes from a copy and matches the object.
    copy = _parse(str(module), target, machine) if assembly else None
    blob = machine.emit_object(module)
    object_file.check_float_abi(blob, target, "a kernel")
    listing = machine.emit_assembly(copy) if copy else ""
    if mve.is_affected(target):
        mve.check(listing)
    return blob, listing


def optimize(text: str, target: CpuTarget, options: ObjectOptions) -> llvm.ModuleRef:
    """Parse, verify and optimize LLVM IR text for a target."""
    machine = _machine(target, options.optimize_for_size)
    module = _parse(f'target triple = "{target.machine.triple}"\n{text}', target, machine)
    tuning = llvm.PipelineTuningOptions(speed_level=2)
    tuning.loop_vectorization = options.vectorize_loops
    tuning.slp_vectorization = options.vectorize_loops
    tuning.loop_unrolling = options.vectorize_loops and not options.optimize_for_size
    builder = llvm.create_pass_builder(machine, tuning)
    builder.getModulePassManager().run(module, builder)
    return module


def _parse(text: str, target: CpuTarget, machine: llvm.TargetMachine) -> llvm.ModuleRef:
    try:
        module = llvm.parse_assembly(text)
        module.data_layout = str(machine.target_data)
        module.verify()
    except RuntimeError as error:
        raise CompileError(f"internal error: LLVM rejects the generated code: {error}") from error
    return module


@functools.cache
def _machine(target: CpuTarget, optimize_for_size: bool) -> llvm.TargetMachine:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    return llvm.Target.from_triple(target.machine.triple).create_target_machine(
        cpu=target.machine.cpu,
        features=target.machine.llvm_features,
        opt=2 if optimize_for_size else 3,
        reloc="pic" if target.deployment.position_independent else "static",
        codemodel="small" if target.machine.arch in ("x86_64", "aarch64") else "default",
        abiname=target.machine.abi,
    )

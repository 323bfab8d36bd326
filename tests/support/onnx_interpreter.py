"""Runs a program in tensor form with upstream MLIR only: bufferize, loops, LLVM, JIT.

It checks frontends on their own, before any other stage of the compiler; it is slow and simple on purpose.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from torch_mlir import ir
from torch_mlir.execution_engine import ExecutionEngine
from torch_mlir.passmanager import PassManager

from rillet.ir import Program, dtypes

_DECOMPOSE = """
module attributes {transform.with_named_sequence} {
  transform.named_sequence @main(%root: !transform.any_op {transform.consumed}) {
    %f = transform.structured.match ops{["func.func"]} in %root : (!transform.any_op) -> !transform.any_op
    transform.apply_patterns to %f {
      transform.apply_patterns.tensor.decompose_concat
    } : !transform.any_op
    transform.yield
  }
}
"""

_PIPELINE = ",".join(
    [
        "canonicalize",
        "cse",
        "one-shot-bufferize{bufferize-function-boundaries allow-return-allocs-from-loops "
        "function-boundary-type-conversion=identity-layout-map}",
        "func.func(convert-linalg-to-loops)",
        "expand-strided-metadata",
        "lower-affine",
        "convert-scf-to-cf",
        "func.func(arith-expand{include-bf16=true})",
        "func.func(convert-math-to-llvm)",
        "convert-math-to-libm",
        "memref-expand",
        "finalize-memref-to-llvm",
        "convert-arith-to-llvm",
        "convert-index-to-llvm",
        "convert-cf-to-llvm",
        "convert-func-to-llvm",
        "reconcile-unrealized-casts",
    ]
)


_CopyType = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.POINTER(ctypes.c_int64), ctypes.POINTER(ctypes.c_int64))


@_CopyType
def _copy(element_size: int, source: Sequence[int], target: Sequence[int]) -> None:
    """What ``memref.copy`` of strided memrefs calls: both arguments are (rank, descriptor pointer)."""
    views = []
    for unranked in (source, target):
        rank = unranked[0]
        words = (ctypes.c_int64 * (3 + 2 * rank)).from_address(unranked[1])
        shape, strides = list(words[3 : 3 + rank]), list(words[3 + rank :])
        if 0 in shape:
            return
        extent = 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
        raw = (ctypes.c_uint8 * (extent * element_size)).from_address(words[1] + words[2] * element_size)
        flat = np.frombuffer(raw, dtype=f"V{element_size}")
        views.append(np.lib.stride_tricks.as_strided(flat, shape, [s * element_size for s in strides]))
    views[1][...] = views[0]


def _libm() -> str:
    """The path of the C math library, which the JIT does not find among the process's symbols."""
    ctypes.CDLL("libm.so.6")
    return next(line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "libm.so" in line)


def evaluate(program: Program, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Run ``@main`` on arrays, one for each argument, and return its results. The program is consumed."""
    with program.context, ir.Location.unknown():
        main = program.main()
        names = [
            ir.StringAttr(ir.DictAttr(a)["rillet.dtype"]).value for a in ir.ArrayAttr(main.attributes["res_attrs"])
        ]
        constants = _constants_to_arguments(program, main)
        shapes = [
            ir.RankedTensorType(t).shape
            for t in ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value).results
        ]
        for attribute in ("arg_attrs", "res_attrs"):
            if attribute in main.attributes:
                del main.attributes[attribute]
        main.attributes["llvm.emit_c_interface"] = ir.UnitAttr.get()
        _run_transform(program.module)
        PassManager.parse(f"builtin.module({_PIPELINE})").run(program.module.operation)
        engine = ExecutionEngine(program.module, opt_level=1, shared_libs=[_libm()])
        engine.raw_register_runtime("memrefCopy", ctypes.cast(_copy, ctypes.c_void_p))
        arguments = [_Descriptor.of(np.ascontiguousarray(a)) for a in [*inputs, *constants]]
        results = (ctypes.c_int64 * sum(3 + 2 * len(s) for s in shapes))()
        pointers = [ctypes.pointer(ctypes.cast(results, ctypes.c_void_p))]
        pointers += [ctypes.pointer(ctypes.cast(a.words, ctypes.c_void_p)) for a in arguments]
        packed = (ctypes.c_void_p * len(pointers))(*[ctypes.cast(p, ctypes.c_void_p) for p in pointers])
        entry = engine.raw_lookup("_mlir_ciface_main")
        if not entry:
            raise RuntimeError("the JIT found no entry point (a symbol is missing)")
        ctypes.CFUNCTYPE(None, ctypes.c_void_p)(entry)(ctypes.cast(packed, ctypes.c_void_p))
        outputs = []
        offset = 0
        for name, shape in zip(names, shapes, strict=True):
            words = results[offset : offset + 3 + 2 * len(shape)]
            outputs.append(_read(words, len(shape), dtypes.by_name[name].numpy))
            offset += len(words)
        return outputs


def _constants_to_arguments(program: Program, main: ir.Operation) -> list[np.ndarray]:
    loads: list[ir.Operation] = []

    def collect(op: ir.Operation) -> ir.WalkResult:
        if op.name == "ml_program.global_load_const":
            loads.append(op)
        return ir.WalkResult.ADVANCE

    main.walk(collect)
    block = main.regions[0].blocks[0]
    arrays = []
    for op in loads:
        argument = block.add_argument(op.results[0].type, ir.Location.unknown())
        arrays.append(program.constants[ir.FlatSymbolRefAttr(op.attributes["global"]).value])
        op.results[0].replace_all_uses_with(argument)
        op.erase()
    for op in list(program.module.body.operations):
        if op.operation.name == "ml_program.global":
            op.operation.erase()
    function_type = ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value)
    types = [a.type for a in block.arguments]
    main.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(types, function_type.results))
    return arrays


def _run_transform(module: ir.Module) -> None:
    from torch_mlir.dialects.transform import interpreter

    schedule = ir.Module.parse(_DECOMPOSE)
    interpreter.apply_named_sequence(module, schedule.body.operations[0], schedule)


class _Descriptor:
    """A memref descriptor of a contiguous array as 64-bit words."""

    def __init__(self, words: ctypes.Array, array: np.ndarray):
        self.words = words
        self.array = array

    @staticmethod
    def of(array: np.ndarray) -> _Descriptor:
        # One byte at least, so that a zero-size array has an address too.
        array = array if array.size else np.zeros(1, array.dtype)[:0].reshape(array.shape)
        strides = [s // array.itemsize for s in array.strides]
        values = [array.ctypes.data, array.ctypes.data, 0, *array.shape, *strides]
        return _Descriptor((ctypes.c_int64 * len(values))(*values), array)


def _read(words: Sequence[int], rank: int, dtype: np.dtype) -> np.ndarray:
    pointer, offset = words[1], words[2]
    shape, strides = words[3 : 3 + rank], words[3 + rank :]
    if 0 in shape:
        return np.zeros(shape, dtype)
    extent = 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
    raw = (ctypes.c_uint8 * (extent * dtype.itemsize)).from_address(pointer + offset * dtype.itemsize)
    flat = np.frombuffer(raw, dtype=dtype)
    return np.lib.stride_tricks.as_strided(flat, shape, [s * dtype.itemsize for s in strides]).copy()

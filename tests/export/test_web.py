"""WebAssembly: the reference networks in Node, through the loader that the export writes."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import onnx
import pytest

import models
import rillet
from rillet.codegen.cpu.object_code import llvm, object_file
from rillet.codegen.cpu.object_code.stack import stack_bytes
from rillet.errors import CompileError
from rillet.targets import get
from tests.support import export_graphs as graphs

NETWORKS = ("mnist_cnn", "ds_cnn", "resnet_8", "mobilenet_v1_025", "fc_autoencoder")

_RUNNER = """
import { readFileSync, writeFileSync } from "node:fs";
import { load } from "./model.mjs";
const { inputs, outputs, run } = await load(readFileSync("model.wasm"));
let data = readFileSync("input.bin"), offset = 0;
const raw = (array) => new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
for (const array of Object.values(inputs)) {
  raw(array).set(data.subarray(offset, offset + array.byteLength));
  offset += array.byteLength;
}
run();
writeFileSync("output.bin", Buffer.concat(Object.values(outputs).map(raw)));
"""


def require_node() -> str:
    found = shutil.which("node")
    if found is None:
        if os.environ.get("CI") == "true":
            pytest.fail("node is not installed, though CI installs it")
        pytest.skip("node is not installed (Debian: nodejs)")
    return found


def run(model: object, arrays: list[np.ndarray], folder: Path, mode: str = "c") -> list[np.ndarray]:
    """Compile for WebAssembly and call it in Node."""
    node = require_node()
    module = rillet.compile(model, target="wasm32")
    module.export(folder, mode=mode, layout="web", name="model")
    (folder / "runner.mjs").write_text(_RUNNER)
    (folder / "input.bin").write_bytes(b"".join(np.ascontiguousarray(a).tobytes() for a in arrays))
    done = subprocess.run([node, "runner.mjs"], cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    data, results, offset = (folder / "output.bin").read_bytes(), [], 0
    for spec in module.outputs:
        size = int(np.prod(spec.shape, dtype=int)) * spec.dtype.itemsize
        results.append(np.frombuffer(data[offset : offset + size], spec.dtype).reshape(spec.shape))
        offset += size
    return results


def check(model: object, arrays: list[np.ndarray], folder: Path, mode: str = "c") -> None:
    """Without fused multiply-adds sums round otherwise than here, in proportion to the largest values."""
    wanted = rillet.compile(model)(*arrays)
    for a, b in zip(run(model, arrays, folder, mode), wanted if isinstance(wanted, tuple) else (wanted,), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6 * max(1, np.abs(b).max()))


@pytest.mark.parametrize("name", NETWORKS)
def test_reference_networks(name: str, tmp_path: Path) -> None:
    check(models.build(name), list(models.inputs(name).values()), tmp_path)


@pytest.mark.parametrize("mode", ["c", "static"])
def test_integers_and_control_flow(mode: str, tmp_path: Path) -> None:
    x = np.random.default_rng(1).standard_normal((3, 4)).astype(np.float32)
    check(graphs.loop(), [x, np.array(5)], tmp_path, mode)


def test_data_errors_throw(tmp_path: Path) -> None:
    node = onnx.helper.make_node("Gather", ["w", "i"], ["y"], name="gather")
    inputs, outputs = [graphs.value("i", graphs.INT64, [1])], [graphs.value("y", graphs.FLOAT, [1, 4])]
    model = graphs.model([node], inputs, outputs, {"w": graphs.weights(3, 4)})
    with pytest.raises(AssertionError, match="RangeError: model: an index in the data is out of bounds"):
        run(model, [np.array([7])], tmp_path)


def test_the_layout_needs_webassembly(tmp_path: Path) -> None:
    with pytest.raises(CompileError, match="layout 'web' needs a WebAssembly target such as wasm32, not cortex-m4"):
        rillet.compile(graphs.dense(), target="cortex-m4", jobs=1).export(tmp_path, layout="web")


def test_objects_are_read() -> None:
    text = """
declare void @g(ptr)
define void @f() {
  %a = alloca [40 x i8]
  call void @g(ptr %a)
  ret void
}
@zeros = internal global [100 x i8] zeroinitializer
@ones = internal constant [3 x i8] c"abc"
@llvm.used = appending global [2 x ptr] [ptr @zeros, ptr @ones], section "llvm.metadata"
"""
    blob, assembly = llvm.emit(text, get("wasm32"), llvm.ObjectOptions(), assembly=True)
    assert object_file.undefined_symbols(blob) == ["g"]
    sizes = object_file.sizes(blob)
    assert sizes.rodata == 3 and sizes.bss == 100 and sizes.text > 20
    assert stack_bytes(assembly) == 48
    with pytest.raises(CompileError, match="is not a constant"):
        stack_bytes("\tglobal.get\t__stack_pointer\n\tlocal.get\t0\n\ti32.sub\n")

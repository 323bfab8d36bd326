"""The coverage report: ``rillet.check`` and ``rillet check``."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper, parser

import rillet
from rillet.cli import main

_GOOD = parser.parse_model(
    """<ir_version: 8, opset_import: ["" : 18]> g (float[N,8] x) => (float[N,4] y)
    { t = MatMul(x, w)  y = Relu(t) }"""
)
_GOOD.graph.initializer.append(numpy_helper.from_array(np.ones((8, 4), np.float32), "w"))


def _bad() -> onnx.ModelProto:
    model = onnx.ModelProto()
    model.CopyFrom(_GOOD)
    model.graph.node.insert(0, helper.make_node("Strange", ["x"], ["a"], name="first", domain="acme"))
    model.graph.node.append(helper.make_node("Stranger", ["x"], ["b"], name="second", domain="acme"))
    model.opset_import.append(helper.make_opsetid("acme", 3))
    return model


def test_supported_model() -> None:
    report = rillet.check(_GOOD)
    assert report.supported
    assert {op.op: op.count for op in report.ops} == {"MatMul": 1, "Relu": 1}
    assert report.ops[0].dtypes == ("float32",)
    assert report.dynamic_dimensions == ("N",)
    assert report.macs == 32
    assert report.weight_bytes == 128
    assert report.arena_bytes is not None


def test_shapes_are_pinned() -> None:
    report = rillet.check(_GOOD, inputs={"x": (3, 8)})
    assert report.macs == 96
    assert report.dynamic_dimensions == ()


def test_work_of_each_step_of_a_loop_counts() -> None:
    model = parser.parse_model(
        """<ir_version: 10, opset_import: ["" : 20]> g (float[7,1,3] x, float[1,8,3] w, float[1,8,2] r)
        => (float[7,1,1,2] y) { y = LSTM<hidden_size = 2>(x, w, r) }"""
    )
    assert rillet.check(model).macs == 7 * 8 * (3 + 2)


def test_unsupported_nodes_are_all_listed() -> None:
    report = rillet.check(_bad())
    assert not report.supported
    assert [node.name for node in report.unsupported] == ["first", "second"]
    assert report.macs is None
    strange = next(op for op in report.ops if op.op == "acme.Strange")
    assert (strange.count, strange.unsupported, strange.opset) == (1, 1, 3)
    assert strange.reasons == ("domain 'acme' is not known",)


def test_control_flow_and_functions() -> None:
    model = parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 18]> g (float[4] x, bool c) => (float[4] y) {
        y = If(c) <then_branch = a () => (float[4] u) { u = Neg(x) },
        else_branch = b () => (float[4] v) { v = Abs(x) }> }"""
    )
    report = rillet.check(model)
    assert report.control_flow == {"If": 1}
    assert {op.op for op in report.ops} == {"If", "Neg", "Abs"}


def test_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good, bad = tmp_path / "good.onnx", tmp_path / "bad.onnx"
    onnx.save(_GOOD, good)
    onnx.save(_bad(), bad)
    assert main(["check", str(good), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["supported"] is True
    assert main(["check", str(good), "--shape", "x=5x8"]) == 0
    assert "multiply-accumulates: 160" in capsys.readouterr().out
    assert main(["check", str(bad)]) == 1
    text = capsys.readouterr().out
    assert "NOT SUPPORTED (1)" in text
    assert "acme.Stranger 'second' (opset 3): domain 'acme' is not known" in text


def test_file_that_is_no_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "x.onnx"
    path.write_bytes(b"hello")
    assert main(["check", str(path)]) == 1
    assert "not an ONNX model" in capsys.readouterr().err


def test_bare_metal_needs_fixed_shapes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "good.onnx"
    onnx.save(_GOOD, path)
    assert main(["check", str(path), "--target", "cortex-m4"]) == 1
    assert "input 'x' [N, 8]: --shape x=1x8" in capsys.readouterr().out
    assert main(["check", str(path), "--target", "cortex-m4", "--shape", "x=1x8"]) == 0
    assert capsys.readouterr().out.endswith("\nsupported\n")
    report = rillet.check(_GOOD, target="cortex-m4")
    assert not report.as_dict()["supported"] and report.macs == 32


def test_bare_metal_takes_no_strings() -> None:
    model = parser.parse_model(
        """<ir_version: 10, opset_import: ["" : 20]> g (string[2] x) => (string[2] y) { y = StringConcat(x, x) }"""
    )
    assert rillet.check(model).supported
    assert "input 'x' holds strings" in rillet.check(model, target="cortex-m4").refused


@pytest.mark.parametrize(
    ("graph", "reason"),
    [
        ("g (float[3] x) => (string[3] y) { y = Cast<to=8>(x) }", "output 'y' holds strings, which have no fixed size"),
        ("g (float[3] x) => (int64[1,N] y) { y = NonZero(x) }", "the shape of output 'y' depends on the data"),
        (
            "g (float[3] x) => (float[3] y) { s = Cast<to=8>(x)  y = Cast<to=1>(s) }",
            "the memory of intermediate values depends on the data",
        ),
    ],
)
def test_bare_metal_needs_memory_known_at_compile_time(graph: str, reason: str) -> None:
    model = parser.parse_model(f'<ir_version: 10, opset_import: ["" : 20]> {graph}')
    assert rillet.check(model).supported
    assert rillet.check(model, target="cortex-m4").refused == f"target cortex-m4 has static memory, but {reason}"


_THREADS = """
import sys, threading
from onnx import parser
import rillet

TEXT = '<ir_version: 10, opset_import: ["" : 20]> g (float[N,%d] x) => (float[N,%d] y) { t = Softmax(x) y = Gelu(t) }'
models = [parser.parse_model(TEXT % (k, k)) for k in range(2, 8)]
modules = [rillet.compile(model, target="aarch64", dims={"N": 1}) for model in models[:2]]

def work(model):
    for _ in range(5):
        assert rillet.check(model).supported

threads = [threading.Thread(target=work, args=(model,)) for model in models]
threads += [threading.Thread(target=rillet.compile, args=(model,)) for model in models]
threads += [threading.Thread(target=m.export, args=(f"{sys.argv[1]}/{n}",)) for n, m in enumerate(modules)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""


def test_threads_take_turns(tmp_path: Path) -> None:
    """MLIR's tables of contexts have no lock: without turns this crashes."""
    command = [sys.executable, "-W", "error", "-c", _THREADS, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and not done.stderr, done.stderr
    assert sorted(p.name for p in tmp_path.iterdir()) == ["0", "1"]

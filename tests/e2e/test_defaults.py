"""Initializers that are inputs, too: defaults, which calls may replace, as in ONNX Runtime."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

import rillet
from rillet.analysis import check
from rillet.cli import main
from rillet.verify import verify

X = np.ones((2, 3), np.float32)


def model(version: int = 8) -> onnx.ModelProto:
    """y = x * w, where w is 2 and comes before x."""
    return parser.parse_model(
        f'<ir_version: {version}, opset_import: ["" : 17]> g (float[1] w, float[2,3] x) => (float[A,B] y) '
        "<float[1] w = {2}> { y = Mul(x, w) }"
    )


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> rillet.Module:
    path = tmp_path_factory.mktemp("defaults") / "m.rlm"
    rillet.compile(model(), threads=1).save(path)
    return rillet.load(path)


def w(value: float) -> np.ndarray:
    return np.full(1, value, np.float32)


def test_a_call_may_leave_out_a_default_or_replace_it(module: rillet.Module) -> None:
    assert [(spec.name, spec.has_default) for spec in module.inputs] == [("x", False), ("w", True)]
    assert str(module.inputs[1]) == "w: float32[1] (has a default)"
    for given, factor in [((X,), 2), ((X, w(5)), 5), ((X, None), 2)]:
        np.testing.assert_array_equal(module(*given), X * factor)
    np.testing.assert_array_equal(module(x=X[:, ::-1], w=w(7)), X * 7)
    np.testing.assert_array_equal(module.run({"x": X})["y"], X * 2)
    np.testing.assert_array_equal(module.run({"w": w(3), "x": X.tolist()})["y"], X * 3)
    np.testing.assert_array_equal(module.submit(X).result(), X * 2)


def test_what_replaces_a_default_must_fit(module: rillet.Module) -> None:
    with pytest.raises(rillet.RunError, match=r"input 'w': expected shape \(1,\), got \(2,\)"):
        module(X, np.ones(2, np.float32))
    with pytest.raises(rillet.RunError, match="input 'w': expected float32, got int64"):
        module(X, np.ones(1, np.int64))
    with pytest.raises(rillet.RunError, match="input 'x' is missing"):
        module(w=w(1))


def test_ir_version_3_lists_every_initializer() -> None:
    module = rillet.compile(model(3), threads=1)
    assert [spec.name for spec in module.inputs] == ["x"]
    np.testing.assert_array_equal(module(X), X * 2)


def test_onnx_runtime_sees_the_same_defaults() -> None:
    runtime = pytest.importorskip("onnxruntime")
    for version, expected in ((3, []), (8, ["w"])):
        session = runtime.InferenceSession(model(version).SerializeToString(), providers=["CPUExecutionProvider"])
        assert [i.name for i in session.get_overridable_initializers()] == expected
        ours = rillet.compile(model(version), threads=1).inputs
        assert [spec.name for spec in ours if spec.has_default] == expected


def test_an_initializer_that_is_given_a_shape_has_no_default() -> None:
    module = rillet.compile(model(), inputs={"w": (1,)}, threads=1)
    assert [(spec.name, spec.has_default) for spec in module.inputs] == [("w", False), ("x", False)]


def test_a_default_whose_value_the_code_may_rely_on() -> None:
    module = rillet.compile(model(), values={"w": w(9)}, threads=1)
    np.testing.assert_array_equal(module(X), X * 9)


def test_what_nodes_need_to_know_stays_constant() -> None:
    text = """<ir_version: 8, opset_import: ["" : 18]> g (float[2,3] x, int64[1] steps, float[1] w) => (float[A,B] y)
    <int64[1] steps = {2}, float[1] w = {2}, int64[1] first = {0}, int64[1] last = {3}, int64[1] axes = {1}>
    { t = Slice(x, first, last, axes, steps)  y = Mul(t, w) }"""
    with pytest.warns(RuntimeWarning, match="calls cannot replace the defaults of 'steps', whose values nodes need"):
        module = rillet.compile(parser.parse_model(text), threads=1)
    assert [spec.name for spec in module.inputs] == ["x", "w"]
    np.testing.assert_array_equal(module(X, w(10)), 10 * X[:, ::2])


def test_weights_that_calls_may_replace_cost_time() -> None:
    proto = parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 18]> g (float[2,256] x, float[256,64] k) => (float[2,64] y) '
        "{ y = MatMul(x, k) }"
    )
    kernel = np.random.default_rng(0).standard_normal((256, 64)).astype(np.float32)
    proto.graph.initializer.append(numpy_helper.from_array(kernel, "k"))
    with pytest.warns(RuntimeWarning, match="the initializers 'k' are inputs too: .* take them out"):
        module = rillet.compile(proto, threads=1)
    x = np.ones((2, 256), np.float32)
    np.testing.assert_allclose(module(x), x @ kernel, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(module(x, -kernel), x @ -kernel, rtol=1e-4, atol=1e-4)


def test_firmware_takes_no_defaults() -> None:
    module = rillet.compile(model(), target="cortex-m4", jobs=1)
    assert [spec.name for spec in module.inputs] == ["x"]
    report = check(model(), target="cortex-m4")
    assert report.supported and list(report.inputs) == ["x"] and not report.defaults
    assert list(check(model()).inputs) == ["x", "w"] and check(model()).defaults == ["w"]


def test_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    onnx.save(model(), tmp_path / "m.onnx")
    np.save(tmp_path / "w.npy", w(0))
    source = str(tmp_path / "m.onnx")
    assert main(["check", source]) == 0
    assert "input w: [1] (has a default)" in capsys.readouterr().out
    assert main(["run", source, "--input", f"w={tmp_path / 'w.npy'}"]) == 0
    assert re.search(r"min -?0\.0  max -?0\.0", capsys.readouterr().out)
    assert main(["bench", source, "--seconds", "0.01", "--json"]) == 0
    assert '"x"' in (out := capsys.readouterr().out) and '"w"' not in out
    assert main(["compile", source, "-o", str(tmp_path / "m.rlm")]) == 0
    capsys.readouterr()
    assert main(["inspect", str(tmp_path / "m.rlm")]) == 0
    assert "w: float32 [1] (has a default)" in capsys.readouterr().out


def test_verify() -> None:
    pytest.importorskip("onnxruntime")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for feeds in ({"x": X}, {"x": X, "w": w(4)}):
            report = verify(model(), feeds=feeds)
            assert not report.missing and not any(finding.departs for finding in report.outputs)


@pytest.mark.parametrize("compiled", [False, True])
def test_the_interface_of_onnx_runtime(compiled: bool, tmp_path: Path) -> None:
    from rillet import onnxruntime

    onnx.save(model(), tmp_path / "m.onnx")
    if compiled:
        rillet.compile(model(), threads=1).save(tmp_path / "m.rlm")
    session = onnxruntime.InferenceSession(tmp_path / ("m.rlm" if compiled else "m.onnx"))
    assert [value.name for value in session.get_inputs()] == ["x"]
    assert [(value.name, value.shape) for value in session.get_overridable_initializers()] == [("w", [1])]
    np.testing.assert_array_equal(session.run(None, {"x": X})[0], X * 2)
    np.testing.assert_array_equal(session.run(["y"], {"x": X, "w": w(6)})[0], X * 6)

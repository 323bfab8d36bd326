"""The same calls on ONNX Runtime and on its interface here give the same."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import rillet
import rillet.onnxruntime as ort
from tests.support.call_counts import called

_WEIGHTS = np.arange(6, dtype=np.float32).reshape(2, 3)
_X = np.array([[1, -2], [0.5, 4]], np.float32)


def _model() -> onnx.ModelProto:
    """y = x @ w (N x 3), s = the sums of y's rows."""
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "w"], ["y"]),
            helper.make_node("ReduceSum", ["y", "axes"], ["s"], keepdims=0),
        ],
        "classifier",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 2])],
        [
            helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 3]),
            helper.make_tensor_value_info("s", TensorProto.FLOAT, ["N"]),
        ],
        [numpy_helper.from_array(_WEIGHTS, "w"), numpy_helper.from_array(np.array([1]), "axes")],
        doc_string="a graph",
    )
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9, producer_name="us", model_version=7
    )
    helper.set_model_props(model, {"labels": "a,b,c"})
    return model


@pytest.fixture(scope="module")
def data() -> bytes:
    return _model().SerializeToString()


@pytest.fixture(scope="module")
def session(data: bytes) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    return ort.InferenceSession(data, options, providers=["CPUExecutionProvider"])


@pytest.fixture(scope="module")
def theirs(data: bytes) -> onnxruntime.InferenceSession:
    return onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])


def test_it_describes_a_model_as_onnx_runtime_does(
    session: ort.InferenceSession, theirs: onnxruntime.InferenceSession
) -> None:
    for ours, other in ((session.get_inputs(), theirs.get_inputs()), (session.get_outputs(), theirs.get_outputs())):
        assert [(a.name, a.type, a.shape) for a in ours] == [(a.name, a.type, a.shape) for a in other]
    names = ("producer_name", "graph_name", "domain", "description", "graph_description", "version")
    mine, others = session.get_modelmeta(), theirs.get_modelmeta()
    assert [getattr(mine, n) for n in names] == [getattr(others, n) for n in names]
    assert mine.custom_metadata_map == others.custom_metadata_map == {"labels": "a,b,c"}
    assert session.get_providers() == theirs.get_providers()
    assert session.get_overridable_initializers() == []


@pytest.mark.parametrize("names", [None, [], ["s"], ["s", "y"], ["y", "y"]])
def test_run_gives_the_outputs_asked_for(
    session: ort.InferenceSession, theirs: onnxruntime.InferenceSession, names: list[str] | None
) -> None:
    ours, others = session.run(names, {"x": _X}), theirs.run(names, {"x": _X})
    assert len(ours) == len(others)
    for mine, other in zip(ours, others, strict=True):
        assert mine.dtype == other.dtype
        np.testing.assert_allclose(mine, other, rtol=1e-6)


def test_values_and_bindings_share_memory(session: ort.InferenceSession) -> None:
    expected = _X @ _WEIGHTS
    value = ort.OrtValue.ortvalue_from_numpy(_X.copy())
    assert (value.shape(), value.data_type(), value.element_type(), value.is_tensor()) == (
        [2, 2],
        "tensor(float)",
        1,
        True,
    )
    (result,) = session.run_with_ort_values(["y"], {"x": value})
    np.testing.assert_array_equal(result.numpy(), expected)

    binding, place = session.io_binding(), np.empty((2, 3), np.float32)
    binding.bind_input("x", "cpu", 0, np.float32, _X.shape, _X.ctypes.data)
    binding.bind_output("y", "cpu", 0, np.float32, place.shape, place.ctypes.data)
    binding.bind_output("s")
    session.run_with_iobinding(binding)
    np.testing.assert_array_equal(place, expected)
    bound, sums = binding.copy_outputs_to_cpu()
    assert bound.ctypes.data == place.ctypes.data
    np.testing.assert_array_equal(sums, expected.sum(1))

    binding = session.io_binding()
    binding.bind_cpu_input("x", 2 * _X)
    target = ort.OrtValue.ortvalue_from_shape_and_type((2, 3), np.float32)
    binding.bind_ortvalue_output("y", target)
    session.run_with_iobinding(binding)
    np.testing.assert_array_equal(target.numpy(), 2 * expected)
    assert [v.data_ptr() for v in binding.get_outputs()] == [target.data_ptr()]


def test_a_binding_of_another_shape_or_device_is_refused(session: ort.InferenceSession) -> None:
    binding = session.io_binding()
    binding.bind_cpu_input("x", _X)
    binding.bind_ortvalue_output("y", ort.OrtValue.ortvalue_from_shape_and_type((3, 3), np.float32))
    with pytest.raises(ValueError, match=r"output 'y' is float32 of shape \(2, 3\), but bound to memory of float32"):
        session.run_with_iobinding(binding)
    with pytest.raises(ValueError, match="device 'cuda' is not supported"):
        binding.bind_output("y", "cuda")
    with pytest.raises(ValueError, match="output 'y': memory at an address needs element_type and shape"):
        binding.bind_output("y", buffer_ptr=64)


def test_run_async_calls_back_with_results_or_the_error(session: ort.InferenceSession) -> None:
    calls: list[tuple] = []
    for feed in ({"x": _X}, {"x": _X[:, :1]}):
        done = threading.Event()
        session.run_async(["y"], feed, lambda *got, done=done: (calls.append(got), done.set()), "mine")
        assert done.wait(30)
    (results, data, error), (none, _, why) = calls
    np.testing.assert_array_equal(results[0], _X @ _WEIGHTS)
    assert (data, error, none) == ("mine", "", [])
    assert "'x'" in why


def test_faults_have_onnx_runtimes_exceptions(session: ort.InferenceSession, tmp_path: Path) -> None:
    from rillet.onnxruntime.capi import onnxruntime_pybind11_state as state

    with pytest.raises(ValueError, match=r"Required inputs \(\['x'\]\) are missing from input feed \(\[\]\)"):
        session.run(None, {})
    with pytest.raises(state.InvalidArgument, match="no output 'z'; its outputs are: y, s"):
        session.run(["z"], {"x": _X})
    with pytest.raises(state.InvalidArgument, match="input 'x': expected float32, got float64"):
        session.run(None, {"x": _X.astype(np.float64)})
    with pytest.raises(state.NoSuchFile, match=r"no\.onnx"):
        ort.InferenceSession(str(tmp_path / "no.onnx"))
    with pytest.raises(state.InvalidProtobuf, match="not an ONNX model"):
        ort.InferenceSession(b"garbage")
    with pytest.raises(TypeError, match="Unable to load from type"):
        ort.InferenceSession(17)
    with pytest.raises(TypeError, match=r"sess_options must be a rillet\.onnxruntime\.SessionOptions"):
        ort.InferenceSession(b"", onnxruntime.SessionOptions())
    with pytest.raises(NotImplementedError, match="custom operators"):
        ort.SessionOptions().register_custom_ops_library("lib.so")


def test_options_pin_dimensions_and_notes_are_logged(data: bytes, caplog: pytest.LogCaptureFixture) -> None:
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.add_free_dimension_override_by_name("N", 2)
    options.add_free_dimension_override_by_name("absent", 2)
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    assert options.get_session_config_entry("session.intra_op.allow_spinning") == "0"
    with caplog.at_level(logging.WARNING, "rillet.onnxruntime"):
        pinned = ort.InferenceSession(data, options, providers=[("CUDAExecutionProvider", {}), "CPUExecutionProvider"])
    assert "these providers are ignored: CUDAExecutionProvider" in caplog.text
    with pytest.raises(rillet.RunError, match="input 'x'"):
        pinned.run(None, {"x": _X[:1]})


def test_a_module_file_is_a_session_too(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "m.rlm"
    rillet.compile(data, threads=1).save(path)
    session = rillet.InferenceSession(path)
    assert [(a.name, a.type, a.shape) for a in session.get_inputs()] == [("x", "tensor(float)", ["N", 2])]
    np.testing.assert_array_equal(session.run(["y"], {"x": _X})[0], _X @ _WEIGHTS)


def test_sequences_go_in_and_out_as_lists() -> None:
    sequence = helper.make_tensor_sequence_value_info("xs", TensorProto.FLOAT, ["a"])
    graph = helper.make_graph(
        [helper.make_node("SequenceInsert", ["xs", "x"], ["ys"])],
        "g",
        [sequence, helper.make_tensor_value_info("x", TensorProto.FLOAT, ["b"])],
        [helper.make_tensor_sequence_value_info("ys", TensorProto.FLOAT, None)],
    )
    data = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9).SerializeToString()
    feed = {"xs": [np.ones(2, np.float32), np.zeros(1, np.float32)], "x": np.full(3, 5, np.float32)}
    session, theirs = ort.InferenceSession(data), onnxruntime.InferenceSession(data)
    assert [a.type for a in session.get_inputs()] == [a.type for a in theirs.get_inputs()]
    (ours,), (others,) = session.run(None, feed), theirs.run(None, feed)
    assert [a.tolist() for a in ours] == [a.tolist() for a in others]


def test_every_name_is_one_of_onnx_runtime() -> None:
    assert set(ort.__all__) - {"install"} <= set(dir(onnxruntime))
    for mine, other in (
        (ort.InferenceSession, onnxruntime.InferenceSession),
        (ort.OrtValue, onnxruntime.OrtValue),
        (ort.IOBinding, onnxruntime.IOBinding),
    ):
        public = {name for name in dir(mine) if not name.startswith("_")}
        assert public - {"run"} <= set(dir(other))
    for name in ("ORT_DISABLE_ALL", "ORT_ENABLE_ALL"):
        assert int(getattr(ort.GraphOptimizationLevel, name)) == int(getattr(onnxruntime.GraphOptimizationLevel, name))


_CLIENT = """
import rillet.onnxruntime
rillet.onnxruntime.install()
import onnxruntime
from onnxruntime import InferenceSession
from onnxruntime.capi import _pybind_state as C
from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument
assert InferenceSession is rillet.InferenceSession and C.InvalidArgument is InvalidArgument is rillet.RunError
assert onnxruntime.get_available_providers() == ["CPUExecutionProvider"] and onnxruntime.get_device() == "CPU"
"""


def test_install_replaces_the_package_in_a_process() -> None:
    subprocess.run([sys.executable, "-c", _CLIENT], check=True, timeout=120)


def test_install_after_the_real_package_is_refused() -> None:
    with pytest.raises(ImportError, match="onnxruntime has been imported already"):
        ort.install()


def test_a_call_makes_few_calls_in_python(data: bytes) -> None:
    session = ort.InferenceSession(data)
    assert called(lambda: session.run(None, {"x": _X})) <= 20

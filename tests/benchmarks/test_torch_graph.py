"""ONNX graphs as PyTorch modules; skipped where PyTorch is not installed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx.parser
import onnxruntime
import pytest

import models

torch = pytest.importorskip("torch")

GRAPH = """
<ir_version: 10, opset_import: ["" : 21]>
g (float[1, 6, 8] x, int64[2] rows) => (float[N] y, int64[M] z, int64[3] shape)
<int64[1] axis = {0}, int64[1] one = {1}, int64[1] five = {5}, int64[2] zero_minus = {0, -1},
 float low = {-0.5}, float half = {0.5}, int64 limit = {9}, int64 step = {1}, int64 start = {0}>
{
  part = Slice (x, one, five, one)
  turned = Transpose <perm = [0, 2, 1]> (part)
  clipped = Clip (turned, low)
  scaled = Mul (clipped, half)
  picked = Gather <axis = 1> (scaled, rows)
  shape = Shape (picked)
  wide = Expand (picked, shape)
  known = IsNaN (wide)
  chosen = Where (known, half, wide)
  flat = Reshape (chosen, zero_minus)
  y = Squeeze (flat, axis)
  range = Range (start, limit, step)
  pairs = Unsqueeze (rows, one)
  z = GatherND (range, pairs)
}
"""


def translated(path: Path, arrays: dict[str, np.ndarray]) -> list[np.ndarray]:
    from benchmarks.torch_graph import TorchGraph

    tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
    program = torch.export.export(TorchGraph(path, tensors).eval(), tuple(tensors.values()))
    with torch.no_grad():
        return [value.numpy() for value in program.module()(*tensors.values())]


def assert_equal_to_onnx_runtime(path: Path, arrays: dict[str, np.ndarray]) -> None:
    expected = onnxruntime.InferenceSession(str(path)).run(None, arrays)
    for actual, wanted in zip(translated(path, arrays), expected, strict=True):
        np.testing.assert_allclose(actual, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["mnist_cnn", "ds_cnn", "resnet_8", "fc_autoencoder", "bert_384"])
def test_models(name: str) -> None:
    assert_equal_to_onnx_runtime(models.path(name), models.inputs(name))


def test_shapes_and_indices(tmp_path: Path) -> None:
    model = tmp_path / "model.onnx"
    model.write_bytes(onnx.parser.parse_model(GRAPH).SerializeToString())
    x = np.random.default_rng(0).standard_normal((1, 6, 8), np.float32)
    assert_equal_to_onnx_runtime(model, {"x": x, "rows": np.array([7, 2])})


def test_ops_without_a_translation_are_named(tmp_path: Path) -> None:
    model = tmp_path / "model.onnx"
    text = '<ir_version: 10, opset_import: ["" : 21]> g (float[2] x) => (float[2] y) { y = Selu (x) }'
    model.write_bytes(onnx.parser.parse_model(text).SerializeToString())
    with pytest.raises(NotImplementedError, match="Selu has no translation to PyTorch"):
        translated(model, {"x": np.ones(2, np.float32)})

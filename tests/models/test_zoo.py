"""The model generators: valid, deterministic, of the published sizes, with sane and input-dependent outputs."""

from __future__ import annotations

import functools

import numpy as np
import onnx
import onnxruntime
import pytest

import models
from models.facts import count_macs, count_parameters
from models.zoo import serialize

# Parameters as the source publishes them; MLPerf Tiny counts BatchNorm's running statistics, PyTorch does not.
PUBLISHED_PARAMETERS = {
    "mnist_cnn": (5_994, False),
    "mobilenet_v1_025": (221_794, True),
    "resnet_8": (78_666, True),
    "ds_cnn": (24_908, True),
    "fc_autoencoder": (269_992, True),
    "mobilenet_v2": (3_504_872, False),
    "resnet_50": (25_557_032, False),
    "bert_384": (22_565_376, False),
    "matmul_1024": (1_048_576, False),
}
# Millions of multiply-accumulates.
PUBLISHED_MACS = {
    "mobilenet_v1_025": 7.49,
    "resnet_8": 12.5,
    "ds_cnn": 2.66,
    "fc_autoencoder": 0.264,
    "mobilenet_v2": 300.8,
    "resnet_50": 4089.2,
    "matmul_1024": 1073.7,
}


@functools.cache
def built(name: str) -> onnx.ModelProto:
    return models.build(name)


def run(name: str, seed: int) -> list[np.ndarray]:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(serialize(built(name)), options, providers=["CPUExecutionProvider"])
    return session.run(None, models.inputs(name, seed))


@pytest.mark.parametrize("name", models.GENERATED)
def test_model_is_valid(name: str) -> None:
    onnx.checker.check_model(built(name), full_check=True)


@pytest.mark.parametrize("name", models.GENERATED)
def test_bytes_are_deterministic(name: str) -> None:
    assert serialize(models.build(name)) == serialize(built(name))


@pytest.mark.parametrize("name", models.GENERATED)
def test_parameters_are_as_published(name: str) -> None:
    count, with_statistics = PUBLISHED_PARAMETERS[name]
    assert count_parameters(built(name), with_statistics=with_statistics) == count


@pytest.mark.parametrize("name", sorted(PUBLISHED_MACS))
def test_macs_are_as_published(name: str) -> None:
    assert count_macs(built(name)) / 1e6 == pytest.approx(PUBLISHED_MACS[name], rel=2e-3)


@pytest.mark.parametrize("name", models.GENERATED)
def test_outputs_are_finite_and_depend_on_the_input(name: str) -> None:
    for first, second in zip(run(name, 0), run(name, 1), strict=True):
        assert np.isfinite(first).all() and np.isfinite(second).all()
        assert 1e-3 < np.abs(first).max() < 100
        # Far above the tolerance that results are compared with (1e-4 of the maximum).
        assert np.abs(first - second).max() > 5e-3 * np.abs(first).max()


@pytest.mark.parametrize("name", ["mobilenet_v2", "resnet_50", "ds_cnn"])
def test_batch_norms_are_not_folded(name: str) -> None:
    assert any(node.op_type == "BatchNormalization" for node in built(name).graph.node)


def test_node_names_are_unique() -> None:
    for name in models.GENERATED:
        names = [node.name for node in built(name).graph.node]
        assert len(set(names)) == len(names) and all(names)


def test_inputs_are_seeded() -> None:
    first, again, other = (models.inputs("bert_384", seed) for seed in (3, 3, 4))
    assert all(np.array_equal(first[key], again[key]) for key in first)
    assert not np.array_equal(first["input_ids"], other["input_ids"])
    mask = first["attention_mask"]
    assert set(np.unique(mask)) <= {0, 1} and (np.diff(mask[0]) <= 0).all()


def test_light_models_come_with_inputs_and_outputs() -> None:
    from models.light import light_expected

    for name in models.LIGHT:
        assert models.path(name).is_file()
        (expected,) = light_expected(name)
        assert expected.size == 1000
        assert all(value.dtype == np.float32 for value in models.inputs(name).values())


def test_light_squeezenet_gives_its_shipped_output() -> None:
    from models.light import light_expected

    session = onnxruntime.InferenceSession(str(models.path("light_squeezenet")), providers=["CPUExecutionProvider"])
    actual = session.run(None, models.inputs("light_squeezenet"))[0]
    np.testing.assert_allclose(actual, light_expected("light_squeezenet")[0], rtol=1e-3, atol=1e-7)


def test_path_writes_the_model_once(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("RILLET_CACHE", str(tmp_path))
    path = models.path("mnist_cnn")
    assert path.is_relative_to(tmp_path) and path.read_bytes() == serialize(built("mnist_cnn"))
    before = path.stat().st_mtime_ns
    assert models.path("mnist_cnn") == path and path.stat().st_mtime_ns == before
    assert [entry.name for entry in path.parent.iterdir()] == ["mnist_cnn.onnx"]


def test_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(ValueError, match="unknown model 'nope'; known are mnist_cnn"):
        models.build("nope")


def test_generate_command(tmp_path, capsys) -> None:
    from models.generate import main

    assert main(["--out", str(tmp_path / "new"), "mnist_cnn"]) == 0
    assert onnx.load(tmp_path / "new" / "mnist_cnn.onnx").graph.name == "mnist_cnn"
    assert "0.006 M parameters" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["--out", str(tmp_path), "nope"])
    assert "unknown model nope" in capsys.readouterr().err

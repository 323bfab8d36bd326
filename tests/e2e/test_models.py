"""Whole models: each of the zoo against ONNX Runtime and shipped outputs; stable over calls and threads."""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import models
import rillet
from models import compare


@pytest.mark.parametrize("name", models.NAMES)
def test_model_agrees_with_its_oracles(name):
    ratios = dict(compare.compare(name, (1, 2)))
    assert ratios
    assert max(ratios.values()) <= 1, ratios


@pytest.mark.parametrize("name", ["mobilenet_v2", "bert_384", "silero_vad_step"])
def test_results_do_not_change_between_calls_or_threads(name):
    module = rillet.compile(str(models.path(name)), threads=2)
    inputs = models.inputs(name, seed=3)
    first = module.run(inputs)
    with ThreadPoolExecutor(4) as pool:
        for again in pool.map(lambda _: module.run(inputs), range(8)):
            for output, array in again.items():
                np.testing.assert_array_equal(array, first[output], err_msg=output)


@pytest.mark.parametrize("threads", [1, 2])
def test_command_line_gives_the_same_result_as_python(tmp_path, threads):
    model = models.path("mnist_cnn")
    (name, x), *_ = models.inputs("mnist_cnn", seed=5).items()
    np.save(tmp_path / "x.npy", x)
    artifact = tmp_path / "mnist.rlm"
    cli("compile", model, "-o", artifact)
    facts = json.loads(
        cli(
            "run",
            artifact,
            "--input",
            f"{name}={tmp_path / 'x.npy'}",
            "--output",
            tmp_path,
            "--json",
            "--threads",
            threads,
        )
    )
    expected = rillet.compile(str(model))(x)
    (output,) = facts["outputs"]
    np.testing.assert_array_equal(np.load(tmp_path / f"{output}.npy"), expected)


def cli(*arguments: object) -> str:
    command = [sys.executable, "-m", "rillet.cli", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout

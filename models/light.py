"""The nine "light" models that the ``onnx`` package ships: real architectures whose weights are ConstantOfShape nodes.

Their inputs are not shipped; they are the ramp that onnx's backend tests use, ``arange(n) / n``. Expected outputs are.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import onnx
import onnx.backend.test
from onnx import numpy_helper

_FOLDER = Path(onnx.backend.test.__file__).parent / "data" / "light"

LIGHT = tuple(
    f"light_{name}"
    for name in (
        "bvlc_alexnet", "densenet121", "inception_v1", "inception_v2", "resnet50", "shufflenet", "squeezenet", "vgg19",
        "zfnet512",
    )
)  # fmt: skip


def light_path(name: str) -> Path:
    """The model's file inside the installed ``onnx`` package."""
    return _FOLDER / f"{name}.onnx"


def light_inputs(name: str, seed: int = 0) -> dict[str, np.ndarray]:
    """Seed 0: the ramp that the shipped outputs belong to; any other seed: uniform noise in [0, 1)."""
    graph = onnx.load(light_path(name)).graph
    stored = {tensor.name for tensor in graph.initializer}
    values = {}
    for info in graph.input:
        if info.name in stored:
            continue
        shape = [dim.dim_value for dim in info.type.tensor_type.shape.dim]
        count = math.prod(shape)
        ramp = (np.arange(count).reshape(shape) / count).astype(np.float32)
        values[info.name] = ramp if seed == 0 else np.random.default_rng(seed).random(shape, np.float32)
    return values


def light_expected(name: str) -> list[np.ndarray]:
    """The shipped outputs for `light_inputs(name, 0)`, in graph order."""
    count = len(onnx.load(light_path(name)).graph.output)
    arrays = []
    for index in range(count):
        tensor = onnx.TensorProto.FromString((_FOLDER / f"{name}_output_{index}.pb").read_bytes())
        arrays.append(numpy_helper.to_array(tensor))
    return arrays

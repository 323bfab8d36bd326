"""Quantized versions of the zoo's models, made by ``onnxruntime.quantization`` and kept beside them in the cache.

Static quantization is calibrated on two seeded inputs after ONNX Runtime's own preparation (``quant_pre_process``,
which folds batch normalizations); weights are int8, with one scale for each channel.
"""

from __future__ import annotations

import hashlib
import logging
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

import numpy as np

import models

_CALIBRATION_SEEDS = (1, 2)


def path(name: str, scheme: str) -> Path:
    """A file with the quantized model, written on first use. Raises `ValueError` for an unknown scheme or name."""
    if scheme not in SCHEMES:
        raise ValueError(f"{name}:{scheme}: unknown scheme '{scheme}'; known are {', '.join(SCHEMES)}")
    source = models.path(name)
    target = source.parent / f"quantized-{_digest()}" / f"{name}-{scheme}.onnx"
    if target.is_file():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{name}-") as folder:
        made = Path(folder) / "model.onnx"
        _quietly(SCHEMES[scheme], name, source, made)
        os.replace(made, target)
    return target


def _digest() -> str:
    """Of what decides the files' content: this file and the quantizer's version."""
    import onnxruntime

    return hashlib.sha256(Path(__file__).read_bytes() + onnxruntime.__version__.encode()).hexdigest()[:16]


def _quietly(make: Callable[[str, Path, Path], None], name: str, source: Path, target: Path) -> None:
    """The quantizer logs advice about preparation and opsets."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        make(name, source, target)
    finally:
        logging.disable(before)


def _static(name: str, source: Path, target: Path, activations: str, form: str) -> None:
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    class Inputs(CalibrationDataReader):
        def __init__(self) -> None:
            self._arrays: Iterator[Mapping[str, np.ndarray]] = (models.inputs(name, s) for s in _CALIBRATION_SEEDS)

        def get_next(self) -> Mapping[str, np.ndarray] | None:
            return next(self._arrays, None)

    prepared = target.with_name("prepared.onnx")
    quant_pre_process(str(source), str(prepared), skip_symbolic_shape=True)
    quantize_static(
        str(prepared),
        str(target),
        Inputs(),
        quant_format=QuantFormat[form],
        activation_type=QuantType[activations],
        weight_type=QuantType.QInt8,
        per_channel=True,
    )


def _dynamic(name: str, source: Path, target: Path) -> None:
    from onnxruntime.quantization import QuantType, quantize_dynamic

    quantize_dynamic(str(source), str(target), weight_type=QuantType.QInt8)


SCHEMES: dict[str, Callable[[str, Path, Path], None]] = {
    "s8": partial(_static, activations="QInt8", form="QDQ"),
    "u8": partial(_static, activations="QUInt8", form="QDQ"),
    "qop": partial(_static, activations="QUInt8", form="QOperator"),
    "dynamic": _dynamic,
}
"""How activations are quantized: to int8 or uint8 between ``QuantizeLinear`` and ``DequantizeLinear``, to uint8 with
ONNX Runtime's operators for quantized tensors, or in each call.
"""

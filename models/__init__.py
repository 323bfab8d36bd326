"""The models that Rillet is tested and measured on: reference architectures generated here, pretrained ones fetched.

    models.NAMES                     every name, generated ones first
    models.build("mobilenet_v2")     → onnx.ModelProto (deterministic bytes)
    models.inputs("mobilenet_v2")    → {"x": array}, seeded
    models.path("mobilenet_v2")      → a file in the cache, written on first use

Fetched models (`models.PRETRAINED`) need the network once; see `models.fetch`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from models.zoo import GENERATED, LIGHT, NAMES, PRETRAINED, build, inputs, path

__all__ = ["GENERATED", "LIGHT", "NAMES", "PRETRAINED", "build", "inputs", "path"]


def __getattr__(name: str) -> Any:
    """Import the zoo when something of it is used: ``python -m models.fetch`` runs a module that the zoo imports."""
    if name not in __all__:
        raise AttributeError(f"module 'models' has no attribute '{name}'")
    from models import zoo

    return getattr(zoo, name)

"""ONNX Runtime's interface on Rillet: ``import rillet.onnxruntime as ort``, and code written for it runs.

It covers what inference on a CPU uses: sessions, their options and metadata, IO binding and OrtValues. What has no
meaning here (execution providers, graph optimization levels, memory arenas) is accepted and does nothing; a session
says so in the log ``rillet.onnxruntime`` where it may matter. ``install()`` makes a package that cannot be edited use
this module. The interface is described at https://onnxruntime.ai/docs/api/python/api_summary.html.
"""

from __future__ import annotations

import sys

from rillet.onnxruntime.options import (
    ExecutionMode,
    ExecutionOrder,
    GraphOptimizationLevel,
    RunOptions,
    SessionOptions,
    set_default_logger_severity,
    set_default_logger_verbosity,
)
from rillet.onnxruntime.session import InferenceSession
from rillet.onnxruntime.signature import ModelMetadata, NodeArg
from rillet.onnxruntime.values import IOBinding, OrtValue

# The version of ONNX Runtime whose interface this is: packages compare it with the one that they need.
__version__ = "1.32.0"

_CPU = "CPUExecutionProvider"

__all__ = [
    "ExecutionMode",
    "ExecutionOrder",
    "GraphOptimizationLevel",
    "IOBinding",
    "InferenceSession",
    "ModelMetadata",
    "NodeArg",
    "OrtValue",
    "RunOptions",
    "SessionOptions",
    "disable_telemetry_events",
    "enable_telemetry_events",
    "get_all_providers",
    "get_available_providers",
    "get_device",
    "get_version_string",
    "install",
    "set_default_logger_severity",
    "set_default_logger_verbosity",
]


def get_available_providers() -> list[str]:
    """The execution providers there are: the CPU's."""
    return [_CPU]


def get_all_providers() -> list[str]:
    """The same as ``get_available_providers``."""
    return [_CPU]


def get_device() -> str:
    """``"CPU"``."""
    return "CPU"


def get_version_string() -> str:
    """The version of ONNX Runtime whose interface this is."""
    return __version__


def enable_telemetry_events() -> None:
    """Does nothing: Rillet sends nothing anywhere."""


def disable_telemetry_events() -> None:
    """Does nothing: Rillet sends nothing anywhere."""


def install() -> None:
    """Let ``import onnxruntime`` give this module in this process, for packages that cannot be edited.

    Raises ImportError when the real ONNX Runtime has been imported already: what holds it would go on using it.
    """
    from rillet.onnxruntime import capi

    present = sys.modules.get("onnxruntime")
    if present is not None and present is not sys.modules[__name__]:
        raise ImportError("onnxruntime has been imported already; call rillet.onnxruntime.install() before it is")
    sys.modules["onnxruntime"] = sys.modules[__name__]
    sys.modules["onnxruntime.capi"] = capi
    for name in ("onnxruntime_pybind11_state", "_pybind_state", "onnxruntime_inference_collection"):
        sys.modules[f"onnxruntime.capi.{name}"] = getattr(capi, name)

"""The same as ``onnxruntime_pybind11_state``, by its other name."""

from rillet.onnxruntime.capi.onnxruntime_pybind11_state import *  # noqa: F403

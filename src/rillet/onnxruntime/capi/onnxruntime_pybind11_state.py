"""ONNX Runtime's exceptions by the names of Rillet's, so that code that catches them does, and its types."""

from __future__ import annotations

from rillet.errors import CompileError, RilletError, RunError, UnsupportedError
from rillet.onnxruntime.options import ExecutionMode, GraphOptimizationLevel, RunOptions, SessionOptions
from rillet.onnxruntime.signature import ModelMetadata, NodeArg
from rillet.onnxruntime.values import OrtValue

Fail = RilletError
InvalidArgument = RuntimeException = RunError
InvalidProtobuf = InvalidGraph = NoModel = NoSuchFile = CompileError
NotImplemented = UnsupportedError

__all__ = [
    "ExecutionMode",
    "Fail",
    "GraphOptimizationLevel",
    "InvalidArgument",
    "InvalidGraph",
    "InvalidProtobuf",
    "ModelMetadata",
    "NoModel",
    "NoSuchFile",
    "NodeArg",
    "NotImplemented",
    "OrtValue",
    "RunOptions",
    "RuntimeException",
    "SessionOptions",
]

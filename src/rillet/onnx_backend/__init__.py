"""The ONNX Backend API (``onnx.backend.base``): ``prepare`` compiles a model, ``run`` computes its outputs.

    import rillet.onnx_backend as backend
    outputs = backend.prepare(model).run([x, y])

Keyword arguments of ``prepare`` are those of ``rillet.compile`` (``target``, ``threads``, ``jobs``, ``cache``,
``inputs``). A model in which the value of an input shapes the code (the axes of a reduction, say) is compiled for
that value when it is first called with it; see ``rillet.onnx_backend.specialize``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx.backend.base import Backend, BackendRep, Device, DeviceType

from rillet.errors import CompileError, RilletError, RunError
from rillet.onnx_backend.specialize import SpecializedModel, compile_or_specialize

__all__ = [
    "RilletBackend",
    "RilletBackendRep",
    "is_compatible",
    "prepare",
    "run_model",
    "run_node",
    "supports_device",
]


class RilletBackendRep(BackendRep):
    """A compiled model. ``run`` may be called by several threads."""

    def __init__(self, model: SpecializedModel):
        self.model = model

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """The outputs, in the model's order, for inputs by position or by name, or for a single input.

        Raises RunError when they do not fit the model and UnsupportedError when their value selects something that
        cannot be compiled.
        """
        if kwargs:
            raise RunError(f"run takes no argument '{next(iter(kwargs))}'; give the options to prepare")
        if isinstance(inputs, Mapping):
            return self.model.call((), inputs)
        if isinstance(inputs, np.ndarray | np.generic | int | float) or not isinstance(inputs, Sequence):
            inputs = [inputs]
        return self.model.call(tuple(inputs), {})


class RilletBackend(Backend):
    """Rillet as an ONNX backend, for the CPU."""

    @classmethod
    def is_compatible(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> bool:
        """Whether the model compiles for this device."""
        try:
            cls.prepare(model, device, **kwargs)
        except RilletError:
            return False
        return True

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> RilletBackendRep:
        """Compile ``model``. Raises CompileError when it is invalid and UnsupportedError when it cannot be compiled."""
        if not cls.supports_device(device):
            raise CompileError(f"device '{device}' is not supported; use 'CPU'")
        try:
            super().prepare(model, device)
        except onnx.checker.ValidationError as error:
            raise CompileError(f"the model is not valid ONNX: {error}") from error
        return RilletBackendRep(compile_or_specialize(model, **kwargs))

    @classmethod
    def run_model(cls, model: onnx.ModelProto, inputs: Any, device: str = "CPU", **kwargs: Any) -> tuple[Any, ...]:
        """Compile ``model`` and run it once."""
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def run_node(
        cls,
        node: onnx.NodeProto,
        inputs: Any,
        device: str = "CPU",
        outputs_info: Sequence[tuple[np.dtype, tuple[int, ...]]] | None = None,
        **kwargs: Any,
    ) -> tuple[Any, ...]:
        """Run one node on arrays: ``inputs`` has one for each of its non-empty inputs.

        ``opset_version`` names the opset (default: the newest); other keyword arguments go to ``prepare``. Raises
        CompileError for a device other than the CPU and RunError for another number of inputs.
        """
        opset = kwargs.pop("opset_version", onnx.defs.onnx_opset_version())
        names = list(dict.fromkeys(name for name in node.input if name))
        arrays = [np.asarray(array) for array in inputs]
        if len(arrays) != len(names):
            raise RunError(f"{node.op_type} has {len(names)} inputs, got {len(arrays)}")
        graph = onnx.helper.make_graph(
            [node],
            "node",
            [
                onnx.helper.make_tensor_value_info(n, onnx.helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
                for n, a in zip(names, arrays, strict=True)
            ],
            [onnx.helper.make_empty_tensor_value_info(name) for name in node.output if name],
        )
        if not cls.supports_device(device):
            raise CompileError(f"device '{device}' is not supported; use 'CPU'")
        # Not through prepare: the node's outputs have no declared shapes, which a valid model must have.
        model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid(node.domain, opset)])
        return RilletBackendRep(compile_or_specialize(model, **kwargs)).run(arrays)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Whether ``device`` is a CPU."""
        try:
            return Device(device).type == DeviceType.CPU
        except (AttributeError, ValueError):
            return False


is_compatible = RilletBackend.is_compatible
prepare = RilletBackend.prepare
run_model = RilletBackend.run_model
run_node = RilletBackend.run_node
supports_device = RilletBackend.supports_device

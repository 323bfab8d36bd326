"""Values outside of arrays: OrtValue, and the IO binding of a session."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from rillet.onnxruntime.signature import element_code, numpy_type, tensor_type

# Computes the outputs of these names from inputs by name.
Run = Callable[[list[str], Mapping[str, Any]], list[Any]]


class OrtValue:
    """A tensor, or a sequence of tensors, in this process's memory."""

    def __init__(self, value: Any):
        self._value = value

    @staticmethod
    def ortvalue_from_numpy(
        numpy_obj: np.ndarray, /, device_type: str = "cpu", device_id: int = 0, vendor_id: int = -1
    ) -> OrtValue:
        """The value of an array, whose memory it shares. Raises ValueError for a device other than the CPU."""
        check_device(device_type)
        return OrtValue(np.asarray(numpy_obj))

    @staticmethod
    def ortvalue_from_shape_and_type(
        shape: Sequence[int],
        element_type: Any,
        device_type: str = "cpu",
        device_id: int = 0,
        vendor_id: int = -1,
        memory_info: None = None,
    ) -> OrtValue:
        """A tensor that is not filled. ``element_type``: a numpy type, or ONNX's number for one.

        Raises ValueError for a device other than the CPU.
        """
        check_device(device_type)
        return OrtValue(np.empty(tuple(shape), numpy_type(element_type)))

    @staticmethod
    def from_dlpack(value: Any, is_bool_tensor: bool = False) -> OrtValue:
        """The tensor of an object that speaks DLPack, or of a capsule's holder, without a copy."""
        array = np.from_dlpack(value)
        return OrtValue(array.view(np.bool_) if is_bool_tensor else array)

    def numpy(self) -> np.ndarray:
        """The array. It shares the value's memory."""
        return self._value

    def shape(self) -> list[int]:
        """The sizes."""
        return list(self._value.shape)

    def data_type(self) -> str:
        """``tensor(float)`` say."""
        if isinstance(self._value, np.ndarray):
            return tensor_type(self._value.dtype)
        return f"seq({tensor_type(self._value[0].dtype)})" if self._value else "seq()"

    def element_type(self) -> int:
        """ONNX's number for the element type."""
        return element_code(self._value.dtype)

    def device_name(self) -> str:
        """``"cpu"``."""
        return "cpu"

    def data_ptr(self) -> int:
        """The address of the first element."""
        return self._value.ctypes.data

    def tensor_size_in_bytes(self) -> int:
        """The bytes of all elements."""
        return self._value.nbytes

    def has_value(self) -> bool:
        """Whether this is not an absent optional."""
        return self._value is not None

    def is_tensor(self) -> bool:
        """Whether this is a tensor."""
        return isinstance(self._value, np.ndarray)

    def is_tensor_sequence(self) -> bool:
        """Whether this is a sequence of tensors."""
        return isinstance(self._value, list)

    def is_sparse_tensor(self) -> bool:
        """False: there are none."""
        return False

    def update_inplace(self, np_arr: np.ndarray) -> None:
        """Write an array of the same shape and type into the value."""
        if np_arr.shape != self._value.shape or np_arr.dtype != self._value.dtype:
            raise ValueError(f"expected {self.data_type()} of {self.shape()}, got {np_arr.dtype} of {np_arr.shape}")
        np.copyto(self._value, np_arr)

    def __dlpack__(self, **arguments: Any) -> Any:
        return self._value.__dlpack__(**arguments)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._value.__dlpack_device__()


class IOBinding:
    """Inputs and outputs of a session that are bound to memory before it runs."""

    def __init__(self, session: Any):
        self._outputs_of_model: list[str] = [argument.name for argument in session.get_outputs()]
        self._inputs: dict[str, Any] = {}
        self._outputs: dict[str, np.ndarray | None] = {}
        self._results: list[Any] = []

    def bind_cpu_input(self, name: str, arr_on_cpu: np.ndarray) -> None:
        """Bind an input to an array."""
        self._inputs[name] = arr_on_cpu

    def bind_input(
        self, name: str, device_type: str, device_id: int, element_type: Any, shape: Sequence[int], buffer_ptr: int
    ) -> None:
        """Bind an input to memory that the caller keeps. Raises ValueError for a device other than the CPU."""
        check_device(device_type)
        self._inputs[name] = _array_at(buffer_ptr, shape, element_type)

    def bind_ortvalue_input(self, name: str, ortvalue: OrtValue) -> None:
        """Bind an input to a value."""
        self._inputs[name] = ortvalue.numpy()

    def bind_output(
        self,
        name: str,
        device_type: str = "cpu",
        device_id: int = 0,
        element_type: Any = None,
        shape: Sequence[int] | None = None,
        buffer_ptr: int | None = None,
    ) -> None:
        """Bind an output to memory that the caller keeps, or without ``buffer_ptr`` to memory made by the run.

        Raises ValueError for a device other than the CPU, and for memory without its type and shape.
        """
        check_device(device_type)
        if buffer_ptr is None:
            self._outputs[name] = None
            return
        if element_type is None or shape is None:
            raise ValueError(f"output '{name}': memory at an address needs element_type and shape")
        self._outputs[name] = _array_at(buffer_ptr, shape, element_type)

    def bind_ortvalue_output(self, name: str, ortvalue: OrtValue) -> None:
        """Bind an output to a value, which is overwritten."""
        self._outputs[name] = ortvalue.numpy()

    def clear_binding_inputs(self) -> None:
        """Forget the inputs."""
        self._inputs.clear()

    def clear_binding_outputs(self) -> None:
        """Forget the outputs."""
        self._outputs.clear()
        self._results.clear()

    def synchronize_inputs(self) -> None:
        """Does nothing: inputs are in the CPU's memory."""

    def synchronize_outputs(self) -> None:
        """Does nothing: outputs are complete when a run returns."""

    def get_outputs(self) -> list[OrtValue]:
        """The last run's outputs, in the order in which they were bound."""
        return [OrtValue(result) for result in self._results]

    def copy_outputs_to_cpu(self) -> list[Any]:
        """The last run's outputs as arrays, in the order in which they were bound."""
        return list(self._results)

    def run(self, run: Run) -> None:
        """Compute the bound outputs, or all when none is bound, and write those that have memory into it.

        Raises ValueError when a result does not fit the memory that it is bound to.
        """
        names = list(self._outputs) or self._outputs_of_model
        results = run(names, self._inputs)
        for place, (name, result) in enumerate(zip(names, results, strict=True)):
            bound = self._outputs.get(name)
            if bound is None:
                continue
            if bound.shape != result.shape or bound.dtype != result.dtype:
                raise ValueError(
                    f"output '{name}' is {result.dtype} of shape {result.shape}, but bound to memory of "
                    f"{bound.dtype} of shape {bound.shape}"
                )
            np.copyto(bound, result)
            results[place] = bound
        self._results = results


def check_device(device_type: str) -> None:
    """Raises ValueError unless the device is the CPU."""
    if device_type.lower() != "cpu":
        raise ValueError(f"device '{device_type}' is not supported: Rillet's values are in the CPU's memory; use 'cpu'")


def _array_at(address: int, shape: Sequence[int], element_type: Any) -> np.ndarray:
    dtype = numpy_type(element_type)
    size = math.prod(shape) * dtype.itemsize
    memory = np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(address))
    return memory.view(dtype).reshape(tuple(shape))

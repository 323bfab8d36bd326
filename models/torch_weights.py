"""Reads a PyTorch state dict in the format before zip archives, without PyTorch and without running code from the file.

The format (``torch.save`` up to 1.5) is a row of pickles: a magic number, a protocol version, facts of the writing
machine, the state dict itself with storages as persistent ids, and the list of storage keys; then for each key an
int64 element count followed by the raw elements.
"""

from __future__ import annotations

import collections
import pickle
import struct
from pathlib import Path
from typing import IO, Any

import numpy as np

_MAGIC = 0x1950A86A20F9469CFC6C
_PROTOCOL = 1001
_STORAGE_DTYPES = {"FloatStorage": "<f4", "DoubleStorage": "<f8", "LongStorage": "<i8", "IntStorage": "<i4"}


class _TensorRef:
    """A tensor whose storage has not been read yet."""

    def __init__(self, storage: tuple[str, str], offset: int, shape: tuple[int, ...], *rest: Any) -> None:
        self.storage, self.offset, self.shape = storage, offset, shape
        self.strides: tuple[int, ...] = rest[0]


class _StateDictUnpickler(pickle.Unpickler):
    """Knows the four names that a state dict needs and refuses every other one."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("collections", "OrderedDict"):
            return collections.OrderedDict
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return _TensorRef
        if module == "torch" and name in _STORAGE_DTYPES:
            return name
        raise pickle.UnpicklingError(f"the file refers to {module}.{name}; a state dict of plain tensors was expected")

    def persistent_load(self, pid: Any) -> tuple[str, str]:
        kind, storage, key = pid[0], pid[1], pid[2]
        if kind != "storage":
            raise pickle.UnpicklingError(
                f"the file holds a persistent object of kind {kind!r}; only storages are supported"
            )
        return storage, key


def _read_pickle(file: IO[bytes]) -> Any:
    return _StateDictUnpickler(file).load()


def read_state_dict(path: Path) -> dict[str, np.ndarray]:
    """Parameter and buffer name → array, in the file's order.

    Raises `ValueError` when the file is not such a state dict (wrong magic number, foreign classes, truncated
    storages).
    """
    try:
        with path.open("rb") as file:
            if _read_pickle(file) != _MAGIC or _read_pickle(file) != _PROTOCOL:
                raise ValueError(f"{path}: not a PyTorch file of the pickle format (magic number or protocol differs)")
            if not _read_pickle(file).get("little_endian", False):
                raise ValueError(f"{path}: written on a big-endian machine")
            refs = _read_pickle(file)
            keys = _read_pickle(file)
            dtypes = {ref.storage[1]: _STORAGE_DTYPES[ref.storage[0]] for ref in refs.values()}
            storages = {key: _read_storage(file, np.dtype(dtypes[key])) for key in keys}
    except (pickle.UnpicklingError, EOFError, struct.error, KeyError, AttributeError, TypeError) as error:
        raise ValueError(f"{path}: not a readable PyTorch state dict: {error}") from error
    return {name: _view(storages[ref.storage[1]], ref) for name, ref in refs.items()}


def _read_storage(file: IO[bytes], dtype: np.dtype) -> np.ndarray:
    (count,) = struct.unpack("<q", file.read(8))
    data = file.read(count * dtype.itemsize)
    if len(data) != count * dtype.itemsize:
        raise EOFError("the file ends inside a storage")
    return np.frombuffer(data, dtype)


def _view(storage: np.ndarray, ref: _TensorRef) -> np.ndarray:
    last = ref.offset + sum((size - 1) * stride for size, stride in zip(ref.shape, ref.strides, strict=True))
    if 0 in ref.shape or min((ref.offset, *ref.strides)) < 0 or last >= storage.size:
        raise ValueError(f"a tensor of shape {ref.shape} does not lie inside its storage of {storage.size} elements")
    steps = [stride * storage.itemsize for stride in ref.strides]
    return np.lib.stride_tricks.as_strided(storage[ref.offset :], ref.shape, steps, writeable=False)

"""The content of a module file, read without loading it: it may be for another machine."""

from __future__ import annotations

import mmap
import os
from dataclasses import dataclass
from typing import Any

from rillet.errors import LoadError
from rillet.runtime import _native, maps, strings
from rillet.runtime.specs import TensorSpec, tensor_spec
from rillet.support.files import path_text


@dataclass(frozen=True)
class Facts:
    """``libraries``: target, arch, format, features, entries, bytes, and whether this machine would choose it
    (``selected``). ``devices``: name, driver, ordinals of its ``libraries``. ``stats``: figures from compiling."""

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    libraries: list[dict[str, Any]]
    devices: list[dict[str, Any]]
    stats: dict[str, int]


def read_facts(path: str | os.PathLike[str], *, verify: bool = False) -> Facts:
    """The facts of the module file at ``path``.

    ``verify`` compares all code and constants with their checksums, which reads the whole file. Raises ``LoadError``
    when the file is missing or damaged.
    """
    name = path_text(path, "cannot read", LoadError)
    try:
        with open(name, "rb") as file:
            empty = os.fstat(file.fileno()).st_size == 0
            data = b"" if empty else mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError) as error:  # ValueError: of a file that cannot be mapped
        raise LoadError(f"cannot read {name!r}: {getattr(error, 'strerror', None) or error}") from error
    try:
        facts = _native.inspect(data, verify)
    except LoadError as error:
        raise LoadError(f"'{name}': {error}") from None
    inputs, outputs = ([], []) if not facts["exports"] else facts["exports"][0][1:]
    return Facts(
        inputs=tuple(strings.grouped([tensor_spec(*spec) for spec in inputs])),
        outputs=maps.grouped(strings.grouped([tensor_spec(*spec) for spec in outputs])),
        libraries=facts["libraries"],
        devices=facts["devices"],
        stats=facts["stats"],
    )

"""The runtime: loads module files and calls them (runtime/src/python)."""

import os
from typing import Any, final

import numpy as np

@final
class Module:
    """A loaded module file; its buffer is the file's bytes."""

    def bind(
        self, array_type: type, exports: tuple[tuple[tuple[np.dtype, ...], tuple[np.dtype, ...]], ...], /
    ) -> None: ...
    def facts(self) -> dict[str, Any]: ...
    def invoke(self, export: int, arrays: tuple[Any, ...], /) -> Any: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...

def load_path(path: str | os.PathLike[str], threads: int, /) -> Module: ...
def load_bytes(data: bytes | bytearray | memoryview, threads: int, /) -> Module: ...

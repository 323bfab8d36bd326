"""The backend of a target, as the code generator's driver sees it."""

from __future__ import annotations

from typing import Any

from rillet.codegen.backend import Backend
from rillet.errors import CompileError
from rillet.targets import Target
from rillet.targets.backends import BACKENDS


def backend_of(target: Target) -> Backend[Any, Any]:
    """The backend that a target names.

    Raises ``CompileError`` for an unknown one, with the names of the known ones, and for one that lacks a part of
    ``Backend``.
    """
    backend = BACKENDS.get(target.backend)
    if not isinstance(backend, Backend):
        raise CompileError(
            f"the backend '{target.backend}' lacks a part of 'rillet.codegen.backend.Backend': mend its package"
        )
    return backend

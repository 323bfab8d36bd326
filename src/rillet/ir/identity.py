"""Makes operations hash by what they are, so that dictionaries and sets can be keyed by them.

The bindings compare operations, values and blocks by identity, and hash values and blocks so. The hash of an operation,
though, is computed from its operands and attributes: it changes with them, and a dictionary then no longer finds an
entry that it holds. An identity as the key of each such collection would mend those that use it; the hash mends all.

Identity is the address of the operation, since an operation has any number of Python objects. As with values, an entry
for an erased operation has to go before another operation is made, which may get the address.
"""

from __future__ import annotations

import ctypes

from torch_mlir import ir

_address = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)
_CAPSULE = b"torch_mlir.ir.Operation._CAPIPtr"


def _hash(op: ir.Operation | ir.OpView) -> int:
    return hash(_address(op._CAPIPtr, _CAPSULE))


def hash_operations_by_identity() -> None:
    """Give operations and their views, which share a base, a hash that agrees with their ``==`` and never changes."""
    base = ir.Operation.__base__
    assert base is ir.OpView.__base__
    base.__hash__ = _hash

"""Which names of dimensions mean something, and names for dimensions that have none.

Dimensions of one name are one extent: programs rely on it, and the runtime checks it at each call. A placeholder, which
exporters write for "unknown", says nothing of the kind.
"""

from __future__ import annotations

import re
from collections.abc import Collection

# Words for "unknown", which exporters may number: unk__12 (tf2onnx), DynamicDimension.3 (paddle2onnx), None, dyn, ...
_PLACEHOLDER = re.compile(
    r"(any|none|null|nil|nan|unnamed|undef(ined)?|(dyn(amic)?|unk(nown)?)([\W_]*(axis|axes|dim(ension)?|shape|size))?)?"
    r"[\W_\d]*",
    re.IGNORECASE,
)


def is_placeholder(name: str) -> bool:
    """Whether a dimension of this name may differ from others of the same name.

    Names without a letter (``?``, ``-1``, ``*``, the empty one) and words for "unknown", numbered or not, say nothing.
    Anything else is a name: ``N``, ``batch``, ``2*seq + 1``.
    """
    return _PLACEHOLDER.fullmatch(name) is not None


def own_name(tensor: str, axis: int, written: Collection[str]) -> str:
    """A name for a dimension without one: ``TENSOR_AXIS``, primed where that is among those ``written`` for others."""
    name = f"{tensor}_{axis}"
    while name in written:
        name += "'"
    return name

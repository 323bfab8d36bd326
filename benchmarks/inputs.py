"""The arrays that a model is measured with, as a file in the folder its artifact goes to."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

_FILE = "inputs.npz"


def save(folder: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write the arrays, in order."""
    named: dict[str, Any] = dict(arrays)
    np.savez(folder / _FILE, **named)


def load(folder: Path) -> dict[str, np.ndarray]:
    """The arrays that `save` wrote, in the same order."""
    with np.load(folder / _FILE) as stored:
        return {name: stored[name] for name in stored.files}

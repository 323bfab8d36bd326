"""The compile cache: objects under a key of everything they were compiled from.

One file for each kernel, under ``$RILLET_CACHE`` (default: ``$XDG_CACHE_HOME/rillet`` or ``~/.cache/rillet``). The key
covers the kernel's text, the target, the options, the backend's version and the source of the code generator, so that a
stale object can never be picked up. Files appear by atomic rename.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rillet.codegen.backends import backend_of
from rillet.codegen.knobs import Choice
from rillet.codegen.result import CodegenOptions, CompiledKernel
from rillet.errors import SaveError
from rillet.support.files import write_atomically
from rillet.targets import Target


def default_directory() -> Path:
    """The folder for objects when the caller names none."""
    if explicit := os.environ.get("RILLET_CACHE"):
        return Path(explicit)
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "rillet"


def key(text: str, target: Target, options: CodegenOptions) -> str:
    """The cache key of one kernel."""
    facts = {"text": text, "target": dataclasses.asdict(target), "options": dataclasses.asdict(options)}
    digest = hashlib.sha256(f"{backend_of(target).version}\n{_source_fingerprint()}".encode())
    digest.update(json.dumps(facts, sort_keys=True).encode())
    return digest.hexdigest()


def read(path: Path) -> tuple[dict[str, Any], bytes] | None:
    """The facts and the content that ``write`` stored; None where the file is absent, unreadable or damaged."""
    try:
        header, _, body = path.read_bytes().partition(b"\n")
        facts = json.loads(header)
        digest = facts.pop("sha256")
        sound = _digest(facts, body) == digest
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
    return (facts, body) if sound else None


def write(path: Path, facts: Mapping[str, Any], content: bytes) -> None:
    """Store ``content`` and ``facts``, which JSON can hold, with their digest.

    A cache that cannot be written is not an error: its content can be compiled again.
    """
    header = json.dumps({**facts, "sha256": _digest(facts, content)}).encode()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, header + b"\n" + content, durable=False)
    except (OSError, SaveError):
        return


def _digest(facts: Mapping[str, Any], content: bytes) -> str:
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode())
    digest.update(content)
    return digest.hexdigest()


class ObjectCache:
    """Compiled kernels on disk. A damaged or unreadable file counts as absent."""

    def __init__(self, directory: Path):
        self.directory = directory / "objects"

    def get(self, key: str, kind: type[CompiledKernel]) -> CompiledKernel | None:
        """The kernel of this kind that is stored under ``key``, or None."""
        if (stored := read(self._path(key))) is None:
            return None
        facts, body = stored
        try:
            facts = {name: tuple(value) if isinstance(value, list) else value for name, value in facts.items()}
            if facts["choice"]:
                facts["choice"] = Choice.parse(facts["choice"])
            return kind(object=body, **facts)
        except (TypeError, KeyError, ValueError, AttributeError):
            return None

    def put(self, key: str, kernel: CompiledKernel) -> None:
        """Store ``kernel``, as ``write`` does."""
        facts = {f.name: getattr(kernel, f.name) for f in dataclasses.fields(kernel) if f.name != "object"}
        facts["choice"] = kernel.choice.given() if kernel.choice else None
        write(self._path(key), facts, kernel.object)

    def _path(self, key: str) -> Path:
        return self.directory / key[:2] / key[2:]


@functools.cache
def _source_fingerprint() -> str:
    digest = hashlib.sha256()
    for source in sorted(Path(__file__).parent.rglob("*.py")):
        digest.update(source.read_bytes())
    return digest.hexdigest()

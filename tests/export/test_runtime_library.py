"""The C runtime for a target is kept, and what is kept is checked."""

from __future__ import annotations

from pathlib import Path

import pytest

from rillet.export import objects, runtime_library
from rillet.targets import get


def test_a_damaged_copy_is_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Path] = []

    def compile_one(target: object, configuration: object, folder: Path) -> list[tuple[str, bytes]]:
        made.append(folder)
        return [("one.o", objects.data_object(b"content", "one", get("cortex-m4")))]

    monkeypatch.setattr(runtime_library, "_compile", compile_one)

    def build() -> bytes:
        return runtime_library.build(get("cortex-m4"), runtime_library.STATIC, tmp_path)

    library = build()
    assert build() == library and len(made) == 1
    (kept,) = tmp_path.iterdir()
    whole = kept.read_bytes()
    middle = len(whole) // 2
    damaged = [whole[:middle], b"", whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :], library]
    for count, content in enumerate(damaged, start=2):
        kept.write_bytes(content)
        assert build() == library and len(made) == count
        assert kept.read_bytes() == whole

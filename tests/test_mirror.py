"""The tests mirror ``src/rillet``: who looks for the tests of a package finds them where the package is."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.support.paths import ROOT

TESTS, SOURCE = ROOT / "tests", ROOT / "src" / "rillet"
# What no package is about: whole programs, what lies beside the package, and what holds for all of it.
OTHERS = {"benchmarks", "conformance", "docs", "e2e", "errors", "examples", "fuzz", "models"}
HELPERS = ("tests.support", "tests.conformance", "tests.fuzz")  # where modules lie that tests import


def _folders(root: Path, pattern: str) -> list[str]:
    return sorted({str(file.parent.relative_to(root)) for file in root.rglob(pattern)} - {"."})


@pytest.mark.parametrize("package", _folders(SOURCE, "__init__.py"))
def test_each_package_has_its_tests(package: str) -> None:
    assert any((TESTS / package).rglob("test_*.py")), f"src/rillet/{package} has no tests in tests/{package}"


@pytest.mark.parametrize("folder", _folders(TESTS, "test_*.py"))
def test_each_folder_has_its_package(folder: str) -> None:
    assert folder in OTHERS or (SOURCE / folder / "__init__.py").exists(), (
        f"tests/{folder}: src/rillet has no such folder"
    )


def test_tests_import_helpers_only() -> None:
    """What two files share is a helper: a test file that another imports would be collected twice."""
    for file in sorted(TESTS.rglob("*.py")):
        imports = [
            node.module or "" for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.ImportFrom)
        ]
        for module in (m for m in imports if m.split(".")[0] == "tests"):
            is_helper = module.startswith(HELPERS) and not module.rpartition(".")[2].startswith("test_")
            assert is_helper, f"{file.relative_to(ROOT)} imports {module}"

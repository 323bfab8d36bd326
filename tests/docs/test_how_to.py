"""The code of docs/how-to runs as it stands there, and no link in the documentation is dead."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import gnu_tools
from tests.support.paths import ROOT

_PAGES = sorted(p for p in (ROOT / "docs" / "how-to").glob("*.md") if p.name != "README.md")
_BLOCK = re.compile(r"(?:<!-- file: (?P<file>\S+) -->\n)?```(?P<language>\w+)\n(?P<code>.*?)```", re.DOTALL)
_LINK = re.compile(r"\]\((?!https?:|#)([^)#\s]+)")


def _script(page: Path) -> str:
    """The page as one Python program: files are written, commands run, Python blocks stand as they are."""
    parts = ["import subprocess, sys", "from pathlib import Path"]
    for block in _BLOCK.finditer(page.read_text()):
        code = block["code"]
        if block["file"]:
            parts.append(f"Path({block['file']!r}).parent.mkdir(parents=True, exist_ok=True)")
            parts.append(f"Path({block['file']!r}).write_text({code!r})")
        elif block["language"] == "python":
            parts.append(code)
        elif block["language"] == "sh":
            parts.append(f"subprocess.run(['bash', '-ec', {code!r}], check=True)")
    return "\n".join(parts)


@pytest.mark.parametrize("page", _PAGES, ids=lambda p: p.stem)
def test_the_code_of_a_page_runs(page: Path, tmp_path: Path) -> None:
    for command in re.findall(r"<!-- needs: (.*) -->", page.read_text()):
        gnu_tools.require_command(*command.split())
    done = subprocess.run([sys.executable, "-c", _script(page)], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def _documents() -> list[Path]:
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.parametrize("page", _documents(), ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    dead = [link for link in _LINK.findall(page.read_text()) if not (page.parent / link).exists()]
    assert not dead, f"{page.name} links to {', '.join(dead)}"


def test_the_map_stays_a_map() -> None:
    assert len((ROOT / "docs" / "architecture.md").read_text().splitlines()) <= 150

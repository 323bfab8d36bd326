"""The keyword spotter in ``examples`` builds and runs by its one command."""

from __future__ import annotations

import subprocess
import sys

from tests.support import firmware
from tests.support.paths import ROOT


def test_keyword_spotter() -> None:
    firmware.require_emulator("cortex-m4")
    script = ROOT / "examples" / "keyword_spotter" / "run.py"
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    words = {"down", "go", "left", "no", "off", "on", "right", "stop", "up", "yes", "silence", "unknown"}
    assert done.stderr.strip().splitlines()[-1] in words

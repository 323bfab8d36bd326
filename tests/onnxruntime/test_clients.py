"""Packages written for ONNX Runtime run on its interface here, unchanged, and find the same."""

from __future__ import annotations

import json
import subprocess
import sys

_INSTALL = "import rillet.onnxruntime; rillet.onnxruntime.install()\n"
_MAGIKA = r"""
import json
from magika import Magika

samples = [b"import os\nprint(os.getcwd())\n\ndef f(x):\n    return x + 1\n", b"<html><body>hello</body></html>",
           b"#include <stdio.h>\nint main(void) { return 0; }\n", b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n1 0 obj\n"]
magika = Magika()
print(json.dumps([(r.output.label, r.score) for r in map(magika.identify_bytes, samples)]))
"""


def _run(program: str) -> list[tuple[str, float]]:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_magika_finds_the_same_types_of_files() -> None:
    ours, theirs = _run(_INSTALL + _MAGIKA), _run(_MAGIKA)
    assert [label for label, _ in ours] == [label for label, _ in theirs]
    # The model takes a variance as a difference of squares: on the last sample ONNX Runtime is 6e-4 from the result in
    # double precision, this 4e-5.
    assert max(abs(mine - other) for (_, mine), (_, other) in zip(ours, theirs, strict=True)) < 1e-3

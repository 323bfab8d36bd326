"""Runs the tests of generated code once more for each target that this processor can run and is not the best it can.

    python -m tests.on_targets [options of pytest]

``RILLET_HOST`` makes each of them the host in turn. Cases that name their target are the same for every host and are
left to the whole suite, as is code for AVX-512 on other processors: tests/codegen/cpu/test_avx512.py runs it in Bochs.
"""

from __future__ import annotations

import os
import subprocess
import sys

from rillet import targets
from rillet.targets.catalog import HOST
from tests.support.paths import ROOT

FOLDERS = ("tests/codegen", "tests/e2e")
NAMED = ("x86-64", "aarch64", "cortex", "riscv", "wasm", "avx512", "test_assembly")


def main(options: list[str]) -> int:
    """0 when the tests passed for each target."""
    best = targets.host().machine.features
    failed = []
    for name in targets.names():
        target = targets.get(name)
        if target.machine.arch != targets.host().machine.arch:
            continue
        if target.obstacle or target.machine.features == best:
            print(f"{name}: {target.obstacle or 'the whole suite runs for it'}", flush=True)
            continue
        print(f"{name}:", flush=True)
        selected = " and ".join(f"not {part}" for part in NAMED)
        command = [sys.executable, "-m", "pytest", *FOLDERS, "-k", selected, *options]
        if subprocess.run(command, cwd=ROOT, env=os.environ | {HOST: name}, check=False).returncode:
            failed.append(name)
    print(f"failed for: {', '.join(failed)}" if failed else "passed")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""A keyword spotter from ONNX to firmware on an emulated board, in one command."""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT))

import models  # noqa: E402
import rillet  # noqa: E402
from rillet.targets import get  # noqa: E402

PLATFORM = ROOT / "runtime" / "platforms" / "qemu"
BOARDS = {  # target: emulator, machine, linker script, start-up
    "cortex-m4": ("qemu-system-arm", ["-M", "mps2-an386"], "mps2-an386.ld", "startup_arm.c"),
    "cortex-m55": ("qemu-system-arm", ["-M", "mps3-an547"], "mps3-an547.ld", "startup_arm.c"),
    "riscv32imf": ("qemu-system-riscv32", ["-M", "virt", "-bios", "none"], "virt-rv32.ld", "startup_riscv.c"),
}
C_FLAGS = ["-std=c11", "-Os", "-ffreestanding", "-fno-sanitize=all", "-fno-stack-protector", "-ffunction-sections"]
C_FLAGS += ["-fdata-sections", "-fno-unwind-tables", "-fno-asynchronous-unwind-tables"]
C_FLAGS += ["-fno-vectorize", "-fno-slp-vectorize"]
LINK_FLAGS = ["-nostdlib", "-Wl,--gc-sections", "-Wl,--build-id=none", "-Wl,-e,Reset_Handler"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", choices=BOARDS, default="cortex-m4")
    parser.add_argument("--model", help="an ONNX model with input x and output probabilities (default: DS-CNN)")
    options = parser.parse_args()
    emulator, machine, script, startup = BOARDS[options.target]
    if shutil.which(emulator) is None:
        print(f"{emulator} is not installed (Debian: qemu-system-arm, qemu-system-misc)", file=sys.stderr)
        return 1
    model = rillet.compile(options.model or models.build("ds_cnn"), target=options.target)
    with tempfile.TemporaryDirectory(prefix="keyword-spotter-") as folder:
        exported = model.export(Path(folder) / "kws")
        figures = exported.figures
        print(f"arena {figures.arena:,} B, stack {figures.stack:,} B, flash {figures.flash:,} B, {figures.macs:,} MACs")
        image = Path(folder) / "kws.elf"
        sources = [HERE / "main.c", exported.directory / "kws.c", PLATFORM / "semihosting.c", PLATFORM / startup]
        includes = ["-I", exported.directory, "-I", PLATFORM]
        flags = [*get(options.target).deployment.c_flags, *C_FLAGS, *LINK_FLAGS, "-T", PLATFORM / script, *includes]
        command = [*flags, *sources, exported.directory / "libkws_kernels.a", "-o", image]
        subprocess.run([sys.executable, "-m", "ziglang", "cc", *map(str, command)], check=True)
        host = ["-nographic", "-monitor", "none", "-serial", "none", "-semihosting-config", "enable=on,target=native"]
        return subprocess.run([emulator, *machine, *host, "-kernel", str(image)], timeout=60, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())

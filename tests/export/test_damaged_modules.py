"""Damaged module files on a microcontroller: a status code each, and never a fault."""

from __future__ import annotations

import random
import struct
import subprocess
import zlib
from pathlib import Path

import numpy as np
import pytest

from rillet import export
from rillet.driver.export import static_build
from rillet.driver.options import CompileOptions
from rillet.export.static_mode import module_bytes
from rillet.frontends.registry import open_model
from rillet.targets import get
from tests.support import export_graphs as graphs
from tests.support import firmware

HEADER = struct.Struct("<4sIII")  # magic, version, size of the metadata, its CRC-32
DATA_LOSS = 6
MUTANTS = 200

# Reads a number of modules, each after its length, and writes the status of loading and running each.
_MAIN = """#include "rillet/base/arena.h"
#include "rillet/cpu/kernel_abi.h"
#include "rillet/session.h"
#include "semihosting.h"
extern const rlt_kernel_table_t* dense_kernels(uint32_t abi_version);
static _Alignas(64) uint8_t module[65536];
static _Alignas(64) uint8_t memory[65536];
static _Alignas(64) float x[12];

static rlt_status_t load_and_run(uint32_t length) {
  static const rlt_static_library_t library = {"dense", dense_kernels};
  rlt_session_options_t options = {.step_limit = 100000};
  options.static_libraries.libraries = &library;
  options.static_libraries.count = 1;
  rlt_arena_t arena;
  rlt_arena_initialize(&arena, memory, sizeof memory);
  rlt_session_t* session = NULL;
  rlt_status_t status =
      rlt_session_create(module, length, NULL, NULL, &options, rlt_arena_allocator(&arena), NULL, &session);
  if (status != RLT_OK) return status;
  rlt_buffer_view_t *input = NULL, *output = NULL;
  const int64_t shape[] = {3, 4};
  status = rlt_session_wrap(session, RLT_TYPE_F32, 2, shape, x, sizeof x, NULL, &input);
  if (status == RLT_OK) status = rlt_session_run(session, 0, 1, &input, 1, &output, NULL);
  rlt_buffer_view_release(output);
  rlt_buffer_view_release(input);
  rlt_session_release(session);
  return status;
}

int main(void) {
  const long in = semihosting_open("modules.bin", 0), out = semihosting_open("statuses.bin", 1);
  uint32_t length = 0;
  while (semihosting_read(in, &length, sizeof length) == 0) {
    if (length > sizeof module || semihosting_read(in, module, length)) return 99;
    const uint32_t status = (uint32_t)load_and_run(length);
    if (semihosting_write(out, &status, sizeof status)) return 98;
  }
  return 0;
}
"""


def mutate(module: bytes, source: random.Random, *, fix_checksum: bool) -> bytes:
    """Some flipped bits, sometimes a shorter file; with the checksum that the damaged metadata should have, or not."""
    damaged = bytearray(module)
    magic, version, size, _ = HEADER.unpack_from(damaged)
    for _ in range(source.randint(1, 4)):
        damaged[source.randrange(HEADER.size, HEADER.size + size)] ^= 1 << source.randrange(8)
    if fix_checksum:
        HEADER.pack_into(damaged, 0, magic, version, size, zlib.crc32(damaged[HEADER.size : HEADER.size + size]))
    return bytes(damaged[: source.randrange(len(damaged))] if source.random() < 0.1 else damaged)


@pytest.mark.parametrize("target", ["cortex-m4", "riscv32imf-ilp32f"])
def test_damaged_modules_give_status_codes(target: str, tmp_path: Path) -> None:
    emulator, board = firmware.require_emulator(target), firmware.BOARDS[target]
    built = static_build(open_model(graphs.dense()), get(target), None, CompileOptions(jobs=1), None)
    export.export(built, tmp_path, name="dense", mode="static")
    (tmp_path / "main.c").write_text(_MAIN)
    image = firmware.build(target, tmp_path, "dense", "main.c")
    module = module_bytes(built, "dense")
    source = random.Random(20261128)
    unchecked = [mutate(module, source, fix_checksum=False) for _ in range(MUTANTS // 2)]
    checked = [mutate(module, source, fix_checksum=True) for _ in range(MUTANTS // 2)]
    modules = [module, *unchecked, *checked, module]
    (tmp_path / "modules.bin").write_bytes(b"".join(struct.pack("<I", len(m)) + m for m in modules))
    command = [emulator, *board.machine, *firmware.SEMIHOSTING, "-kernel", str(image)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, f"status {done.returncode}: {done.stderr}"
    statuses = np.frombuffer((tmp_path / "statuses.bin").read_bytes(), np.uint32)
    assert len(statuses) == len(modules) and statuses[0] == statuses[-1] == 0
    assert set(statuses[1 : 1 + len(unchecked)]) == {DATA_LOSS}
    assert (statuses[1 + len(unchecked) : -1] != 0).mean() > 0.5

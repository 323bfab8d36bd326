"""Damaged module files: ``python -m tests.fuzz.modules --count N --seed S``.

Each seed damages a compiled model, loads it and, where that works, runs it. Damage that the checksums cover must be
found. Half of the seeds mend the checksum of the metadata, which then is what its sender wrote: the reader and the
bytecode's verifier must see whatever would harm, and may let pass what does not. Such a module is loaded only: what it
tells kernels about their arguments is as trusted as their code.
"""

from __future__ import annotations

import argparse
import functools
import resource
import struct
import sys
import time
import traceback
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

import rillet
from rillet.driver.module_file import compile_to_bytes
from rillet.frontends.registry import open_model
from rillet.targets import get

from . import worker
from .corpus import models

_SECONDS = 60
_MEMORY = 6 << 30
_HEADER = struct.Struct("<4sIII")  # magic, version, size of the metadata, its CRC-32
_INTEGERS = (0, 1, 2, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)


@functools.cache
def _module(number: int) -> bytes:
    return compile_to_bytes(open_model(models()[number]), targets=[get("host")])


def mutant(seed: int) -> tuple[bytes, bool]:
    """The damaged file of a seed, and whether its checksum is that of its damaged metadata."""
    rng = np.random.default_rng(seed)
    data = bytearray(_module(int(rng.integers(len(models())))))
    magic, version, size, _ = _HEADER.unpack_from(data)
    mended = bool(rng.random() < 0.5)
    covered = _HEADER.size + size
    for _ in range(int(rng.integers(1, 5))):
        _damage(data, int(rng.integers(0 if not mended else _HEADER.size, covered)), rng)
    if mended:
        checksum = zlib.crc32(data[_HEADER.size : covered])
        _HEADER.pack_into(data, 0, magic, version, size, checksum)
    if rng.random() < 0.1:
        del data[int(rng.integers(len(data))) :]
    return bytes(data), mended


def _damage(data: bytearray, at: int, rng: np.random.Generator) -> None:
    kind = int(rng.integers(4))
    if kind == 0:
        data[at] ^= 1 << int(rng.integers(8))
    elif kind == 1:
        data[at] = int(rng.integers(256))
    elif kind == 2:
        at -= at % 4
        data[at : at + 4] = struct.pack("<I", _INTEGERS[int(rng.integers(len(_INTEGERS)))])
    else:
        source = int(rng.integers(max(1, len(data) - 16)))
        length = min(int(rng.integers(1, 16)), len(data) - at)
        data[at : at + length] = data[source : source + length]


def check(data: bytes, original: bool, mended: bool) -> tuple[str, str]:
    """(kind, detail): ok, rejected, or bug."""
    try:
        module = rillet.load(data)
        repr(module.inputs), repr(module.outputs), repr(module.libraries)
    except rillet.LoadError as error:
        return "rejected", str(error)
    except Exception:  # whatever is not Rillet's own is a finding
        return "bug", traceback.format_exc()
    return ("ok", "") if mended or original else ("bug", "damage that a checksum covers is not found")


def outcomes(first: int, count: int) -> Iterator[tuple[int, tuple[str, str]]]:
    """(seed, (kind, detail)) of each seed, run in a child process; ``crash`` is a further kind."""
    yield from worker.results("tests.fuzz.modules", first, count, _SECONDS)


def _outcome(seed: int) -> tuple[str, str]:
    data, mended = mutant(seed)
    return check(data, any(data == _module(n) for n in range(len(models()))), mended)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.modules", description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--show", action="store_true", help="show the errors of rejected files")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.worker:
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
        worker.work(range(options.seed, options.seed + options.count), _outcome)
        return 0
    started = time.perf_counter()
    counts: Counter[str] = Counter()
    for seed, (kind, detail) in outcomes(options.seed, options.count):
        counts[kind] += 1
        if kind in ("bug", "crash") or options.show:
            print(f"seed {seed}: {kind}: {detail.strip()}", flush=True)
    print(f"{sum(counts.values())} mutants in {time.perf_counter() - started:.0f} s: {dict(counts)}")
    return 1 if counts["bug"] or counts["crash"] else 0


if __name__ == "__main__":
    sys.exit(main())

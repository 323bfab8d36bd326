"""``rillet run``: run a model once on given or random inputs and show the outputs."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np

from rillet.cli.common import add_source, check_folder, natural, open_module, print_json, read_inputs, storable


def register(commands: Any) -> None:
    parser = commands.add_parser("run", help="run a model on given or random inputs")
    add_source(parser)
    parser.add_argument(
        "--input", action="append", default=[], metavar="NAME=FILE.npy", help="an input (default: random)"
    )
    parser.add_argument("--output", metavar="DIR", help="write each output as DIR/NAME.npy")
    parser.add_argument("--seed", type=natural, default=0, help="seed of random inputs")
    parser.add_argument("--json", action="store_true", help="print facts as JSON")
    parser.set_defaults(handler=handle)


def handle(options: argparse.Namespace) -> int:
    if options.output:
        check_folder(Path(options.output))
    module = open_module(options)
    inputs = read_inputs(module, options.input, options.seed)
    started = time.perf_counter()
    outputs = module.run(inputs)
    seconds = time.perf_counter() - started
    if options.output:
        folder = Path(options.output)
        folder.mkdir(parents=True, exist_ok=True)
        for ordinal, (name, array) in enumerate(outputs.items()):
            safe = "".join(c if c.isalnum() or c in "._-" else "_" for c in name) or f"output_{ordinal}"
            np.save(folder / f"{safe}.npy", storable(array))
    facts: dict[str, Any] = {
        "seconds": seconds,
        "outputs": {name: _describe(array) for name, array in outputs.items()},
        "stats": module.stats,
    }
    if options.json:
        print_json(facts)
        return 0
    print(f"ran in {seconds * 1e3:.3f} ms")
    for name, facts_ in facts["outputs"].items():
        print(f"{name}: {facts_['dtype']} {facts_['shape']}{_range(facts_)}")
        with np.printoptions(threshold=16, edgeitems=4, precision=5):
            print(outputs[name])
    return 0


def _range(facts: dict[str, Any]) -> str:
    return "" if facts["min"] is None else f"  min {facts['min']}  max {facts['max']}"


def _describe(array: np.ndarray) -> dict[str, Any]:
    empty = array.size == 0 or array.dtype.kind in "cO"
    return {
        "dtype": "string" if array.dtype == object else str(array.dtype),
        "shape": list(array.shape),
        "min": None if empty else array.min().item(),
        "max": None if empty else array.max().item(),
    }

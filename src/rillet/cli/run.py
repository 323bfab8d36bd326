"""``rillet run``: run a model once on given or random inputs and show the outputs."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from rillet.cli.common import add_inputs, add_source, npy, open_module, print_json, read_inputs
from rillet.support.files import check_folder, write_folder

_LONGEST_NAME = 50  # characters of an output's name that its file's has; four bytes each fit every file system


def register(commands: Any) -> None:
    """Add the command and its options to ``commands`` (subparsers of argparse)."""
    parser = commands.add_parser("run", help="run a model on given or random inputs")
    add_source(parser)
    add_inputs(parser)
    parser.add_argument("-o", "--output", metavar="DIR", help="write each output as DIR/NAME.npy (maps: .json)")
    parser.add_argument("--json", action="store_true", help="print facts as JSON")
    parser.set_defaults(handler=handle)


def handle(options: argparse.Namespace) -> int:
    """Call the model once, print the outputs, and write them where ``--output`` says. Returns the exit status."""
    if options.output is not None:
        check_folder(options.output)
    module = open_module(options)
    inputs = read_inputs(module, options)
    started = time.perf_counter()
    outputs = module.run(inputs)
    seconds = time.perf_counter() - started
    if options.output is not None:
        names = _file_names(list(outputs), ["json" if isinstance(value, list) else "npy" for value in outputs.values()])
        write_folder(options.output, {n: _content(value) for n, value in zip(names, outputs.values(), strict=True)})
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


def _content(value: np.ndarray | list[dict[Any, float]]) -> memoryview | bytes:
    """What an output's file holds: an array, or maps as JSON."""
    return json.dumps(value, ensure_ascii=False).encode() if isinstance(value, list) else npy(value)


def _file_names(names: Sequence[str], suffixes: Sequence[str]) -> list[str]:
    """A file name for each output: its own where it can be one, with a number where two would be the same."""
    files: list[str] = []
    for ordinal, (name, suffix) in enumerate(zip(names, suffixes, strict=True)):
        safe = "".join(c if c.isalnum() or c in "._-" else "_" for c in name)[:_LONGEST_NAME] or f"output_{ordinal}"
        files.append(f"{safe}_{ordinal}.{suffix}" if f"{safe}.{suffix}" in files else f"{safe}.{suffix}")
    return files


def _range(facts: dict[str, Any]) -> str:
    return "" if facts["min"] is None else f"  min {facts['min']}  max {facts['max']}"


def _describe(array: np.ndarray | list[dict[Any, float]]) -> dict[str, Any]:
    if isinstance(array, list):
        return {"dtype": "map", "shape": [len(array)], "min": None, "max": None}
    empty = array.size == 0 or array.dtype.kind in "cO"
    return {
        "dtype": "string" if array.dtype == object else str(array.dtype),
        "shape": list(array.shape),
        "min": None if empty else array.min().item(),
        "max": None if empty else array.max().item(),
    }

"""``rillet inspect``: what a module file holds, whatever machine it is for."""

from __future__ import annotations

import argparse
from typing import Any

from rillet.cli.common import counted, print_json, print_stats


def register(commands: Any) -> None:
    """Add the command and its options to ``commands`` (subparsers of argparse)."""
    parser = commands.add_parser("inspect", help="show what a .rlm file holds")
    parser.add_argument("module", help="a compiled module (.rlm)")
    parser.add_argument("--verify", action="store_true", help="compare all code and constants with their checksums")
    parser.add_argument("--json", action="store_true", help="print facts as JSON")
    parser.set_defaults(handler=handle)


def handle(options: argparse.Namespace) -> int:
    """Print a module file's inputs, outputs, libraries and statistics. Returns the exit status."""
    from rillet.runtime import read_facts

    contents = read_facts(options.module, verify=options.verify)
    facts: dict[str, Any] = {
        "inputs": [_spec(s) for s in contents.inputs],
        "outputs": [_spec(s) for s in contents.outputs],
        "libraries": contents.libraries,
        "devices": contents.devices,
        "stats": contents.stats,
        "verified": options.verify,
    }
    if options.json:
        print_json(facts)
        return 0
    for kind in ("inputs", "outputs"):
        print(f"{kind}:")
        for spec in facts[kind]:
            default = " (has a default)" if spec["has_default"] else ""
            print(f"  {spec['name']}: {spec['dtype']} {spec['shape']}{default}")
    print("libraries, best first:")
    for variant in facts["libraries"]:
        mark = "  <- this machine" if variant["selected"] else ""
        print(f"  {variant['target']}: {variant['bytes']:,} bytes, {counted(len(variant['entries']), 'kernel')}{mark}")
    print("devices:")
    for device in facts["devices"]:
        targets = ", ".join(facts["libraries"][number]["target"] for number in device["libraries"])
        print(f"  {device['name']}: driver {device['driver']}, kernels for {targets or 'none'}")
    print("stats:")
    print_stats(contents.inputs, contents.stats, len(contents.libraries))
    if options.verify:
        print("verified: all checksums match")
    return 0


def _spec(spec: Any) -> dict[str, Any]:
    shape = list(spec.shape)
    return {"name": spec.name, "dtype": spec.type_name, "shape": shape, "has_default": spec.has_default}

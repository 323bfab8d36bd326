"""``rillet targets``: the targets code can be generated for."""

from __future__ import annotations

import argparse
import dataclasses
from typing import Any

from rillet.cli.common import print_json
from rillet.errors import CompileError


def register(commands: Any) -> None:
    """Add the command and its options to ``commands`` (subparsers of argparse)."""
    parser = commands.add_parser("targets", help="list the targets code can be generated for")
    parser.add_argument("--json", action="store_true", help="print facts as JSON")
    parser.set_defaults(handler=handle)


def handle(options: argparse.Namespace) -> int:
    """Print a line for each target, this machine first: where that is none, the reason. Returns the exit status."""
    from rillet.targets import Target, get, host, names

    targets: list[Target] = [get(name) for name in names()]
    fault = ""
    try:
        targets.insert(0, host())
    except CompileError as error:
        fault = str(error)
    if options.json:
        print_json([*([{"name": "host", "error": fault}] if fault else []), *map(dataclasses.asdict, targets)])
        return 0
    print(f"{'name':18} {'triple':34} {'cpu':14} {'abi':12} {'vector':>6}  features")
    if fault:
        print(f"{'host':18} {fault}")
    for t in targets:
        m = t.machine
        abi = f"{m.abi}{' ' if m.abi else ''}{m.float_abi}"
        print(f"{t.name:18} {m.triple:34} {m.cpu:14} {abi:12} {m.vector_bits:>6}  {','.join(m.features)}")
    return 0

"""``rillet export``: a model becomes a folder of C sources and objects for a microcontroller."""

from __future__ import annotations

import argparse
import dataclasses
from typing import Any

from rillet.cli.common import add_compiling, add_shapes, is_size, model_path, parse_shapes, parse_sizes, print_json
from rillet.errors import CompileError
from rillet.support.files import check_folder

_UNITS = {"": 1, "k": 1024, "m": 1024 * 1024}


def register(commands: Any) -> None:
    """Add the command and its options to ``commands`` (subparsers of argparse)."""
    parser = commands.add_parser("export", help="export a model as C sources and objects")
    parser.add_argument("model", help="a model to compile (.onnx, .mlir)")
    parser.add_argument("--target", required=True, help="target name; see 'rillet targets'")
    parser.add_argument("-o", "--output", required=True, metavar="DIR", help="the folder to write")
    parser.add_argument("--mode", default="c", help="c (the host program as C) or static (bytecode and runtime)")
    parser.add_argument("--layout", default="cmake", help="cmake, zephyr, arduino or web (default: cmake)")
    parser.add_argument("--name", help="what the model is called in C (default: the folder's name)")
    add_shapes(parser)
    parser.add_argument("--ram", metavar="BYTES", help="fail when arena and stack need more, e.g. 256k")
    parser.add_argument("--flash", metavar="BYTES", help="fail when code and constants need more, e.g. 1m")
    parser.add_argument("--optimize-for-size", action="store_true", help="prefer small files over fast code")
    add_compiling(parser)
    parser.add_argument("--dump-ir", metavar="DIR", help="write the module after every stage and the kernels into DIR")
    parser.add_argument("--json", action="store_true", help="print facts as JSON")
    parser.set_defaults(handler=handle)


def handle(options: argparse.Namespace) -> int:
    """Write C sources and objects into a folder and print their figures. Returns the exit status."""
    from rillet.driver.export import cross_compile

    check_folder(options.output)
    budgets = {"ram": _bytes("--ram", options.ram), "flash": _bytes("--flash", options.flash)}
    module = cross_compile(
        model_path(options.model),
        target=options.target,
        inputs=parse_shapes(options.shape),
        dims=parse_sizes("--dim", options.dim),
        jobs=options.jobs,
        cache=not options.no_cache,
        dump_ir=options.dump_ir,
        optimize_for_size=options.optimize_for_size,
        tuning=False,  # records are of machines that tune
    )
    exported = module.export(options.output, mode=options.mode, layout=options.layout, name=options.name, **budgets)
    if options.json:
        facts = {"output": str(exported.directory), "name": exported.name, "files": list(exported.files)}
        print_json({**facts, "figures": dataclasses.asdict(exported.figures)})
        return 0
    print(f"{exported.directory}: {', '.join(exported.files)}")
    for key, value in dataclasses.asdict(exported.figures).items():
        print(f"  {key:24} {'not known' if value is None else format(value, ',')}")
    return 0


def _bytes(option: str, text: str | None) -> int | None:
    if text is None:
        return None
    number, unit = (text[:-1], text[-1].lower()) if text[-1:].lower() in ("k", "m") else (text, "")
    if not is_size(number):
        raise CompileError(f"{option} {text}: expected a number of bytes, like 65536, 64k or 1m")
    return int(number) * _UNITS[unit]

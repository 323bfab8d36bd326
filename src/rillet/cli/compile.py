"""``rillet compile``: a model becomes a module file, or stops at a stage and prints its IR."""

from __future__ import annotations

import argparse
import os
import time
from typing import Any

from rillet.cli.common import (
    add_compiling,
    add_devices,
    add_shapes,
    add_targets,
    add_tuning,
    model_path,
    parse_shapes,
    parse_sizes,
    print_json,
    print_stats,
)
from rillet.errors import CompileError
from rillet.support.files import check_file


def register(commands: Any) -> None:
    """Add the command and its options to ``commands`` (subparsers of argparse)."""
    parser = commands.add_parser("compile", help="compile a model into a .rlm file")
    parser.add_argument("model", help="a model to compile (.onnx, .mlir)")
    add_targets(parser)
    add_devices(parser)
    add_shapes(parser)
    parser.add_argument("-o", "--output", help="the file to write (default: the model's name with .rlm)")
    parser.add_argument("--dump-ir", metavar="DIR", help="write the module after every stage and the kernels into DIR")
    parser.add_argument("--until", metavar="STAGE", help="stop after STAGE and print what it makes")
    parser.add_argument("--optimize-for-size", action="store_true", help="prefer small files over fast code")
    add_compiling(parser)
    add_tuning(parser)
    parser.add_argument("--json", action="store_true", help="print facts as JSON")
    parser.set_defaults(handler=handle)


def handle(options: argparse.Namespace) -> int:
    """Compile the model and write its module file, or print the stage of ``--until``. Returns the exit status.

    Raises CompileError for a target whose programs load no module files.
    """
    from rillet.driver.compile import compile as compile_model
    from rillet.driver.lowering import print_stage
    from rillet.driver.targets import resolve_targets

    shapes, dims = parse_shapes(options.shape), parse_sizes("--dim", options.dim)
    target = options.target or "host"
    targets = resolve_targets(target)
    if options.until:
        _refuse_beside_until(options)
        where = {"target": targets[0], "device": options.device}
        print(print_stage(model_path(options.model), options.until, inputs=shapes, dims=dims, **where))
        return 0
    if not targets[0].deployment.has_loader:
        raise CompileError(
            f"target {targets[0].name} has no loader for module files; 'rillet export' writes C sources and objects"
        )
    model = model_path(options.model)
    output = model.with_suffix(".rlm") if options.output is None else options.output
    check_file(output)
    started = time.perf_counter()
    module = compile_model(
        model,
        target=target,
        inputs=shapes,
        dims=dims,
        device=options.device,
        threads=1,  # nothing is called
        jobs=options.jobs,
        cache=not options.no_cache,
        dump_ir=options.dump_ir,
        optimize_for_size=options.optimize_for_size,
        tuning=options.tuning,
    )
    module.save(output)
    facts = {
        "output": str(output),
        "bytes": os.stat(output).st_size,
        "seconds": round(time.perf_counter() - started, 3),
        "targets": module.targets,
        "stats": module.stats,
    }
    if options.json:
        print_json(facts)
        return 0
    print(f"{output}: {facts['bytes']:,} bytes, compiled in {facts['seconds']} s")
    print_stats(module.inputs, module.stats, len(targets))
    return 0


def _refuse_beside_until(options: argparse.Namespace) -> None:
    """Refuse options for which printing one stage of one target has no use."""
    given = {
        "several --target": options.target and len(options.target) > 1,
        "-o": options.output is not None,
        "--dump-ir": options.dump_ir is not None,
        "--optimize-for-size": options.optimize_for_size,
        "--tuning": options.tuning is not True and options.tuning,
        "--json": options.json,
    }
    if refused := [name for name, value in given.items() if value]:
        raise CompileError(
            f"--until prints what one stage makes for one target, so it does not go with {', '.join(refused)}; "
            "'rillet compile --dump-ir DIR' writes every stage"
        )

"""``rillet verify``: compare a model's values with those of other implementations. Status 1 when it departs."""

from __future__ import annotations

import argparse
import io
from typing import TYPE_CHECKING, Any

from rillet.cli.common import (
    add_inputs,
    add_shapes,
    counted,
    model_path,
    parse_shapes,
    parse_sizes,
    print_json,
    read_arrays,
    storable,
)
from rillet.support.files import check_file, write_atomically

if TYPE_CHECKING:
    from rillet.frontends.verification import VerifiableModel
    from rillet.verify import Report


def register(commands: Any) -> None:
    """Add the command and its options to ``commands`` (subparsers of argparse)."""
    parser = commands.add_parser("verify", help="compare a model's values with those of other implementations")
    parser.add_argument("model", help="a model of a kind that other implementations run (.onnx)")
    add_shapes(parser)
    add_inputs(parser)
    parser.add_argument("--outputs-only", action="store_true", help="compare the model's outputs only")
    parser.add_argument("--bisect", metavar="OUT", help="write the smallest part that departs, and its inputs")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    parser.set_defaults(handler=handle)


def handle(options: argparse.Namespace) -> int:
    """Compare the model with its oracles and print the report. Returns the exit status: 0 when it agrees, else 1."""
    from rillet.verify import verifiable, verify

    if options.bisect is not None:
        check_file(options.bisect)
        check_file(options.bisect + ".npz")
    shapes, dims = parse_shapes(options.shape), parse_sizes("--dim", options.dim)
    model = verifiable(model_path(options.model), shapes, dims)
    report = verify(
        model,
        feeds=read_arrays(options.input),
        seed=options.seed,
        sizes=parse_sizes("--size", options.size),
        layers=not options.outputs_only,
    )
    if options.bisect is not None and report.first:
        _write_part(options, model, report)
    elif options.bisect is not None and not options.json:
        print(f"{options.bisect}: not written, as nothing departs")
    if options.json:
        print_json(report.as_dict())
    else:
        print(_text(report))
    return 0 if report.agrees else 1


def _write_part(options: argparse.Namespace, model: VerifiableModel, report: Report) -> None:
    import numpy as np

    from rillet.verify import bisect

    assert report.first is not None
    part, feeds = bisect(model, report.feeds, report.first)
    arrays = io.BytesIO()
    np.savez(arrays, allow_pickle=False, **{name: storable(array) for name, array in feeds.items()})
    write_atomically(options.bisect + ".npz", arrays.getbuffer())
    write_atomically(options.bisect, part.serialized())
    if not options.json:
        print(f"{options.bisect}: {counted(len(part.nodes), 'node')}; inputs in {options.bisect}.npz")


def _text(report: Report) -> str:
    lines = [f"{name} did not run: {reason}" for name, reason in report.missing.items()]
    lines.append(
        f"{counted(len(report.outputs), 'output')} and {counted(len(report.layers), 'value')} of nodes compared"
    )
    for finding in (*report.layers, *report.outputs):
        if finding.oracles_disagree and not finding.departs and not finding.explanation:
            lines.append(f"the oracles disagree: {finding}")
    explained = [finding for finding in (*report.layers, *report.outputs) if finding.explanation]
    if explained:
        first = explained[0]
        lines.append(
            f"{counted(len(explained), 'value')} with a step of quantization at a tie of its rounding, or that follow "
            f"from such; the first: {first.op} '{first.node}': {first.explanation}"
        )
    if report.first is None:
        worst = max((d.max_abs for f in report.outputs for d in f.differences.values()), default=0.0)
        lines.append(f"all agree; the outputs' largest absolute error is {worst:.3g}")
    else:
        lines.append(f"first departure: {report.first}")
        lines += [f"output '{f.value}' departs" for f in report.outputs if f.departs]
    return "\n".join(lines)

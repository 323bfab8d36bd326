"""``rillet check``: whether a model compiles, and what it takes, without compiling it. Status 1 when it does not."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from rillet.cli.common import add_shapes, counted, model_path, parse_shapes, parse_sizes, print_json

if TYPE_CHECKING:
    from rillet.analysis import Report


def register(commands: Any) -> None:
    """Add the command and its options to ``commands`` (subparsers of argparse)."""
    parser = commands.add_parser("check", help="report which of a model's nodes are supported, without compiling")
    parser.add_argument("model", help="a model (.onnx, .mlir)")
    parser.add_argument("--target", default="host", help="target name (default: host)")
    add_shapes(parser)
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    parser.set_defaults(handler=handle)


def handle(options: argparse.Namespace) -> int:
    """Print which nodes are supported. Returns the exit status: 0 when all are, else 1."""
    from rillet.analysis import check

    model = model_path(options.model)
    shapes, dims = parse_shapes(options.shape), parse_sizes("--dim", options.dim)
    report = check(model, target=options.target, inputs=shapes, dims=dims)
    if options.json:
        print_json(report.as_dict())
    else:
        print(_text(report))
    return 0 if report.supported else 1


def _text(report: Report) -> str:
    lines = [f"{'op':28} {'opset':>5} {'count':>6}  types"]
    for op in report.ops:
        mark = f"  NOT SUPPORTED ({op.unsupported})" if op.unsupported else ""
        lines.append(f"{op.op:28} {op.opset or '':>5} {op.count:>6}  {', '.join(op.dtypes)}{mark}")
    for name, dims in report.inputs.items():
        lines.append(f"input {name}: {list(dims)}{' (has a default)' if name in report.defaults else ''}")
    lines.append(f"dynamic dimensions: {', '.join(report.dynamic_dimensions) or 'none'}")
    flow = ", ".join(f"{op} ({count})" for op, count in report.control_flow.items())
    lines.append(f"control flow: {flow or 'none'}")
    lines.append(f"weights: {report.weight_bytes:,} bytes")
    if report.macs is not None:
        dynamic = report.dynamic_dimensions or report.arena_bytes is None
        macs = "dynamic: known at each call;" if dynamic else f"{report.macs:,} in"
        lines.append(f"multiply-accumulates: {macs} {counted(report.dispatch_count or 0, 'dispatch', 'dispatches')}")
        arena = f"{report.arena_bytes:,} bytes" if report.arena_bytes is not None else "dynamic: sized at each call"
        lines.append(f"constants: {report.constant_bytes:,} bytes; arena: {arena}")
    if report.unsupported:
        lines.append(f"not supported ({len(report.unsupported)}):")
        lines += [f"  - {node}" for node in report.unsupported]
    elif report.refused:
        lines.append(f"not supported: {report.refused}")
    else:
        lines.append("supported")
    return "\n".join(lines)

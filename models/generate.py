"""Write reference models to a folder: ``python -m models.generate --out DIR [NAME ...]``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from models import zoo
from models.facts import count_macs, count_parameters
from models.fetch import FetchError


def main(arguments: list[str] | None = None) -> int:
    """Entry point; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m models.generate", description="Write reference models to a folder."
    )
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder to write NAME.onnx files to")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"default: {' '.join(zoo.GENERATED)}")
    options = parser.parse_args(arguments)
    names = options.names or list(zoo.GENERATED)
    if unknown := sorted(set(names) - set(zoo.NAMES)):
        parser.error(f"unknown model {', '.join(unknown)}; known are {', '.join(zoo.NAMES)}")
    options.out.mkdir(parents=True, exist_ok=True)
    for name in names:
        try:
            model = zoo.build(name)
        except FetchError as error:
            print(f"{name}: {error}", file=sys.stderr)
            return 1
        target = options.out / f"{name}.onnx"
        target.write_bytes(zoo.serialize(model))
        print(f"{target}  {count_parameters(model) / 1e6:.3f} M parameters  {count_macs(model) / 1e6:.1f} M MACs")
    return 0


if __name__ == "__main__":
    sys.exit(main())

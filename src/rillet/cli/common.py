"""Argument types and output shared by the commands."""

from __future__ import annotations

import argparse
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rillet.errors import CompileError, RunError
from rillet.runtime import Module, TensorSpec, load
from rillet.runtime.module import MOST_THREADS
from rillet.runtime.sample_inputs import sample_inputs

_MOST_DIGITS = 100  # of a number; Python refuses to read those of some thousands


def add_source(parser: argparse.ArgumentParser) -> None:
    """Add the model argument, which may be a module file, and the options of commands that may compile it first."""
    parser.add_argument("model", help="a model to compile (.onnx, .mlir) or a compiled module (.rlm)")
    add_targets(parser)
    add_devices(parser)
    add_shapes(parser)
    add_compiling(parser)
    add_tuning(parser)
    parser.add_argument("--threads", type=thread_number, help="threads a call uses (default: one a core)")


def add_targets(parser: argparse.ArgumentParser) -> None:
    """Add the option for targets, of commands that can compile for several."""
    parser.add_argument("--target", action="append", help="target name, repeatable (default: host)")


def add_devices(parser: argparse.ArgumentParser) -> None:
    """Add the option for the devices that a program is divided over."""
    parser.add_argument("--device", action="append", help="a device of the program, repeatable (default: any one CPU)")


def add_shapes(parser: argparse.ArgumentParser) -> None:
    """Add the options that pin sizes in the model; ``parse_shapes`` and ``parse_sizes`` read them."""
    parser.add_argument("--shape", action="append", default=[], metavar="NAME=1x3xHx224", help="pin an input's shape")
    parser.add_argument("--dim", action="append", default=[], metavar="NAME=128", help="pin a dynamic dimension")


def add_compiling(parser: argparse.ArgumentParser) -> None:
    """Add the options for how kernels are compiled."""
    parser.add_argument("--jobs", type=positive, help="processes that compile (default: one a core)")
    parser.add_argument("--no-cache", action="store_true", help="compile everything anew")


def add_tuning(parser: argparse.ArgumentParser) -> None:
    """Add the options for the record that kernels are compiled by."""
    tuning = parser.add_mutually_exclusive_group()
    tuning.add_argument("--tuning", metavar="RECORD", default=True, help="use this record of 'rillet tune'")
    tuning.add_argument("--no-tuning", dest="tuning", action="store_false", help="use no record, not the default one")


def add_inputs(parser: argparse.ArgumentParser) -> None:
    """Add the options for the inputs that a model is run on; ``read_inputs`` reads them."""
    parser.add_argument(
        "--input", action="append", default=[], metavar="NAME=FILE.npy", help="an input (default: random)"
    )
    parser.add_argument(
        "--size", action="append", default=[], metavar="NAME=128", help="a dynamic dimension's size in random inputs"
    )
    parser.add_argument("--seed", type=natural, default=0, help="seed of random inputs")


def open_module(options: argparse.Namespace) -> Module:
    """Load the ``.rlm``, or compile the model, that ``add_source``'s arguments name.

    Raises RunError for a target whose code cannot run here.
    """
    if options.model.endswith(".rlm"):
        given = {
            "--target": options.target,
            "--device": options.device,
            "--shape": options.shape,
            "--dim": options.dim,
            "--jobs": options.jobs,
            "--no-cache": options.no_cache,
            "--tuning": options.tuning is not True and options.tuning,
            "--no-tuning": options.tuning is False,
        }
        if ignored := [name for name, value in given.items() if value]:
            size = "; --size gives a dynamic dimension of random inputs its size" if "--dim" in ignored else ""
            raise RunError(
                f"{', '.join(ignored)}: '{options.model}' is compiled already; compile its model again{size}"
            )
        return load(options.model, threads=options.threads)
    from rillet.driver.compile import compile as compile_model
    from rillet.driver.targets import resolve_targets

    obstacles = [target.obstacle for target in resolve_targets(options.target or "host")]
    if all(obstacles):
        raise RunError(f"code for {', '.join(options.target)} cannot run here: {obstacles[-1]}; see 'rillet export'")
    module = compile_model(
        model_path(options.model),
        target=options.target or "host",
        inputs=parse_shapes(options.shape),
        dims=parse_sizes("--dim", options.dim),
        device=options.device,
        threads=options.threads,
        jobs=options.jobs,
        cache=not options.no_cache,
        tuning=options.tuning,
    )
    assert isinstance(module, Module)
    return module


def natural(text: str) -> int:
    """The type of an argument that is a whole number from 0 on."""
    return _whole(text, 0, None)


def positive(text: str) -> int:
    """The type of an argument that is a whole number from 1 on."""
    return _whole(text, 1, None)


def thread_number(text: str) -> int:
    """The type of an argument that is a number of threads."""
    return _whole(text, 1, MOST_THREADS)


def _whole(text: str, least: int, most: int | None) -> int:
    value = int(text) if is_size(text.removeprefix("+")) else least - 1
    if value < least or (most is not None and value > most):
        upto = "on" if most is None else f"to {most}"
        raise argparse.ArgumentTypeError(f"{text}: expected a whole number from {least} {upto}")
    return value


def duration(text: str) -> float:
    """The type of an argument that is a number of seconds."""
    try:
        value = float(text)
    except ValueError:
        value = -1
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text}: expected a number of seconds from 0 on")
    return value


def model_path(path: str) -> Path:
    """The path of the model's file. Raises ``CompileError`` when there is none."""
    from rillet.frontends.source_path import checked_path

    return checked_path(path)


def parse_shapes(texts: list[str]) -> dict[str, tuple[int | str, ...]]:
    """Parse ``NAME=1x3xHx224``: numbers are fixed, names and -1 dynamic.

    Raises CompileError for other texts and for a name given twice.
    """
    shapes: dict[str, tuple[int | str, ...]] = {}
    for text in texts:
        name, separator, dims = text.partition("=")
        if not separator or not name:
            raise CompileError(f"--shape {text}: expected NAME=1x3xHx224")
        if name in shapes:
            raise CompileError(f"--shape {text}: the shape of '{name}' is given twice")
        shapes[name] = tuple(_dimension(d, text) for d in dims.split("x")) if dims else ()
    return shapes


def parse_sizes(option: str, texts: list[str]) -> dict[str, int]:
    """Parse the ``NAME=128`` of an option. Raises CompileError for other texts and for a name given twice."""
    sizes: dict[str, int] = {}
    for text in texts:
        name, _, size = text.partition("=")
        if not name or not is_size(size):
            raise CompileError(f"{option} {text}: expected NAME=SIZE, a whole number from 0 on")
        if name in sizes:
            raise CompileError(f"{option} {text}: the size of '{name}' is given twice")
        sizes[name] = int(size)
    return sizes


def is_size(text: str) -> bool:
    """Whether the text is a whole number from 0 on, of a length that Python reads."""
    return text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS


def read_inputs(module: Module, options: argparse.Namespace) -> dict[str, np.ndarray]:
    """The inputs that ``add_inputs``'s options mean; see ``sample_inputs``.

    Raises ``RunError`` when there is no such input, or a file does not fit it.
    """
    given = read_arrays(options.input)
    arrays = sample_inputs(module.inputs, given, parse_sizes("--size", options.size), options.seed)
    known = {spec.name: spec for spec in module.inputs}
    for text in options.input:
        name = text.partition("=")[0]
        check_array(f"--input {text}", known[name], given[name])
    return arrays


def check_array(argument: str, spec: TensorSpec, array: np.ndarray) -> None:
    """Raise ``RunError``, which begins with ``argument``, unless the array can be given for the input."""
    is_text = spec.dtype == object and array.dtype.kind in "UT"
    if array.dtype.newbyteorder("=") != spec.dtype and array.dtype != spec.carrier and not is_text:
        cast = f"astype('{spec.dtype}')"
        if spec.carrier is not spec.dtype:  # .npy files have no such type
            cast += f".view('{spec.carrier}')"
        raise RunError(f"{argument}: the file holds {array.dtype}, but the input is {spec}; save array.{cast}")
    fits = len(array.shape) == len(spec.shape) and all(
        wanted == size or isinstance(wanted, str) or wanted < 0
        for wanted, size in zip(spec.shape, array.shape, strict=True)
    )
    if not fits:
        raise RunError(f"{argument}: the file holds an array of shape {list(array.shape)}, but the input is {spec}")


def read_arrays(texts: list[str]) -> dict[str, np.ndarray]:
    """The arrays of ``NAME=FILE.npy`` arguments.

    Raises RunError for other texts, a name given twice, and files without an array.
    """
    given: dict[str, np.ndarray] = {}
    for text in texts:
        name, separator, path = text.partition("=")
        if not separator or not name:
            raise RunError(f"--input {text}: expected NAME=FILE.npy")
        if name in given:
            raise RunError(f"--input {text}: input '{name}' is given twice")
        try:
            given[name] = _read_array(path)
        except OSError as error:
            raise RunError(f"--input {text}: cannot read the file: {error.strerror or error}") from error
        except (ValueError, EOFError) as error:
            raise RunError(f"--input {text}: cannot read an array: {error}") from error
    return given


def _read_array(path: str) -> np.ndarray:
    with open(path, "rb") as file:
        if file.read(6) != b"\x93NUMPY":
            raise ValueError("it is no .npy file; write one with numpy.save")
        file.seek(0)
        try:
            return np.load(file, allow_pickle=False)
        except ValueError as error:
            if "allow_pickle" in str(error):
                raise ValueError("it holds Python objects; save numbers, or strings with .astype(str)") from None
            raise


def storable(array: np.ndarray) -> np.ndarray:
    """The array with strings as numpy's text type, which is saved and loaded without pickle."""
    return array.astype(str) if array.dtype == object else array


def npy(array: np.ndarray) -> memoryview:
    """The bytes of a ``.npy`` file."""
    content = io.BytesIO()
    np.save(content, storable(array), allow_pickle=False)
    return content.getbuffer()


def has_dynamic_sizes(inputs: Sequence[TensorSpec], stats: Mapping[str, int]) -> bool:
    """Whether some sizes of a module with these inputs, and so its work, are known in its calls only."""
    static = all(isinstance(d, int) and d >= 0 for spec in inputs for d in spec.shape)
    return not static or bool(stats.get("arena_is_dynamic"))


def print_stats(inputs: Sequence[TensorSpec], stats: Mapping[str, int], variants: int = 1) -> None:
    """Print what compiling found out, a line each. An arena or work that depends on the call has no number yet.

    ``variants`` are those of the code, one of which is loaded.
    """
    for key, value in stats.items():
        if key == "arena_is_dynamic" or (key == "arena_lower_bound" and stats.get("arena_is_dynamic")):
            continue
        text = f"{value:,}"
        if key == "arena_bytes" and stats.get("arena_is_dynamic"):
            text = f"dynamic: sized at each call{f', beside {value:,}' if value else ''}"
        elif key == "macs" and has_dynamic_sizes(inputs, stats):
            text = "dynamic: known at each call"
        elif key == "code_bytes" and variants > 1:
            text += f"  (the largest of {variants} variants)"
        print(f"  {key:24} {text}")


def counted(count: int, noun: str, plural: str = "") -> str:
    """``1 kernel``, ``2 kernels``."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def print_json(facts: Any) -> None:
    """Print facts as indented JSON; values without a JSON form are printed as text."""
    print(json.dumps(facts, indent=2, default=str))


def _dimension(text: str, whole: str) -> int | str:
    if text == "-1" or is_size(text):
        return int(text)
    if text.isidentifier():
        return text
    raise CompileError(f"--shape {whole}: '{text}' is neither a number nor a name")

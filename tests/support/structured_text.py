"""Structured ops as text, parsed, for the tests of what recognizes them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from torch_mlir import ir

from rillet.ir import Program
from rillet.ir.structured import Structured, structured, walk


def generic(
    inputs: Sequence[str], maps: Sequence[str], result: str, loops: str, iterators: str, body: str, arguments: str
) -> str:
    """A function that yields one ``linalg.generic`` of its arguments; ``maps``: results of the inputs' maps and of the
    init's. ``iterators`` has ``p`` or ``r`` for each loop, ``arguments`` names and types of the body's.
    """
    names = [f"%arg{n}" for n in range(len(inputs))]
    signature = ", ".join(f"{name}: {type_}" for name, type_ in zip(names, inputs, strict=True))
    affine = ", ".join(f"affine_map<({loops}) -> ({m})>" for m in maps)
    kinds = ", ".join('"parallel"' if i == "p" else '"reduction"' for i in iterators)
    return f"""
func.func @main({signature}, %init: {result}) -> {result} {{
  %0 = linalg.generic {{indexing_maps = [{affine}], iterator_types = [{kinds}]}}
      ins({", ".join(names)} : {", ".join(inputs)}) outs(%init : {result}) {{
  ^bb0({arguments}):
{body}
  }} -> {result}
  return %0 : {result}
}}"""


def sum_of_products(lhs: str, rhs: str, result: str, loops: str, maps: Sequence[str], iterators: str) -> str:
    """The sum of products of two tensors of f32."""
    body = """    %p = arith.mulf %x, %y : f32
    %s = arith.addf %z, %p : f32
    linalg.yield %s : f32"""
    return generic([lhs, rhs], maps, result, loops, iterators, body, "%x: f32, %y: f32, %z: f32")


@contextmanager
def parsed(text: str) -> Iterator[ir.Operation]:
    """``@main`` of a module, with its context and an unknown location entered."""
    program = Program.parse(text)
    with program.context, ir.Location.unknown():
        yield program.main()


@contextmanager
def view_of(text: str) -> Iterator[Structured]:
    """The first structured op of ``@main``."""
    with parsed(text) as main:
        yield next(view for op in walk(main) if (view := structured(op)) is not None)

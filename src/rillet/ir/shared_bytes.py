"""Elements of four bits or fewer that share bytes: the body of a structured op shifts the byte that it reads."""

from __future__ import annotations

from torch_mlir import ir

from rillet.ir.panels import packed_axes, unshared
from rillet.ir.rewrite import defining, int_constant
from rillet.ir.structured import Structured, index_loop

_WIDENED_AS_SIGNED = {"arith.extsi": True, "arith.sitofp": True, "arith.extui": False, "arith.uitofp": False}


def shared_byte(view: Structured, value: ir.Value) -> int | None:
    """The number of the input whose bytes hold several elements, when ``value`` is the one at the place in the last
    loop of the result (the byte shifted by a multiple of that place, and cut off); else None."""
    cut = defining(value, "arith.trunci")
    shifted = None if cut is None else defining(cut.operands[0], "arith.shrui")
    if shifted is None:
        return None
    byte, shift = shifted.operands
    number = view.input_number(byte)
    if number is None or not _is_place(view, shift, number, ir.IntegerType(value.type).width):
        return None
    return number if _is_signed(value) is not None else None


def is_signed(view: Structured, number: int) -> bool | None:
    """Whether the elements that share the bytes of an input are signed; None where they share none."""
    for op in view.body.operations:
        for result in op.operation.results:
            if shared_byte(view, result) == number:
                return _is_signed(result)
    return None


def _is_signed(element: ir.Value) -> bool | None:
    """Whether all ops that widen an element treat it as signed; None when they disagree, or when any other op uses
    it."""
    kinds = {_WIDENED_AS_SIGNED.get(use.owner.operation.name) for use in element.uses}
    return kinds.pop() if len(kinds) == 1 else None


def _is_place(view: Structured, shift: ir.Value, number: int, bits: int) -> bool:
    """Whether ``shift`` is ``bits`` times the column's place among those that share a byte."""
    map_, shared = unshared(view.input_maps[number])
    packed = packed_axes(map_)
    cast = defining(shift, "arith.index_cast")
    if not packed or shared * bits != ir.IntegerType(shift.type).width or cast is None:
        return False
    product = defining(cast.operands[0], "arith.muli")
    if product is None or int_constant(product.operands[1]) != bits:
        return False
    rest = defining(product.operands[0], "arith.remui")
    if rest is None or int_constant(rest.operands[1]) != shared:
        return False
    loop = defining(rest.operands[0], "linalg.index")
    return loop is not None and index_loop(loop) == packed[0][1]

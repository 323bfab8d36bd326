"""A dispatch runs after the assertions that come before any of its operations."""

from __future__ import annotations

from rillet import dispatch
from tests.support.ir_check import lower
from tests.support.stages import passes

MAPS = "affine_map<(i) -> (i)>, affine_map<(i) -> (i)>"


def added(a: str, b: str) -> str:
    """The sum of two tensors of the shape of %e."""
    return f"""linalg.generic {{indexing_maps = [{MAPS}, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}}
        ins({a}, {b} : tensor<?xf32>, tensor<?xf32>) outs(%e : tensor<?xf32>) {{
      ^bb0(%p: f32, %q: f32, %r: f32):
        %s = arith.addf %p, %q : f32
        linalg.yield %s : f32
    }} -> tensor<?xf32>"""


def test_a_fused_dispatch_waits_for_the_assertion_between_its_members() -> None:
    program = lower(
        f"""
      func.func @main(%a: tensor<?xf32>, %b: tensor<?xf32>) -> tensor<?xf32> {{
        %c0 = arith.constant 0 : index
        %d = tensor.dim %a, %c0 : tensor<?xf32>
        %n = tensor.dim %b, %c0 : tensor<?xf32>
        %e = tensor.empty(%d) : tensor<?xf32>
        %x = {added("%a", "%a")}
        %same = arith.cmpi eq, %d, %n : index
        cf.assert %same, "{{0}} is not {{1}}"
        %y = {added("%x", "%b")}
        return %y : tensor<?xf32>
      }}""",
        passes("dispatch"),
    )
    dispatch.check(program)
    names = [op.operation.name for op in program.main().regions[0].blocks[0].operations]
    assert names.count("func.call") == 1
    assert names.index("cf.assert") < names.index("func.call")


def test_a_dispatch_that_decides_an_assertion_runs_before_it() -> None:
    program = lower(
        f"""
      func.func @main(%a: tensor<?xf32>, %b: tensor<?xf32>) -> tensor<?xf32> {{
        %c0 = arith.constant 0 : index
        %d = tensor.dim %a, %c0 : tensor<?xf32>
        %e = tensor.empty(%d) : tensor<?xf32>
        %x = {added("%a", "%a")}
        %first = tensor.extract %x[%c0] : tensor<?xf32>
        %zero = arith.constant 0.0 : f32
        %fine = arith.cmpf oge, %first, %zero : f32
        cf.assert %fine, "negative"
        %y = {added("%x", "%b")}
        return %y : tensor<?xf32>
      }}""",
        passes("dispatch"),
    )
    dispatch.check(program)
    names = [op.operation.name for op in program.main().regions[0].blocks[0].operations]
    assert [n for n in names if n in ("cf.assert", "func.call")] == ["func.call", "cf.assert", "func.call"]

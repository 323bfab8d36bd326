"""A kernel whose elements are found by a loop."""

from __future__ import annotations


def chain_lengths(rows: int | str, columns: int, seeds: int) -> str:
    """``result[r, c]``: the sum over ``seeds`` of ``(steps + c) * weight[c]``, where so many steps of halving or of
    adding one bring ``x[r] + seed`` to 1, at most ``seed`` of them. The walk does not depend on c."""
    r = f"tensor<{rows}x{columns}xi32>"
    note = " {flow.dims = array<i64: 3>}" if rows == "?" else ""
    n = ", %n: index" if rows == "?" else ""
    seed = f"tensor<{seeds}xi32>"
    return f"""
module {{ func.func @k(%x: tensor<{rows}xi32>{note}, %seeds: {seed}, %w: tensor<{columns}xi32>{n}) -> ({r}{note}) {{
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %e = tensor.empty({"%n" if rows == "?" else ""}) : {r}
  %init = linalg.fill ins(%zero : i32) outs(%e : {r}) -> {r}
  %sum = linalg.generic {{
    indexing_maps = [affine_map<(r, c, s) -> (r)>, affine_map<(r, c, s) -> (s)>, affine_map<(r, c, s) -> (c)>,
                     affine_map<(r, c, s) -> (r, c)>],
    iterator_types = ["parallel", "parallel", "reduction"]
  }} ins(%x, %seeds, %w : tensor<{rows}xi32>, {seed}, tensor<{columns}xi32>) outs(%init : {r}) {{
  ^bb0(%a: i32, %seed: i32, %weight: i32, %old: i32):
    %start = arith.addi %a, %seed : i32
    %end:2 = scf.while (%v = %start, %count = %zero) : (i32, i32) -> (i32, i32) {{
      %above = arith.cmpi sgt, %v, %one : i32
      %few = arith.cmpi slt, %count, %seed : i32
      %more = arith.andi %above, %few : i1
      scf.condition(%more) %count, %v : i32, i32
    }} do {{
    ^bb1(%count: i32, %v: i32):
      %odd = arith.andi %v, %one : i32
      %half = arith.shrui %v, %one : i32
      %up = arith.addi %v, %one : i32
      %is_odd = arith.cmpi eq, %odd, %one : i32
      %next = arith.select %is_odd, %up, %half : i32
      %longer = arith.addi %count, %one : i32
      scf.yield %next, %longer : i32, i32
    }}
    %c = linalg.index 1 : index
    %column = arith.index_cast %c : index to i32
    %both = arith.addi %end#0, %column : i32
    %share = arith.muli %both, %weight : i32
    %new = arith.addi %old, %share : i32
    linalg.yield %new : i32
  }} -> {r}
  return %sum : {r}
}} }}"""

"""What is decided about contractions: how factors are read, and what is done with few rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from torch_mlir import ir

from rillet import targets
from rillet.codegen.cpu.contraction.plan import ContractionPlan, LhsSupply
from rillet.codegen.cpu.contraction.planner import make_plan
from rillet.codegen.recognize.kernel_function import KernelFunction
from rillet.ir import make_context
from tests.support.kernel_texts import batched, depthwise, matmul, narrow_product


@contextmanager
def planned(text: str, target: str = "x86-64-v3") -> Iterator[ContractionPlan]:
    with make_context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        (nested,) = module.body.operations
        plan = make_plan(KernelFunction(ir.Module.parse(str(nested))), targets.get(target))
        assert plan is not None
        yield plan


def test_a_packed_rhs_is_read_where_it_lies() -> None:
    with planned(matmul(8, 32, 16)) as plan:
        assert [axis.extent for axis in (*plan.axes.batch, *plan.axes.m, *plan.axes.k)] == [8, 16]
        assert plan.axes.lhs_is_flat and plan.axes.k_is_known
        assert plan.lhs == LhsSupply()
        assert (plan.rhs.pack, plan.rhs.computes, plan.rhs.element_bytes) == (False, False, 4)
        assert (
            not plan.integers and not plan.copies_lhs and not plan.in_parts and plan.fewer == () and plan.direct is None
        )


def test_an_rhs_whose_columns_lie_apart_is_copied_to_a_panel() -> None:
    with planned(batched(("3x8x24", "3x40x24", "3x8x40"), ("b, m, k", "b, n, k", "b, m, n"))) as plan:
        assert plan.rhs.pack and not plan.rhs.computes
        assert [axis.extent for axis in plan.axes.batch] == [3]


@pytest.mark.parametrize(("m", "packs"), [(1, False), (64, True)])
def test_factors_are_computed_once_in_scratch_where_many_rows_use_them(m: int, packs: bool) -> None:
    with planned(narrow_product(m, 32, 4, 32)) as plan:
        assert plan.rhs.computes
        assert plan.rhs.pack is packs
        assert plan.rhs.element_bytes == (4 if packs else 1)


def test_neighbours_of_the_lhs_are_read_together_where_products_take_a_lane() -> None:
    with planned(matmul(8, 32, 16), "aarch64") as plan:
        assert plan.lhs.run == plan.tile.lanes == 4


def test_tiles_of_few_rows_have_more_columns_where_it_is_not_known_how_many_there_are() -> None:
    text = batched(
        ("1x?x16", "1x24x16x16", "1x?x384"), ("b, m, k", "b, n floordiv 16, k, n mod 16", "b, m, n"), "2||2", "m"
    )
    with planned(text) as plan:
        assert plan.in_parts and plan.direct is None
        tiles = [*(variant.tile for variant in plan.fewer), plan.tile]
        assert [t.rows for t in tiles] == sorted({t.rows for t in tiles}) and tiles[0].rows == 1
        assert [t.vectors for t in tiles] == sorted({t.vectors for t in tiles}, reverse=True) and len(tiles) > 1
        for tile in tiles:
            assert plan.together % tile.columns == 0
        assert plan.blocks.columns % plan.together == 0
        assert all(v.blocks == plan.blocks and v.together == plan.together for v in plan.fewer)


def test_rows_known_to_fill_tiles_go_in_no_parts() -> None:
    text = batched(
        ("?x240x16", "1x24x16x16", "?x240x384"),
        ("b, m, k", "0, n floordiv 16, k, n mod 16", "b, m, n"),
        "2||2",
        "count",
    )
    with planned(text) as plan:
        assert not plan.in_parts and plan.fewer == () and 240 % plan.tile.rows == 0


def test_what_is_no_contraction_has_no_plan() -> None:
    text, _ = depthwise(1, (9, 9), 16, (3, 3), 1, 1)
    with make_context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        (nested,) = module.body.operations
        assert make_plan(KernelFunction(ir.Module.parse(str(nested))), targets.get("x86-64-v3")) is None

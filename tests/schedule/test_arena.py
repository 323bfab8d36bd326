from __future__ import annotations

from collections.abc import Callable

import pytest
from torch_mlir import ir

from rillet import schedule
from rillet.ir import Program
from tests.support import networks
from tests.support.flow_text import FlowKernel, module
from tests.support.ir_check import check, lower, main_text


def attribute(program: Program, name: str) -> int:
    return int(ir.IntegerAttr(program.module.operation.attributes[name]).value)


@pytest.mark.parametrize(
    "network", [networks.mobilenet_v2, networks.resnet, networks.inception, networks.unet, lambda: networks.chain(200)]
)
def test_arena_is_within_five_percent_of_its_lower_bound(network: Callable[[], str]) -> None:
    program = lower(network(), schedule.passes())
    arena, bound = attribute(program, "stream.arena_bytes"), attribute(program, "stream.arena_lower_bound")
    assert bound > 0
    assert arena <= 1.05 * bound


def test_mobilenet_needs_its_two_largest_neighbours() -> None:
    program = lower(networks.mobilenet_v2(), schedule.passes())
    # The widest layer, 112x112x96, and the 56x56x96 computed from it.
    assert attribute(program, "stream.arena_bytes") == 4 * 96 * (112 * 112 + 56 * 56)


def test_static_ranges() -> None:
    text = module(
        {"f": FlowKernel("tensor<8xf32>", ("tensor<8xf32>",)), "g": FlowKernel("tensor<8xf32>", ("tensor<100xf32>",))},
        """
        // CHECK: %[[SIZE:.*]] = arith.constant 960 : index
        // CHECK: %[[ARENA:.*]] = "stream.alloc"(%[[SIZE]]) {lifetime = "transient"}
        // CHECK-NOT: lifetime = "transient"
        // CHECK: stream.dispatch
        func.func @main(%x: tensor<8xf32>) -> tensor<100xf32> {
          %0 = func.call @f(%x) : (tensor<8xf32>) -> tensor<8xf32>
          %1 = func.call @g(%0) : (tensor<8xf32>) -> tensor<100xf32>
          %2 = func.call @f(%0) : (tensor<8xf32>) -> tensor<8xf32>
          %3 = func.call @g(%2) : (tensor<8xf32>) -> tensor<100xf32>
          %4 = func.call @h(%1, %3) : (tensor<100xf32>, tensor<100xf32>) -> tensor<100xf32>
          return %4 : tensor<100xf32>
        }
        func.func private @h(tensor<100xf32>, tensor<100xf32>) -> tensor<100xf32>
            attributes {flow.kernel = @kernels::@f}
        """,
    )
    # While %3 is computed from %2, %1 waits: 448 + 64 + 448, each rounded up to 64 bytes.
    program = lower(text, schedule.passes())
    check(main_text(program), text)
    assert attribute(program, "stream.arena_bytes") == attribute(program, "stream.arena_lower_bound") == 960


def test_sizes_of_one_extent_share_an_arena() -> None:
    grow = FlowKernel("tensor<?x4xf32>, index", ("tensor<?x8xf32>",), ((1,),))
    shrink = FlowKernel("tensor<?x8xf32>, index", ("tensor<?x4xf32>",), ((1,),))
    text = module(
        {"grow": grow, "shrink": shrink},
        """
        // CHECK: %[[N:.*]] = "stream.view_dim"
        // CHECK: %[[UNITS:.*]] = arith.ceildivsi %[[N]], %c4
        // CHECK: "stream.alloc"({{.*}}) {lifetime = "transient"}
        // CHECK-NOT: lifetime = "transient"
        // CHECK: stream.execute
        func.func @main(%x: tensor<?x4xf32>) -> tensor<?x4xf32> {
          %c0 = arith.constant 0 : index
          %n = tensor.dim %x, %c0 : tensor<?x4xf32>
          %0 = func.call @grow(%x, %n) : (tensor<?x4xf32>, index) -> tensor<?x8xf32>
          %1 = func.call @shrink(%0, %n) : (tensor<?x8xf32>, index) -> tensor<?x4xf32>
          %2 = func.call @grow(%1, %n) : (tensor<?x4xf32>, index) -> tensor<?x8xf32>
          %3 = func.call @shrink(%2, %n) : (tensor<?x8xf32>, index) -> tensor<?x4xf32>
          return %3 : tensor<?x4xf32>
        }
        """,
    )
    program = lower(text, schedule.passes())
    check(main_text(program), text)
    assert attribute(program, "stream.arena_bytes") == 0  # counts static memory only

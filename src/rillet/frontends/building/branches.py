"""Two ways to compute a tensor; the host chooses one in each call."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch_mlir import ir
from torch_mlir.dialects import scf

from rillet.frontends.building.builder import Builder
from rillet.frontends.building.element_types import element_type
from rillet.frontends.building.extent_arithmetic import Flag
from rillet.frontends.building.tensor import Tensor
from rillet.ir import builders
from rillet.ir.builders import Extent
from rillet.ir.structured import DYNAMIC


def either(
    b: Builder,
    condition: Flag,
    first: Callable[[], Tensor],
    second: Callable[[], Tensor],
    dtype: str,
    shape: Sequence[Extent],
) -> Tensor:
    """``first()`` if the condition holds, else ``second()``. Both give a tensor of ``dtype``, and of ``shape`` or a
    more static one.
    """
    if isinstance(condition, bool):
        return first() if condition else second()
    type_ = ir.RankedTensorType.get([d if isinstance(d, int) else DYNAMIC for d in shape], element_type(dtype))
    branch = scf.IfOp(condition, [type_], has_else=True)
    for region, compute in zip(branch.operation.regions, (first, second), strict=True):
        b.extents.push()
        with ir.InsertionPoint(region.blocks[0]):
            scf.YieldOp([builders.cast(b.value(compute()), shape)])
        b.extents.pop()
    return b.tensor(branch.operation.results[0], dtype, shape)

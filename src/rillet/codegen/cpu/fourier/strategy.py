"""Fast Fourier transforms of rows: several side by side, or one at a time (docs/decisions/0024)."""

from __future__ import annotations

from torch_mlir import ir

from rillet.codegen import index
from rillet.codegen.cpu.fourier.one_row import OneRow
from rillet.codegen.cpu.fourier.plan import FourierPlan, make_plan
from rillet.codegen.cpu.fourier.side_by_side import SideBySide
from rillet.codegen.cpu.machine import CpuTarget
from rillet.codegen.emit.extents import loop_sizes
from rillet.codegen.emit.kernel import KernelBuilder
from rillet.codegen.recognize.kernel_function import KernelFunction


class FourierStrategy:
    """See the module's docstring."""

    name = "fourier"
    vectorize_loops = False
    collapses = False

    def plan(self, function: KernelFunction, target: CpuTarget) -> FourierPlan | None:
        """A plan for a kernel that is one marked transform."""
        return make_plan(function, target)

    def emit(self, plan: FourierPlan, kernel: KernelBuilder) -> None:
        """Emit the kernel as planned."""
        together = plan.lanes if plan.matrix is None else 1
        element = ir.RankedTensorType(plan.root.results[0].type).element_type
        kernel.grid(lambda: [index.ceildiv(index.product(loop_sizes(kernel, plan.root)[:-2]), together)])
        with kernel.body():
            (SideBySide if plan.matrix is None else OneRow)(kernel, plan, element).emit()

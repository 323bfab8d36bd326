"""The CPU backend: strategies that plan and emit kernels, the cost model, legalization and object code."""

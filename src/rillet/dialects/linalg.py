"""linalg's op classes, without the named ops that upstream's module describes anew at each start (50 ms)."""

from torch_mlir.dialects._linalg_ops_gen import CopyOp, FillOp, GenericOp, IndexOp, YieldOp

__all__ = ["CopyOp", "FillOp", "GenericOp", "IndexOp", "YieldOp"]

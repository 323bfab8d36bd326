"""The MLIR frontend: linalg, TOSA or StableHLO text becomes the tensor form."""

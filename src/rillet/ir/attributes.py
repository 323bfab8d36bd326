"""Names of the attributes that pass from stage to stage, other than those of Rillet's dialects."""

# On an argument or result of ``@main``.
NAME = "rillet.name"  # the model's name of the tensor
DTYPE = "rillet.dtype"  # the element type by its numpy or ml_dtypes name
DIMS = "rillet.dims"  # names of the dimensions, or sizes as text, where some are dynamic

# On the declaration of a kernel.
MACS = "rillet.macs"  # multiply-accumulates of one dispatch; on the module: of all dispatches
BYTES = "rillet.bytes"  # the least number of bytes that one dispatch moves

# On the module.
DISPATCH_COUNT = "rillet.dispatch_count"
WEIGHT_BYTES = "rillet.weight_bytes"

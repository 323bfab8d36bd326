"""Names of the attributes that pass from stage to stage, apart from those of Rillet's dialects."""

# On an argument or result of ``@main``.
NAME = "rillet.name"  # the model's
DTYPE = "rillet.dtype"  # numpy's or ml_dtypes' name of the element type
DIMS = "rillet.dims"  # where some are dynamic: their names, or sizes as text

# On the declaration of a kernel.
MACS = "rillet.macs"  # multiply-accumulates of one dispatch; on the module: of all dispatches
BYTES = "rillet.bytes"  # that one dispatch moves at least

# On the module.
DISPATCH_COUNT = "rillet.dispatch_count"
WEIGHT_BYTES = "rillet.weight_bytes"

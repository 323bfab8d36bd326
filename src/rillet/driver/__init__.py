"""Takes a source through the pipeline: options, targets, lowering, the module file, compile."""

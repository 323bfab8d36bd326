"""Code generation: one kernel (text) becomes one object file. See docs/reference/flow-form.md and kernel-abi.md."""

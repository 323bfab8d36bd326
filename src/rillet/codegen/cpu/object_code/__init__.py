"""From a kernel module to object files: LLVM, linking, reading ELF and WebAssembly, stack bounds."""

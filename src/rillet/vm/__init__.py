"""hal → vm → bytecode: the host program as a register machine's code."""

from __future__ import annotations

from rillet.ir.passes import Pass
from rillet.vm import convert_to_vm
from rillet.vm.disassemble import disassemble
from rillet.vm.encode import encode
from rillet.vm.form import check

__all__ = ["check", "disassemble", "encode", "passes"]


def passes() -> list[Pass]:
    """The passes of this stage, in order."""
    return [Pass("convert-to-vm", "vm", convert_to_vm.run, convert_to_vm.Options())]

"""The target description, in parts: how constants are packed, how code is deployed, and the machine that runs it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, Protocol, Self, TypeVar


class Machine(Protocol):
    """The machine that runs the code: the facts that every backend describes, besides those that only the backend
    reads."""

    @property
    def arch(self) -> str:
        """The instruction set, as a module file names it."""
        ...

    @property
    def features(self) -> tuple[str, ...]:
        """Features that the code may use beyond the architecture; a loader requires each of them."""
        ...

    @property
    def label(self) -> str:
        """The machine's name in messages and records."""
        ...

    @property
    def identity(self) -> Mapping[str, object]:
        """Everything that picks machine code, as JSON can hold it: choices measured on one machine serve all equal
        ones."""
        ...

    @property
    def rank(self) -> tuple[int, ...]:
        """A key for the loader: of several targets in one file, it takes the highest one whose features are all
        present."""
        ...

    @property
    def obstacle(self) -> str | None:
        """Why this machine cannot run code for it, as half a sentence; None where it can."""
        ...

    def refined(self) -> Self:
        """This machine's description, with facts from the operating system; for a machine that can run the code."""
        ...


@dataclass(frozen=True)
class Packing:
    """How packed rhs of contractions lie in memory. Targets that share one file agree on ``columns``."""

    columns: int = 16  # of a panel
    steps: int = 1  # of a reduction of 8-bit integers that lie together in a panel
    ways: int = 1  # their order: by their numbers modulo this, then by the quotients


@dataclass(frozen=True)
class Deployment:
    """How code gets onto the machine, and what the machine provides."""

    has_loader: bool = True  # a runtime there loads module files; False: models with fixed shapes are exported
    freestanding: bool = False  # programs bring everything themselves: no operating system, no C library
    position_independent: bool = True  # the loader chooses the address; False: the linker does
    threads: bool = True  # False: one core, so that a kernel is not split into workgroups
    roomy: bool = True  # memory for copies that save time: padded tensors, transformed weights
    small_code: bool = False  # code is scarcer than time: no further loops for special shapes
    stack_bound: bool = False  # an upper bound of the stack is computed and reported
    c_flags: tuple[str, ...] = ()  # clang's flags that select this target, for exported C


M = TypeVar("M", bound=Machine, covariant=True)


@dataclass(frozen=True)
class Target(Generic[M]):
    """A machine that the compiler generates code for. ``backend`` generates it, and defines the type of ``machine``."""

    name: str
    backend: str
    packing: Packing
    deployment: Deployment
    machine: M

    @property
    def obstacle(self) -> str | None:
        """Why this machine cannot run code for it, as half a sentence; None where it can."""
        if not self.deployment.has_loader:
            return "this machine has another architecture"
        return self.machine.obstacle

    @property
    def runs_here(self) -> bool:
        """Whether this machine has the architecture, the operating system and every feature, as the loader asks."""
        return self.obstacle is None

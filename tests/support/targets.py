"""Built-in targets with one part changed."""

from __future__ import annotations

import dataclasses
from typing import Any

from rillet.targets import Target


def with_machine(target: Target, **changes: Any) -> Target:
    """The target on a machine that differs in these fields."""
    return dataclasses.replace(target, machine=dataclasses.replace(target.machine, **changes))


def with_deployment(target: Target, **changes: Any) -> Target:
    """The target deployed in another way."""
    return dataclasses.replace(target, deployment=dataclasses.replace(target.deployment, **changes))

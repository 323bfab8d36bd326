"""The known targets: the built-in ones by name, those that files describe, and the machine the compiler runs on."""

from __future__ import annotations

import dataclasses
import functools
import os
import platform
from importlib import resources
from pathlib import Path

from rillet.errors import CompileError
from rillet.support.suggestions import did_you_mean
from rillet.targets.description import read
from rillet.targets.target import Machine, Target

HOST = "RILLET_HOST"
"""The environment variable that names the built-in target which ``host`` means. Worker processes inherit it."""

_HOST_BACKEND = "cpu"  # the host program runs on a CPU


def names() -> list[str]:
    """The names of the built-in targets, sorted."""
    return sorted(f.name.removesuffix(".toml") for f in _data().iterdir() if f.name.endswith(".toml"))


def get(name: str) -> Target[Machine]:
    """The target called ``name``; ``"host"`` is this machine, and a name that ends in ``.toml`` a file's path.

    Raises ``CompileError`` for an unknown name, and naming the file and the field for a description with a fault.
    """
    if name == "host":
        return host()
    if name.endswith(".toml"):
        return read(Path(name))
    if name not in names():
        known = ["host", *names()]
        raise CompileError(f"unknown target '{name}'{did_you_mean(name, known)}; known targets: {', '.join(known)}")
    return _built_in(name)


def host() -> Target[Machine]:
    """This machine: the best built-in target that it supports, refined by what the operating system says of it.

    ``$RILLET_HOST`` names a built-in target to take unchanged instead, so that one machine compiles as another does.
    Raises ``CompileError`` where no target fits, or the named one does not.
    """
    forced = os.environ.get(HOST)
    return _forced_host(forced) if forced else _detected_host()


def _forced_host(name: str) -> Target[Machine]:
    if name not in names():
        close = did_you_mean(name, names())
        raise CompileError(f"{HOST}: unknown target '{name}'{close}; known targets: {', '.join(names())}")
    target = _built_in(name)
    if target.obstacle:
        raise CompileError(f"{HOST}: the host cannot be {name}, since {target.obstacle}")
    return dataclasses.replace(target, name="host")


@functools.cache
def _detected_host() -> Target[Machine]:
    fitting = [t for t in map(_built_in, names()) if t.backend == _HOST_BACKEND and t.runs_here]
    if not fitting:
        raise CompileError(
            f"no built-in target fits this machine ({platform.machine()}); choose one of: {', '.join(names())}"
        )
    best = max(fitting, key=lambda t: t.machine.rank)
    return dataclasses.replace(best, name="host", machine=best.machine.refined())


def _data() -> resources.abc.Traversable:
    return resources.files("rillet.targets") / "data"


@functools.cache
def _built_in(name: str) -> Target[Machine]:
    return read(_data() / f"{name}.toml")

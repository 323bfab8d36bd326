"""The errors Rillet raises. Each message names the node, file or argument at fault and what to do about it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

_ON_COMMAND_LINE = ContextVar("rillet_on_command_line", default=False)


class RilletError(Exception):
    """Base class of every error Rillet raises on purpose."""


class CompileError(RilletError):
    """The source model is invalid, or a compiler stage failed on it."""


@dataclass(frozen=True)
class UnsupportedNode:
    """One node that cannot be compiled: which one, why, and what the user can do."""

    name: str
    op: str
    opset: int  # 0: the model imports none for the op's domain
    reason: str
    advice: str = ""

    def __str__(self) -> str:
        version = f" (opset {self.opset})" if self.opset else ""
        text = f"{self.op} '{self.name}'{version}: {self.reason}"
        return f"{text}; {self.advice}" if self.advice else text


class UnsupportedError(CompileError):
    """Lists every unsupported node of the model at once, in ``nodes``."""

    def __init__(self, nodes: Sequence[UnsupportedNode]):
        self.nodes = tuple(nodes)
        lines = "\n".join(f"  - {node}" for node in self.nodes)
        plural = "node is" if len(self.nodes) == 1 else "nodes are"
        super().__init__(f"{len(self.nodes)} {plural} not supported:\n{lines}")


class LoadError(RilletError):
    """A module file is damaged, of another version, or for another CPU."""


class RunError(RilletError):
    """A call failed: wrong inputs, or an error the model itself defines (an index out of range, say).

    ``entry``: where a kernel failed on its data, its position in ``Module.entries``.
    """

    entry: int | None = None


class SaveError(RilletError):
    """A file could not be written; what was there before is as it was. The ``OSError`` is its ``__cause__``."""


@contextmanager
def command_line() -> Iterator[None]:
    """Within it, advice is in options of the ``rillet`` command instead of Python's arguments."""
    token = _ON_COMMAND_LINE.set(True)
    try:
        yield
    finally:
        _ON_COMMAND_LINE.reset(token)


def advice(python: str, command: str) -> str:
    """Whichever of the two the reader of a message can use: an argument in Python, or an option of a command."""
    return command if _ON_COMMAND_LINE.get() else python


def missing_package(error: ImportError) -> str | None:
    """What to install where the compiler half's packages are missing; None for any other failure to import."""
    missing = error.__cause__ or error
    package = missing.name.partition(".")[0] if isinstance(missing, ModuleNotFoundError) and missing.name else "rillet"
    return None if package == "rillet" else f"needs the package {package}: {compiler_installation()}"


def compiler_installation() -> str:
    """The command that adds the compiler half to this installation, from where it was installed (PEP 610)."""
    import json
    from importlib.metadata import PackageNotFoundError, distribution
    from urllib.parse import urlsplit
    from urllib.request import url2pathname

    try:
        origin = json.loads(distribution("rillet").read_text("direct_url.json") or "{}")
    except PackageNotFoundError:
        return "pip install '.[compiler]' in Rillet's source folder"
    url = origin.get("url", "")
    if "dir_info" in origin:
        option = "-e " if origin["dir_info"].get("editable") else ""
        return f"pip install {option}'{url2pathname(urlsplit(url).path)}[compiler]'"
    if "vcs_info" in origin:
        url = f"{origin['vcs_info']['vcs']}+{url}@{origin['vcs_info']['commit_id']}"
    return f"pip install 'rillet[compiler] @ {url}'" if url else "pip install 'rillet[compiler]'"

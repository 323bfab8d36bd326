"""Tuning records: small JSON files of choices by kernel structure and target.

A record knows nothing of models. An entry's key is the hash of the kernel's text without its name, and of the target it
was measured on. So one record serves every model and may be shared between machines.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rillet.codegen.cache import default_directory
from rillet.codegen.knobs import Knobs
from rillet.errors import CompileError, advice
from rillet.support.files import save_error, write_atomically
from rillet.targets import Target

FORMAT = "rillet-tuning"
VERSION = 1


@dataclass(frozen=True)
class Entry:
    """The measurements of one kernel on one target. Times are of all its dispatches in one call, on one thread."""

    knobs: Knobs  # the choices that beat the cost model's; empty where none did
    strategy: str  # the kind of kernel
    problem: dict[str, int]  # its extents, for readers of the record
    target: str  # the label of the machine it was measured on
    model_us: float  # microseconds with the cost model's choices
    tuned_us: float  # the same with these choices


@dataclass(frozen=True)
class Record:
    """Entries by key. ``named``: the path by which the caller named the record; None for the default record."""

    entries: dict[str, Entry] = field(default_factory=dict)
    named: str | None = field(default=None, compare=False)

    def knobs_of(self, kernel_texts: Sequence[tuple[str, str]], target: Target) -> dict[str, Knobs]:
        """The choices for kernels (name, module text), by name; the cost model chooses for names that are missing."""
        found = ((name, self.entries.get(key(name, text, target))) for name, text in kernel_texts)
        return {name: entry.knobs for name, entry in found if entry is not None and entry.knobs.given()}

    def warn_unless_used(self, kernel_texts: Sequence[tuple[str, str]], targets: Sequence[Target]) -> None:
        """Warn the caller who named this record when it knows none of these kernels on any of the targets."""
        if self.named is None or any(key(n, text, t) in self.entries for t in targets for n, text in kernel_texts):
            return
        where = sorted({t.machine.label for t in targets})
        measured = sorted({entry.target for entry in self.entries.values()})
        here = sum(entry.target in where for entry in self.entries.values())
        if here:
            how = advice("inputs= and dims=", "--shape and --dim")
            reason = f"a kernel is known by its shapes, too, so tune and compile with the same {how}"
        else:
            reason = "choices are those of one CPU: run 'rillet tune' on this one" if measured else _REMEDY
        warnings.warn(
            f"not tuned: of the {len(self.entries)} kernels in the tuning record '{self.named}' (measured on: "
            f"{', '.join(measured) or 'none'}) none is one of this model's {len(kernel_texts)} on {', '.join(where)}; "
            f"{reason}",
            RuntimeWarning,
            stacklevel=3,
        )

    def merged(self, newer: Record) -> Record:
        """Both records' entries; where both have one, the newer's."""
        return Record({**self.entries, **newer.entries})

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the whole record or, with a ``SaveError``, nothing. Makes the folder that it goes into."""
        try:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise save_error(path, error) from error
        facts = {
            "format": FORMAT,
            "version": VERSION,
            "kernels": {name: _facts(entry) for name, entry in sorted(self.entries.items())},
        }
        write_atomically(path, json.dumps(facts, indent=1).encode())

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Record:
        """Read a record. Raises ``CompileError`` saying what is wrong with the file."""
        try:
            facts = json.loads(Path(path).read_text(encoding="utf-8"))
        except OSError as error:
            raise CompileError(f"cannot read the tuning record '{path}': {error.strerror}") from error
        except ValueError as error:
            raise CompileError(f"the tuning record '{path}' is no JSON: {error}; {_REMEDY}") from error
        except RecursionError as error:
            raise CompileError(f"the tuning record '{path}' is nested too deeply; {_REMEDY}") from error
        if not isinstance(facts, dict) or facts.get("format") != FORMAT:
            raise CompileError(f'\'{path}\' is no tuning record: it does not say "format": "{FORMAT}"')
        if facts.get("version") != VERSION:
            raise CompileError(
                f"the tuning record '{path}' has version {facts.get('version')!r}, "
                f"this Rillet reads version {VERSION}; {_REMEDY}"
            )
        kernels = facts.get("kernels")
        if not isinstance(kernels, dict):
            raise CompileError(f"the tuning record '{path}' has no \"kernels\"; {_REMEDY}")
        return Record({name: _entry(path, name, entry) for name, entry in kernels.items()})


_REMEDY = "make it anew with 'rillet tune'"


def default_path() -> Path:
    """The record that is used unless the caller names one: ``$RILLET_TUNING``, or ``tuning.json`` beside the cache."""
    return Path(os.environ.get("RILLET_TUNING") or default_directory() / "tuning.json")


def resolve(tuning: bool | str | os.PathLike[str]) -> Record | None:
    """The record for ``compile``'s argument: True the default one if it exists, False none, else a path.

    A named record must be valid (``CompileError``). A bad default record, or a missing one that ``$RILLET_TUNING``
    names, is ignored with a warning: the call did not ask for it, and only speed depends on it.
    """
    if not isinstance(tuning, bool | str | os.PathLike):
        raise CompileError(f"tuning must be True, False or the path of a tuning record, not {tuning!r}")
    if tuning is False:
        return None
    if tuning is not True:
        return dataclasses.replace(Record.load(tuning), named=os.fspath(tuning))
    path = default_path()
    if not path.exists():
        if os.environ.get("RILLET_TUNING"):
            message = f"not tuned: there is no file '{path}', which RILLET_TUNING names; make it with 'rillet tune'"
            warnings.warn(message, RuntimeWarning, stacklevel=3)
        return None
    try:
        return Record.load(path)
    except CompileError as error:
        warnings.warn(f"not tuned: {error}", RuntimeWarning, stacklevel=3)
        return None


def key(name: str, text: str, target: Target) -> str:
    """The key of a kernel on a target: its text without its name, and everything that picks machine code."""
    structure = re.sub(rf"@{re.escape(name)}(?![\w$.])", "@kernel", text)
    identity = dict(target.machine.identity)
    return hashlib.sha256(json.dumps([structure, identity], sort_keys=True).encode()).hexdigest()[:32]


def _facts(entry: Entry) -> dict[str, Any]:
    facts = dataclasses.asdict(entry)
    facts["knobs"] = entry.knobs.given()
    return facts


def _entry(path: str | os.PathLike[str], name: str, facts: Any) -> Entry:
    where = f"the tuning record '{path}', kernel {name}"
    if not isinstance(facts, Mapping):
        raise CompileError(f"{where}: expected an object, found {facts!r}; {_REMEDY}")
    types = {"strategy": str, "target": str, "problem": Mapping, "knobs": Mapping, "model_us": float, "tuned_us": float}
    for field_name, expected in types.items():
        value = facts.get(field_name)
        if not isinstance(value, (expected, int) if expected is float else expected) or isinstance(value, bool):
            raise CompileError(f"{where}: '{field_name}' is missing or of the wrong type; {_REMEDY}")
    if unknown := sorted(set(facts) - set(types)):
        raise CompileError(f"{where}: there is no field '{unknown[0]}'; {_REMEDY}")
    try:
        knobs = Knobs.parse(facts["knobs"])
    except ValueError as error:
        raise CompileError(f"{where}: {error}; {_REMEDY}") from error
    return Entry(**{**facts, "knobs": knobs, "problem": dict(facts["problem"])})

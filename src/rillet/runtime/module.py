"""Loaded modules, as ``rillet.load`` and ``rillet.compile`` return them."""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from rillet.errors import LoadError, RunError
from rillet.runtime import _native, inputs, maps, strings
from rillet.runtime.cpus import available_cores
from rillet.runtime.pending import Pending
from rillet.runtime.specs import TensorSpec, tensor_spec
from rillet.support.files import path_text, write_atomically
from rillet.support.suggestions import suggests_keywords

MOST_THREADS = 1024  # that a call can use
# The sharing of a module's device (native_sharing_t of the extension).
_ONE_THREAD, _ALL_CORES, _OWN = range(3)
_MAPPINGS = dict, Mapping  # to look for a protocol takes longer than to find a class
# A module file exports one function that callers see.
_MAIN = 0


class Module:
    """A compiled model. Call it with arrays; any number of threads may do so at the same time."""

    def __init__(self, native: _native.Module, threads: int | None = None, profile: bool = False) -> None:
        """``threads`` and ``profile``: the arguments it was loaded with, for copies in other processes."""
        facts = native.facts()
        if not facts["exports"]:
            raise LoadError("the module exports no function")
        exports = [
            ([tensor_spec(*spec) for spec in ins], [tensor_spec(*spec) for spec in outs])
            for _, ins, outs in facts["exports"]
        ]
        native.bind(
            np.ndarray,
            tuple((tuple(s.carrier for s in ins), tuple(s.dtype for s in outs)) for ins, outs in exports),
        )
        self._loaded_with = (threads, profile)
        self._native = native
        self._facts = facts
        self._invoke = native.invoke
        self._tensors = tuple(exports[_MAIN][0])  # the tensors that the runtime takes
        self._inputs, self._arrays = (strings.grouped(specs) for specs in exports[_MAIN])
        self._outputs = maps.grouped(self._arrays)
        self._has_strings = any(spec.dtype == strings.OBJECT for spec in (*self._inputs, *self._arrays))
        self._has_maps = self._outputs != self._arrays
        self._input_count = len(self._inputs)
        self._pick = inputs.picker(self._inputs)
        self._output_names = tuple(spec.name for spec in self._outputs)
        self._single = len(self._outputs) == 1

    def __call__(self, /, *arrays: Any, **named: Any) -> np.ndarray | tuple[np.ndarray, ...]:
        """Run the model on its inputs, by position or by name.

        An array must have the input's element type; one that is not contiguous is copied, one of the other byte order
        converted. Python numbers and lists take the input's type; strings go in and come out as arrays of ``str``
        objects. Returns the output, or a tuple when the model has several; the arrays are the caller's to keep and to
        change. A sequence of maps (ONNX's ZipMap) is a list of dicts. Raises ``RunError`` naming the input at fault.
        """
        if named or len(arrays) != self._input_count:
            arrays = inputs.arrange(self._inputs, arrays, named)
        return self._finished(self._begin(self._invoke, arrays))

    def run(self, feeds: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """Run the model on inputs by name and return its outputs by name. See ``__call__``."""
        if not isinstance(feeds, _MAPPINGS):
            raise RunError(
                f"run takes a mapping of arrays by input name, not {type(feeds).__name__}; "
                "call the module itself with arrays in order"
            )
        try:
            arrays = self._pick(feeds) if len(feeds) == self._input_count else None
        except KeyError:
            arrays = None
        if arrays is None:
            arrays = inputs.arrange(self._inputs, (), feeds)
        results = self._finished(self._begin(self._invoke, arrays))
        return dict(zip(self._output_names, (results,) if self._single else results, strict=True))

    def submit(self, /, *arrays: Any, **named: Any) -> Pending:
        """Begin a call and return at once. Inputs are as in ``__call__`` and must not change until the call is done.

        The devices work on it while the program goes on, and any number of calls may be pending. A model whose next
        steps depend on its data (loops, shapes) computes here up to that point. Raises ``RunError`` for wrong inputs
        and failed checks of the model; errors of kernels are raised by ``Pending.result``.
        """
        if named or len(arrays) != self._input_count:
            arrays = inputs.arrange(self._inputs, arrays, named)
        return Pending(self._begin(self._native.submit, arrays), self._finished, self._blamed)

    def _begin(self, call: Callable[[int, tuple[Any, ...]], Any], arrays: tuple[Any, ...]) -> Any:
        """The native ``call``'s return value for the inputs in order, which are prepared only if they need it."""
        if self._has_strings:
            arrays = strings.split(self._inputs, arrays)
        try:
            results = call(_MAIN, arrays)
            if results is None:  # some array cannot be used as it is
                prepared = tuple(inputs.prepare(s, a) for s, a in zip(self._tensors, arrays, strict=True))
                results = call(_MAIN, prepared)
        except RunError as error:
            if self._has_strings:
                raise self._blamed(error) from None
            raise
        return results

    def _finished(self, results: tuple[np.ndarray, ...]) -> np.ndarray | tuple[np.ndarray, ...]:
        """The caller's results, made from the runtime's arrays."""
        if self._has_strings:
            results = strings.join(self._arrays, results)
        if self._has_maps:
            results = maps.join(self._outputs, results)
        return results[0] if self._single else results

    def _blamed(self, error: RunError) -> RunError:
        """The error in the model's words."""
        return strings.renamed(self._inputs, error) if self._has_strings else error

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """The model's inputs, in order."""
        return self._inputs

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """The model's outputs, in order."""
        return self._outputs

    @property
    def stats(self) -> dict[str, int]:
        """Figures from compiling: arena, constant and code bytes, multiply-accumulates, number of dispatches."""
        return dict(self._facts["stats"])

    @property
    def libraries(self) -> list[dict[str, Any]]:
        """The variants of the code: target, arch, features, entries, bytes, and which one is ``selected`` here."""
        return [dict(library) for library in self._facts["libraries"]]

    @property
    def devices(self) -> list[dict[str, Any]]:
        """The devices the program asks for: name, driver, what each ``runs_on`` here, ordinals of its ``libraries``."""
        return [dict(device) for device in self._facts["devices"]]

    @property
    def targets(self) -> list[str]:
        """The targets the file has code for, best first."""
        return [library["target"] for library in self._facts["libraries"]]

    @property
    def entries(self) -> list[dict[str, Any]]:
        """The work of one dispatch of each kernel: name, macs, bytes (dynamic extents count as 1), source nodes.

        A kernel that devices of several targets run is listed for each of them.
        """
        sets = dict.fromkeys(tuple(device["libraries"]) for device in self._facts["devices"])
        names = [name for numbers in sets if numbers for name in self._facts["libraries"][numbers[0]]["entries"]]
        facts = self._facts["entry_facts"] or [(0, 0, "")] * len(names)
        return [
            {"name": name, "macs": macs, "bytes": size, "sources": sources}
            for name, (macs, size, sources) in zip(names, facts, strict=True)
        ]

    def take_profile(self) -> list[tuple[str, int, int]]:
        """(kernel, begin, end) in ns of each dispatch since the last time, where loaded with ``profile=True``."""
        return self._native.take_profile()

    def to_bytes(self) -> memoryview:
        """The module file's bytes, without a copy; valid while the module is."""
        return memoryview(self._native)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the module to a file that ``rillet.load`` reads: all of it or, with a ``SaveError``, nothing."""
        write_atomically(path, self.to_bytes())

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled, a module is its file's bytes: it goes to other processes and machines that its code fits."""
        return _restore, (bytes(self.to_bytes()), *self._loaded_with)

    def __copy__(self) -> Module:
        return self  # it does not change

    def __deepcopy__(self, memo: dict[int, Any]) -> Module:
        return self

    def __repr__(self) -> str:
        sides = [", ".join(str(spec) for spec in specs) for specs in (self._inputs, self._outputs)]
        return f"<rillet.Module ({sides[0]}) -> ({sides[1]})>"


def _restore(data: bytes, threads: int | None, profile: bool) -> Module:
    return load(data, threads, profile=profile)


def thread_count(threads: int | None) -> int:
    """The number of threads for ``load``'s argument: None is one for each core. Raises ``LoadError`` for anything but a
    number."""
    if threads is None:
        return available_cores()
    try:
        count = 0 if isinstance(threads, bool) else operator.index(threads)
    except TypeError:
        count = 0
    if not 1 <= count <= MOST_THREADS:
        raise LoadError(f"threads must be a number from 1 to {MOST_THREADS}, not {threads!r}")
    return count


@suggests_keywords
def load(
    source: str | os.PathLike[str] | bytes | bytearray | memoryview,
    threads: int | None = None,
    *,
    profile: bool = False,
    verify: bool = False,
) -> Module:
    """Load a compiled module.

    Args:
        source: a path, whose file is mapped and must not be changed in place while the module is in use; or the file's
            bytes. Memory at a multiple of 64 bytes is used in place and must not change; other memory is copied.
        threads: threads a call uses, the calling one included; None: one for each core this process may use. Modules
            loaded with None share their threads and their working memory, as those with 1 share the latter: of calls
            at the same time one uses the threads and the others run on their own. A module loaded with another number
            has threads of its own.
        profile: record when each dispatch begins and ends, for ``Module.take_profile``; calls then use one thread.
        verify: compare the constants with their checksums, which reads all of them; everything else always is.

    Raises:
        LoadError: the file is missing, damaged, of another version, or for another CPU.
    """
    count = thread_count(threads)
    sharing = _ONE_THREAD if count == 1 else _ALL_CORES if threads is None else _OWN
    if isinstance(source, str | os.PathLike):
        path = path_text(source, "cannot load", LoadError)
        return Module(_native.load_path(path, count, sharing, profile, verify), threads, profile)
    if isinstance(source, memoryview) and not source.c_contiguous:
        raise LoadError("cannot load a module from a memoryview with gaps: pass contiguous bytes")
    if isinstance(source, bytes | bytearray | memoryview):
        return Module(_native.load_bytes(source, count, sharing, profile, verify), threads, profile)
    raise LoadError(f"cannot load a module from {type(source).__name__}: pass a path or the file's bytes")

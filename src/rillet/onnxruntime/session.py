"""``InferenceSession``: a compiled model behind ONNX Runtime's calls."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rillet import runtime
from rillet.errors import RunError
from rillet.onnxruntime.options import LOG, RunOptions, SessionOptions, checked
from rillet.onnxruntime.signature import ModelMetadata, NodeArg, argument, declared, metadata
from rillet.onnxruntime.values import IOBinding, OrtValue

if TYPE_CHECKING:
    import onnx

_CPU = "CPUExecutionProvider"
_MODULE_FILE = b"RLM1"
_Compute = Callable[[Mapping[str, Any]], Sequence[Any]]


class InferenceSession:
    """A model that is compiled when the session is made, and run as often as needed, by any number of threads."""

    def __init__(
        self,
        path_or_bytes: str | os.PathLike[str] | bytes,
        sess_options: SessionOptions | None = None,
        providers: Sequence[str | tuple[str, Mapping[str, Any]]] | None = None,
        provider_options: Sequence[Mapping[str, Any]] | None = None,
        **kwargs: Any,
    ):
        """Compile a model, or load a module file that ``rillet compile`` wrote.

        ``providers``, ``provider_options`` and other keywords are accepted and have no effect: the CPU computes.

        Raises CompileError, UnsupportedError or LoadError; TypeError for options of another kind.
        """
        self._options = checked(sess_options)
        _note_ignored(self._options, providers)
        threads = self._options.intra_op_num_threads or None
        if _is_module_file(path_or_bytes):
            self._take_module(runtime.load(path_or_bytes, threads=threads))
        else:
            self._take_model(path_or_bytes, threads)
        self._output_names = [output.name for output in self._outputs]
        self._required = [value.name for value in self._inputs if not value.type.startswith("optional(")]

    def _take_module(self, module: runtime.Module) -> None:
        self._inputs = [argument(spec) for spec in module.inputs if not spec.has_default]
        self._outputs = [argument(spec) for spec in module.outputs]
        self._overridable = [argument(spec) for spec in module.inputs if spec.has_default]
        self._metadata = ModelMetadata()
        self._compute: _Compute = lambda feeds: tuple(module.run(feeds).values())

    def _take_model(self, source: str | os.PathLike[str] | bytes, threads: int | None) -> None:
        from rillet.frontends.onnx.loader import load_model  # lazy: a module file needs no compiler
        from rillet.onnx_backend.specialize import compile_or_specialize

        if not isinstance(source, str | os.PathLike | bytes):
            raise TypeError(f"Unable to load from type '{type(source)}'")
        model = load_model(source)
        held = {tensor.name for tensor in model.graph.initializer}
        self._inputs = [declared(info) for info in model.graph.input if info.name not in held]
        self._outputs = [declared(info) for info in model.graph.output]
        self._overridable = [declared(info) for info in model.graph.input if info.name in held and model.ir_version > 3]
        self._metadata = metadata(model)
        compiled = compile_or_specialize(model, threads=threads, dims=self._pinned(model))
        self._compute = lambda feeds: compiled.call((), feeds)

    def _pinned(self, model: onnx.ModelProto) -> dict[str, int]:
        names = {d.dim_param for info in model.graph.input for d in info.type.tensor_type.shape.dim}
        return {name: size for name, size in self._options.free_dimensions.items() if name in names}

    def run(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        run_options: RunOptions | None = None,
    ) -> list[Any]:
        """Compute outputs, all of them for None or an empty list, from inputs by name.

        Raises RunError when the inputs do not fit the model or it has no such output; ValueError when one is missing.
        """
        names = self._output_names
        if unknown := [name for name in output_names or () if name not in names]:
            raise RunError(f"the model has no output '{unknown[0]}'; its outputs are: {', '.join(names)}")
        if missing := [name for name in self._required if name not in input_feed]:
            raise ValueError(f"Required inputs ({missing}) are missing from input feed ({list(input_feed)}).")
        feeds = {name: v.numpy() if isinstance(v, OrtValue) else v for name, v in input_feed.items()}
        results = self._compute(feeds)
        if not output_names:
            return list(results)
        by_name = dict(zip(names, results, strict=True))
        return [by_name[name] for name in output_names]

    def run_async(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        callback: Callable[[Sequence[Any], Any, str], None],
        user_data: Any,
        run_options: RunOptions | None = None,
    ) -> None:
        """Run in another thread, which then calls ``callback(results, user_data, error)``; ``error`` is "" or says why
        there are no results."""

        def work() -> None:
            try:
                results, error = self.run(output_names, input_feed, run_options), ""
            except Exception as raised:  # the callback is the one place that can tell the caller
                results, error = [], str(raised)
            callback(results, user_data, error)

        threading.Thread(target=work, daemon=True).start()

    def run_with_ort_values(
        self,
        output_names: Sequence[str] | None,
        input_dict_ort_values: Mapping[str, OrtValue],
        run_options: RunOptions | None = None,
    ) -> list[OrtValue]:
        """``run`` on OrtValues and with OrtValues as results."""
        return [OrtValue(result) for result in self.run(output_names, input_dict_ort_values, run_options)]

    def io_binding(self) -> IOBinding:
        """A binding of this session's inputs and outputs."""
        return IOBinding(self)

    def run_with_iobinding(self, iobinding: IOBinding, run_options: RunOptions | None = None) -> None:
        """Run on what is bound. Raises as ``run`` does, and ValueError when a result does not fit its memory."""
        iobinding.run(self.run)

    def get_inputs(self) -> list[NodeArg]:
        """The inputs, in order."""
        return list(self._inputs)

    def get_outputs(self) -> list[NodeArg]:
        """The outputs, in order."""
        return list(self._outputs)

    def get_overridable_initializers(self) -> list[NodeArg]:
        """The inputs that have a value when they are left out."""
        return list(self._overridable)

    def get_modelmeta(self) -> ModelMetadata:
        """What the model says of itself; a module file says nothing."""
        return self._metadata

    def get_session_options(self) -> SessionOptions:
        """The options that the session was made with."""
        return self._options

    def get_providers(self) -> list[str]:
        """``["CPUExecutionProvider"]``."""
        return [_CPU]

    def get_provider_options(self) -> dict[str, dict[str, str]]:
        """The CPU's options: none."""
        return {_CPU: {}}

    def set_providers(
        self,
        providers: Sequence[str | tuple[str, Mapping[str, Any]]] | None = None,
        provider_options: Sequence[Mapping[str, Any]] | None = None,
    ) -> None:
        """Does nothing: the CPU computes."""
        _note_ignored(self._options, providers)

    def enable_fallback(self) -> None:
        """Does nothing: there is one provider."""

    def disable_fallback(self) -> None:
        """Does nothing: there is one provider."""

    def end_profiling(self) -> str:
        """``""``: no profile is written. ``rillet bench --trace`` writes one."""
        return ""

    def get_profiling_start_time_ns(self) -> int:
        """0: no profile is taken."""
        return 0


def _is_module_file(source: Any) -> bool:
    if isinstance(source, bytes):
        return source.startswith(_MODULE_FILE)
    if not isinstance(source, str | os.PathLike):
        return False
    try:
        with Path(source).open("rb") as file:
            return file.read(len(_MODULE_FILE)) == _MODULE_FILE
    except (OSError, ValueError):
        return False  # the loader of models says what is wrong


def _note_ignored(options: SessionOptions, providers: Sequence[str | tuple[str, Mapping[str, Any]]] | None) -> None:
    names = [provider if isinstance(provider, str) else provider[0] for provider in providers or ()]
    others = [name for name in names if name != _CPU]
    if others:
        LOG.warning("Rillet computes on the CPU; these providers are ignored: %s", ", ".join(others))
    if options.enable_profiling:
        LOG.warning("enable_profiling is ignored; `rillet bench --trace` writes a profile")
    if options.optimized_model_filepath:
        LOG.warning("optimized_model_filepath is ignored; `rillet compile` writes a compiled model")

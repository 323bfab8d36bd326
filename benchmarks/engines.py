"""One adapter for each engine: how a model becomes its artifact, and how an artifact becomes a callable.

`compile` is what a developer does once, `load` what a deployed process does. ONNX Runtime and OpenVINO take the
ONNX file itself as their artifact. Engines are imported on use, so a missing one costs nothing.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from benchmarks import inputs

Arrays = Mapping[str, np.ndarray]
Call = Callable[[], list[np.ndarray]]
"""Runs the model once on the inputs given at load and returns its outputs in graph order."""


class Engine(Protocol):
    """What the harness needs from an engine. Input arrays come in the graph's order."""

    name: str
    package: str

    def compile(self, model: Path, folder: Path) -> Path:
        """Write the deployable artifact into `folder` (or return the model where that is the artifact)."""

    def load(self, artifact: Path, inputs: Arrays, threads: int) -> tuple[Call, dict[str, Any]]:
        """The callable, and facts about the loaded model (may be empty)."""


class Rillet:
    """This project, through its public interface."""

    name = "rillet"
    package = "rillet"

    def compile(self, model: Path, folder: Path) -> Path:
        import rillet

        artifact = folder / f"{model.stem}.rlm"
        rillet.compile(str(model), cache=folder / "cache").save(str(artifact))
        return artifact

    def load(self, artifact: Path, inputs: Arrays, threads: int) -> tuple[Call, dict[str, Any]]:
        import rillet

        module = rillet.load(str(artifact), threads=threads)
        arrays = [inputs[info.name] for info in module.inputs]

        def call() -> list[np.ndarray]:
            result = module(*arrays)
            return list(result) if isinstance(result, tuple) else [result]

        return call, dict(module.stats)


class OnnxRuntime:
    """ONNX Runtime's CPU provider with all graph optimizations and its default spinning."""

    name = "ort"
    package = "onnxruntime"

    def compile(self, model: Path, folder: Path) -> Path:
        return model

    def load(self, artifact: Path, inputs: Arrays, threads: int) -> tuple[Call, dict[str, Any]]:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
        options.log_severity_level = 3
        session = onnxruntime.InferenceSession(str(artifact), options, providers=["CPUExecutionProvider"])
        feeds = dict(inputs)
        return lambda: session.run(None, feeds), {}


class OpenVino:
    """OpenVINO's CPU plugin in latency mode, float32 arithmetic, arrays shared both ways."""

    name = "openvino"
    package = "openvino"

    def compile(self, model: Path, folder: Path) -> Path:
        return model

    def load(self, artifact: Path, inputs: Arrays, threads: int) -> tuple[Call, dict[str, Any]]:
        import openvino

        config = {
            "INFERENCE_NUM_THREADS": threads,
            "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_PRECISION_HINT": "f32",
        }
        compiled = openvino.Core().compile_model(str(artifact), "CPU", config)
        request = compiled.create_infer_request()
        feeds, count = dict(inputs), len(compiled.outputs)

        def call() -> list[np.ndarray]:
            result = request.infer(feeds, share_inputs=True, share_outputs=True)
            return [result[index] for index in range(count)]

        return call, {}


class Iree:
    """IREE's llvm-cpu backend at O3 for this CPU; ``local-sync`` on one thread, ``local-task`` on more."""

    name = "iree"
    package = "iree.compiler"

    def compile(self, model: Path, folder: Path) -> Path:
        imported, artifact = folder / f"{model.stem}.mlir", folder / f"{model.stem}.vmfb"
        _run_tool([sys.executable, "-m", "iree.compiler.tools.import_onnx", str(model), "-o", str(imported)])
        flags = ["--iree-hal-target-device=local", "--iree-hal-local-target-device-backends=llvm-cpu"]
        flags += ["--iree-llvmcpu-target-cpu=host", "--iree-opt-level=O3"]
        tool = [sys.executable, "-m", "iree.compiler.tools.scripts.iree_compile"]
        _run_tool([*tool, str(imported), "-o", str(artifact), *flags])
        return artifact

    def load(self, artifact: Path, inputs: Arrays, threads: int) -> tuple[Call, dict[str, Any]]:
        import iree.runtime

        if threads > 1:
            iree.runtime.flags.parse_flags(f"--task_topology_group_count={threads}")
        driver = iree.runtime.get_driver("local-sync" if threads == 1 else "local-task")
        config = iree.runtime.Config(device=driver.create_default_device())
        module = iree.runtime.VmModule.mmap(config.vm_instance, str(artifact))
        hal = iree.runtime.create_hal_module(config.vm_instance, config.device)
        context = iree.runtime.SystemContext(vm_modules=[hal, module], config=config)
        (name,) = (n for n in module.function_names if not n.startswith("__") and not n.endswith("$async"))
        function, arrays = context.modules[module.name][name], list(inputs.values())

        def call() -> list[np.ndarray]:
            result = function(*arrays)
            return [np.asarray(r) for r in (result if isinstance(result, tuple | list) else (result,))]

        return call, {}


class Inductor:
    """TorchInductor, ahead of time, on the graph as PyTorch's functions (`benchmarks.torch_graph`) for these shapes.

    It needs a C++ compiler.
    """

    name = "inductor"
    package = "torch"

    def compile(self, model: Path, folder: Path) -> Path:
        import torch._inductor

        from benchmarks.torch_graph import TorchGraph

        tensors = {name: torch.from_numpy(array) for name, array in inputs.load(folder).items()}
        artifact = folder / f"{model.stem}.pt2"
        with torch.no_grad():
            program = torch.export.export(TorchGraph(model, tensors).eval(), tuple(tensors.values()))
            torch._inductor.aoti_compile_and_package(program, package_path=str(artifact))
        return artifact

    def load(self, artifact: Path, inputs: Arrays, threads: int) -> tuple[Call, dict[str, Any]]:
        import torch._inductor

        torch.set_num_threads(threads)
        compiled = torch._inductor.aoti_load_package(str(artifact))
        arguments = [torch.from_numpy(array) for array in inputs.values()]

        def call() -> list[np.ndarray]:
            with torch.inference_mode():
                return [value.numpy() for value in compiled(*arguments)]

        return call, {}


ENGINES: dict[str, Engine] = {
    engine.name: engine for engine in (Rillet(), OnnxRuntime(), OpenVino(), Iree(), Inductor())
}
PEERS = tuple(name for name in ENGINES if name != Rillet.name)
COMPILING_PEERS = (Iree.name, Inductor.name)
"""The peers whose artifact is not the model itself."""


def missing(engine: Engine) -> str | None:
    """Why the engine cannot be used, or None."""
    try:
        present = find_spec(engine.package) is not None
    except ModuleNotFoundError:
        present = False
    return None if present else f"{engine.name}: package {engine.package} is not installed; skipped"


def _run_tool(command: list[str]) -> None:
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode:
        lines = [line for line in result.stderr.splitlines() if line.strip()]
        error = next((line for line in lines if "error" in line.lower()), lines[-1] if lines else "no message")
        raise RuntimeError(error.strip()[:300])

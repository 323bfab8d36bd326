"""The pool of compile workers: a worker that dies costs one job."""

from __future__ import annotations

import pytest

from rillet import targets
from rillet.codegen import pool
from rillet.codegen.pool import Job, Pool
from rillet.codegen.result import CodegenOptions, CompiledKernel
from rillet.errors import CompileError
from rillet.support import worker_process

_TEXT = """
builtin.module @{name} attributes {{flow.kernel}} {{
  func.func @{name}(%x: tensor<4xf32>) -> tensor<4xf32> {{
    %empty = tensor.empty() : tensor<4xf32>
    %y = linalg.generic
      {{indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}}
      ins(%x : tensor<4xf32>) outs(%empty : tensor<4xf32>) {{
    ^bb0(%a: f32, %b: f32):
      %sum = arith.addf %a, %a : f32
      linalg.yield %sum : f32
    }} -> tensor<4xf32>
    return %y : tensor<4xf32>
  }}
}}
"""


def _jobs(names: str) -> list[Job]:
    return [Job(name, _TEXT.format(name=name), targets.get("x86-64-v3"), CodegenOptions()) for name in names]


@pytest.fixture(autouse=True)
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers start for any job."""
    monkeypatch.setattr(pool, "_JOBS_WORTH_A_PROCESS", 1)


def test_outcomes_come_with_the_number_of_their_job() -> None:
    jobs = _jobs("abc")
    jobs[1] = Job("bad", "not MLIR", jobs[1].target, jobs[1].options)
    found: dict[int, CompiledKernel | CompileError] = {}
    with Pool(2) as workers:
        workers.compile(jobs, found.__setitem__)
    assert sorted(found) == [0, 1, 2]
    assert isinstance(found[1], CompileError) and "not valid MLIR" in str(found[1])
    assert isinstance(found[2], CompiledKernel) and found[2].name == "c"


def test_a_dead_worker_is_named_and_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    real, started = worker_process.start, []

    def start(module: str):  # the first one is dead on arrival
        process = real(module)
        started.append(process)
        if len(started) == 1:
            process.kill()
            process.wait()
        return process

    monkeypatch.setattr(worker_process, "start", start)
    found: dict[int, CompiledKernel | CompileError] = {}
    with Pool(2) as processes:
        processes.compile(_jobs("abcd"), found.__setitem__)
    (failed,) = [outcome for outcome in found.values() if isinstance(outcome, CompileError)]
    assert len(found) == 4 and len(started) == 2
    assert "the compiler process died (status -9) while compiling kernel" in str(failed)
    assert all(process.poll() is not None for process in started)


def test_a_bug_of_the_code_generator_comes_with_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise KeyError("surprise")

    monkeypatch.setattr("rillet.codegen.cpu.compile.compile_kernel", broken)
    found: dict[int, CompiledKernel | CompileError] = {}
    with Pool(1) as workers:
        workers.compile(_jobs("a"), found.__setitem__)
    assert "internal error in code generation" in str(found[0]) and "KeyError: 'surprise'" in str(found[0])

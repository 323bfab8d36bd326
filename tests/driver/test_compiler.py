"""The driver: concurrent compiles, names like the program's own, missing packages, odd outputs, other CPUs."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from onnx import helper, numpy_helper, parser

import rillet
from rillet import targets
from rillet.codegen.cpu import machine
from rillet.errors import compiler_installation
from rillet.export import CrossModule


def dense(weight="w"):
    w = numpy_helper.from_array(np.eye(4, dtype=np.float32), weight)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", weight], ["y"])],
        "dense",
        [helper.make_tensor_value_info("x", 1, [2, 4])],
        [helper.make_tensor_value_info("y", 1, [2, 4])],
        [w],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


def test_threads_may_compile_at_once():
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    with ThreadPoolExecutor(3) as pool:
        for model in pool.map(lambda _: rillet.compile(dense()), range(6)):
            np.testing.assert_array_equal(model(x), x)


def test_initializers_may_have_the_names_of_the_program():
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    for name in ("main", "kernels", "__init"):
        np.testing.assert_array_equal(rillet.compile(dense(name))(x), x)


def test_without_the_compiler_packages_the_message_says_what_to_install():
    code = (
        "import sys; sys.modules['torch_mlir'] = None\n"
        "import rillet\n"
        "try: rillet.compile\n"
        "except ImportError as error: print(error)"
    )
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    assert compiler_installation() in done.stdout


def test_what_this_cpu_lacks_the_features_for_is_saved_not_loaded(tmp_path, monkeypatch):
    monkeypatch.setattr(machine, "_features_here", lambda: frozenset(targets.get("x86-64-v2").machine.features))
    assert str(targets.get("x86-64-v4").obstacle).startswith("this machine lacks avx, avx2, fma, ")
    module = rillet.compile(dense(), target="x86-64-v4")
    assert isinstance(module, CrossModule) and module.targets == ["x86-64-v4"]
    module.save(tmp_path / "other.rlm")
    assert (tmp_path / "other.rlm").stat().st_size > 0
    with pytest.raises(rillet.RunError, match="compiled for x86-64-v4, which this machine cannot run"):
        module(np.zeros((2, 4), np.float32))
    assert isinstance(rillet.compile(dense(), target=["x86-64-v4", "x86-64-v2"]), rillet.Module)


def test_saving_to_what_is_no_regular_file_writes_into_it(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    model = rillet.compile(dense())
    with ThreadPoolExecutor(1) as pool:
        read = pool.submit(pipe.read_bytes)
        model.save(pipe)
        assert read.result() == bytes(model.to_bytes())
    assert pipe.is_fifo()


_FORKED = """
import os, sys, threading, rillet
from rillet.ir import turn

TEXT = "func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }"


def child():
    process = os.fork()
    if process:
        return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    try:
        rillet.compile(TEXT, jobs=1)
    except rillet.CompileError as error:
        os._exit(7 if "forked while another thread of its parent compiled" in str(error) else 1)
    os._exit(0)


with turn:
    alone = child()  # the thread that works is in the child, too
held, done = threading.Event(), threading.Event()


def work():
    with turn:
        held.set()
        done.wait()


thread = threading.Thread(target=work)
thread.start()
held.wait()
beside = child()
done.set()
thread.join()
assert (alone, beside, child()) == (0, 7, 0), (alone, beside)

from rillet.frontends.onnx.verification import oracles  # whose lock is not waited for either

with oracles._PROCESS._lock:
    process = os.fork()
    if not process:
        os._exit(oracles._PROCESS._lock.locked())
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 0
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_forked_process_compiles_or_says_why_it_cannot():
    subprocess.run([sys.executable, "-c", _FORKED], check=True, timeout=60)


def test_inputs_have_any_name_in_calls():
    text = '<ir_version: 10, opset_import: ["" : 20]> g (float[2] self, float[2] arrays) => (float[2] named) {'
    module = rillet.compile(parser.parse_model(f"{text} named = Sub(self, arrays) }}"), jobs=1)
    feeds = {"self": np.float32([5, 7]), "arrays": np.float32([1, 2])}
    for result in (module(**feeds), module.submit(**feeds).result(), module.run(feeds)["named"]):
        np.testing.assert_array_equal(result, np.float32([4, 5]))
    cross = rillet.compile(parser.parse_model(f"{text} named = Sub(self, arrays) }}"), target="cortex-m4", jobs=1)
    with pytest.raises(rillet.RunError, match="cannot run"):
        cross(**feeds)

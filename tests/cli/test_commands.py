"""The command line: what each command prints, writes and returns, and how it fails."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnx
import pytest

import models
import rillet
from rillet.cli import main

MLIR = """
func.func @main(%a: tensor<2x3xf32>, %b: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %e = tensor.empty() : tensor<2x3xf32>
  %0 = linalg.add ins(%a, %b : tensor<2x3xf32>, tensor<2x3xf32>) outs(%e : tensor<2x3xf32>) -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}
"""


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "add.mlir"
    path.write_text(MLIR)
    return path


@pytest.fixture
def artifact(source, capsys):
    assert main(["compile", str(source)]) == 0
    capsys.readouterr()
    return source.with_suffix(".rlm")


def test_compile_writes_beside_the_model_and_reports(source, capsys):
    assert main(["compile", str(source), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["output"] == str(source.with_suffix(".rlm"))
    assert facts["bytes"] == source.with_suffix(".rlm").stat().st_size
    assert facts["stats"]["dispatch_count"] == 1


def test_dump_ir_writes_every_stage_numbered(source, tmp_path):
    assert main(["compile", str(source), "--dump-ir", str(tmp_path / "ir")]) == 0
    names = sorted(p.name for p in (tmp_path / "ir").iterdir() if p.suffix == ".mlir")
    assert names == [
        "00-frontend.mlir",
        "01-optimize.mlir",
        "02-dispatch.mlir",
        "05-schedule.mlir",
        "06-hal.mlir",
        "07-vm.mlir",
    ]
    [target] = (tmp_path / "ir" / "04-codegen").iterdir()
    kernels = {p.suffix: p.read_text() for p in target.iterdir()}
    assert "func.func" in kernels[".mlir"] and "define" in kernels[".ll"] and ".globl" in kernels[".s"]


@pytest.mark.parametrize(
    ("stage", "sign"),
    [
        ("frontend", "linalg.generic"),
        ("optimize", "linalg.generic"),
        ("dispatch", "flow.kernel"),
        ("schedule", "stream.dispatch"),
        ("hal", "hal.cmd_dispatch"),
        ("vm", "vm.call"),
    ],
)
def test_until_prints_the_stage_and_what_it_prints_parses(source, capsys, stage, sign):
    from rillet.ir import Program

    assert main(["compile", str(source), "--until", stage]) == 0
    text = capsys.readouterr().out
    assert sign in text
    assert Program.parse(text).module.operation.verify()


def test_until_codegen_prints_assembly(source, capsys):
    assert main(["compile", str(source), "--until", "codegen", "--target", "x86-64-v3"]) == 0
    assert "vaddps" in capsys.readouterr().out


def test_until_an_unknown_stage_lists_the_known(source, capsys):
    assert main(["compile", str(source), "--until", "nowhere"]) == 1
    assert "unknown stage 'nowhere'; stages: frontend, optimize" in capsys.readouterr().err


def test_run_takes_and_gives_arrays(artifact, tmp_path, capsys):
    a = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.save(tmp_path / "a.npy", a)
    arguments = ["--input", f"argument0={tmp_path / 'a.npy'}", "--input", f"argument1={tmp_path / 'a.npy'}"]
    assert main(["run", str(artifact), *arguments, "--output", str(tmp_path / "out")]) == 0
    np.testing.assert_array_equal(np.load(tmp_path / "out" / "result0.npy"), a + a)
    assert "result0: float32 [2, 3]" in capsys.readouterr().out


def test_random_inputs_are_seeded(artifact, capsys):
    results = []
    for seed in ("1", "1", "2"):
        assert main(["run", str(artifact), "--seed", seed, "--json"]) == 0
        results.append(json.loads(capsys.readouterr().out)["outputs"])
    assert results[0] == results[1] != results[2]


def test_inspect_and_targets_give_facts(artifact, capsys):
    assert main(["inspect", str(artifact), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    argument = {"name": "argument0", "dtype": "float32", "shape": [2, 3], "has_default": False}
    assert facts["inputs"][0] == argument
    assert facts["libraries"][0]["selected"]
    assert main(["targets", "--json"]) == 0
    assert "x86-64-v3" in [t["name"] for t in json.loads(capsys.readouterr().out)]


def test_targets_are_listed_where_the_host_is_none_of_them(capsys, monkeypatch):
    monkeypatch.setenv("RILLET_HOST", "nonsense")
    fault = "RILLET_HOST: unknown target 'nonsense'; known targets: "
    assert main(["targets"]) == 0
    _, host, *others = capsys.readouterr().out.splitlines()
    assert host.startswith(f"host               {fault}")
    assert any(line.startswith("x86-64-v3 ") for line in others)
    assert main(["targets", "--json"]) == 0
    host, *others = json.loads(capsys.readouterr().out)
    assert host["name"] == "host" and host["error"].startswith(fault)
    assert "x86-64-v3" in [t["name"] for t in others]


def test_bench_measures(artifact, capsys):
    assert main(["bench", str(artifact), "--seconds", "0.05", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["calls"] >= 5


def test_several_variants_share_a_file_and_the_best_one_is_chosen(source, capsys):
    assert (
        main(["compile", str(source), "--target", "x86-64-v2", "--target", "x86-64-v3", "--target", "x86-64-v4"]) == 0
    )
    assert main(["inspect", str(source.with_suffix(".rlm")), "--json"]) == 0
    variants = json.loads(capsys.readouterr().out.partition("{")[2].join(["{", ""]))["libraries"]
    assert [v["target"] for v in variants] == ["x86-64-v4", "x86-64-v3", "x86-64-v2"]
    assert sum(v["selected"] for v in variants) == 1
    assert main(["run", str(source.with_suffix(".rlm"))]) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["compile", "absent.onnx"], "absent.onnx: no such file"),
        (["run", "absent.rlm"], "absent.rlm"),
        (["compile", "SOURCE", "--target", "vax"], "unknown target 'vax'"),
        (["compile", "SOURCE", "--shape", "nonsense"], "--shape nonsense: expected NAME=1x3xHx224"),
        (["compile", "SOURCE", "--shape", "a=1x!"], "'!' is neither a number nor a name"),
        (["compile", "SOURCE", "--target", "x86-64-v3", "--target", "aarch64"], "cannot share one file"),
        (["run", "SOURCE", "--input", "b=absent.npy"], "cannot read the file"),
        (["run", "SOURCE", "--input", "b"], "--input b: expected NAME=FILE.npy"),
    ],
)
def test_failures_are_one_message_and_status_1(source, capsys, arguments, message):
    assert main([str(source) if a == "SOURCE" else a for a in arguments]) == 1
    error = capsys.readouterr().err
    assert message in error
    assert "Traceback" not in error


@pytest.mark.parametrize(
    "options",
    [
        ["-o", "x.rlm"],
        ["--dump-ir", "ir"],
        ["--target", "x86-64-v2", "--target", "x86-64-v3"],
        ["--optimize-for-size"],
        ["--tuning", "record.json"],
        ["--json"],
    ],
)
def test_until_refuses_what_it_would_ignore(source, capsys, options):
    assert main(["compile", str(source), "--until", "dispatch", *options]) == 1
    assert f"does not go with {'several ' * (len(options) == 4)}{options[0]};" in capsys.readouterr().err


def test_warnings_show_no_source_line_and_exports_use_no_record(source, monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("RILLET_TUNING", str(tmp_path / "none.json"))
    assert main(["compile", str(source)]) == 0
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("rillet: warning: not tuned: there is no file")
    assert main(["export", str(source), "--target", "cortex-m4", "-o", str(tmp_path / "out")]) == 0
    assert "warning" not in capsys.readouterr().err


def test_bench_says_which_sizes_it_assumes(tmp_path, capsys):
    path = tmp_path / "relu.onnx"
    path.write_bytes(
        onnx.parser.parse_model(
            '<ir_version: 10, opset_import: ["" : 20]> g (float[N,4] x) => (float[N,4] y) { y = Relu(x) }'
        ).SerializeToString()
    )
    assert main(["bench", str(path), "--seconds", "0"]) == 0
    assert "input 'x' ['N', 4]: measured at [1, 4]; times of other sizes: --size N=... or " in capsys.readouterr().out
    assert main(["bench", str(path), "--seconds", "0", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["inputs"] == {"x": [1, 4]}
    for option in (["--shape", "x=3x4"], ["--dim", "N=3"], ["--size", "N=3"]):
        assert main(["bench", str(path), "--seconds", "0", *option]) == 0
        assert "measured at" not in capsys.readouterr().out
        assert main(["bench", str(path), "--seconds", "0", "--json", *option]) == 0
        assert json.loads(capsys.readouterr().out)["inputs"] == {"x": [3, 4]}


@pytest.fixture
def dynamic(tmp_path):
    """Two inputs that share a dimension of unknown size."""
    path = tmp_path / "two.onnx"
    text = """<ir_version: 10, opset_import: ["" : 20]> g (float[N,4] x, float[N,4] b) => (float[N,4] y)
    { t = Add(x, b)  y = Softmax(t) }"""
    path.write_bytes(onnx.parser.parse_model(text).SerializeToString())
    return path


@pytest.mark.parametrize("command", ["compile", "run", "bench", "check", "verify"])
def test_a_dimension_is_pinned_by_name_everywhere(dynamic, capsys, command):
    options = ["--seconds", "0"] if command == "bench" else []
    assert main([command, str(dynamic), "--dim", "N=3", *options]) == 0
    capsys.readouterr()
    assert main([command, str(dynamic), "--dim", "M=3"]) == 1
    message = "--dim M=3: the model has no dimension of this name; its dynamic dimensions: N"
    assert message in capsys.readouterr().err
    assert main([command, str(dynamic), "--dim", "N=many"]) == 1
    assert "--dim N=many: expected NAME=SIZE" in capsys.readouterr().err


def test_a_dimension_pinned_in_two_ways_or_too_large(dynamic, capsys):
    assert main(["check", str(dynamic), "--shape", "x=2x4", "--shape", "b=2x4", "--dim", "N=3"]) == 1
    assert "--dim N=3: --shape pins the dimension 'N' to 2, and --dim to 3: give one of them" in capsys.readouterr().err
    for options in (["--dim", f"N={1 << 63}"], ["--shape", f"x={1 << 63}x4"]):
        assert main(["check", str(dynamic), *options]) == 1
        assert f"{options[0]} {options[1].split('=')[0]}" in (message := capsys.readouterr().err)
        assert "is too large" in message and "the limit is 70,368,744,177,664" in message


def test_dim_makes_the_shape_static(dynamic, capsys):
    assert main(["compile", str(dynamic), "--dim", "N=3"]) == 0
    capsys.readouterr()
    assert main(["inspect", str(dynamic.with_suffix(".rlm"))]) == 0
    assert "x: float32 [3, 4]" in capsys.readouterr().out
    assert main(["compile", str(dynamic), "--dim", "N=3", "--until", "frontend"]) == 0
    assert "tensor<3x4xf32>" in capsys.readouterr().out
    assert main(["run", str(dynamic.with_suffix(".rlm")), "--dim", "N=3"]) == 1
    assert "--size gives a dynamic dimension of random inputs its size" in capsys.readouterr().err


def test_random_inputs_take_the_sizes_of_those_given(dynamic, tmp_path, capsys):
    np.save(tmp_path / "x.npy", np.zeros((5, 4), np.float32))
    for option in (["--input", f"x={tmp_path / 'x.npy'}"], ["--size", "N=5"]):
        assert main(["run", str(dynamic), "--json", *option]) == 0
        assert json.loads(capsys.readouterr().out)["outputs"]["y"]["shape"] == [5, 4]
    assert main(["run", str(dynamic), "--size", "M=5"]) == 1
    assert "--size M=5: the model has no such dimension; its dynamic dimensions: N" in capsys.readouterr().err
    assert main(["verify", str(dynamic), "--size", "N=5", "--json"]) == 0


def test_advice_speaks_the_language_of_its_reader(dynamic, tmp_path, capsys):
    assert main(["export", str(dynamic), "--target", "cortex-m4", "-o", str(tmp_path / "out")]) == 1
    error = capsys.readouterr().err
    assert "input 'x' [N, 4]: --shape x=1x4" in error and "inputs=" not in error
    assert "all of 'N': --dim N=1" in error
    with pytest.raises(rillet.CompileError, match=r"input 'x' \[N, 4\]: inputs=\{'x': \(1, 4\)\}") as caught:
        rillet.compile(dynamic, target="cortex-m4")
    assert "--shape" not in str(caught.value)
    assert main(["compile", str(dynamic), "--target", "cortex-m4"]) == 1
    assert "cortex-m4 has no loader for module files; 'rillet export' writes C" in capsys.readouterr().err


def test_inspect_tells_the_sizes_of_all_variants(source, capsys):
    assert main(["compile", str(source), "--target", "x86-64-v2", "--target", "x86-64-v3"]) == 0
    capsys.readouterr()
    assert main(["inspect", str(source.with_suffix(".rlm"))]) == 0
    text = capsys.readouterr().out
    assert "x86-64-v3: " in text and "x86-64-v2: " in text and "bytes, 1 kernel" in text
    assert "(the largest of 2 variants)" in text


def test_files_that_cannot_be_written_are_one_line(source, tmp_path, capsys):
    """A limit on file sizes makes the system refuse the same call as a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    assert main(["compile", str(source), "-o", str(tmp_path / "m.rlm")]) == 0
    capsys.readouterr()
    resource.setrlimit(resource.RLIMIT_FSIZE, (16, before[1]))
    try:
        assert main(["run", str(tmp_path / "m.rlm"), "-o", str(tmp_path / "out")]) == 1
        assert main(["bench", str(tmp_path / "m.rlm"), "--profile", "--trace", str(tmp_path / "trace.json")]) == 1
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    out, trace = capsys.readouterr().err.splitlines()
    assert out == f"rillet: cannot write {tmp_path}/out/result0.npy: File too large"
    assert trace == f"rillet: cannot write {tmp_path}/trace.json: File too large"
    assert {p.name for p in tmp_path.iterdir()} == {"m.rlm", source.name}


def test_names_that_the_terminal_cannot_show(tmp_path):
    model = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 20]> g (float[2] x) => (float[2] y) { y = Relu(x) }'
    )
    model.graph.output[0].name = model.graph.node[0].output[0] = "größe"
    path = tmp_path / os.fsdecode(b"caf\xc3\xa9\xff.onnx")
    path.write_bytes(model.SerializeToString())
    environment = {**os.environ, "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "LC_ALL": "C"}
    command = [sys.executable, "-m", "rillet.cli", "run", str(path)]
    done = subprocess.run(command, env=environment, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert b"gr\\xf6\\xdfe: float32 [2]" in done.stdout


def test_output_that_cannot_be_written_is_one_line(artifact):
    with open("/dev/full", "wb") as full:
        command = [sys.executable, "-m", "rillet.cli", "inspect", str(artifact)]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("rillet: No space left on device: the output cannot be written")


def test_temporary_folders_of_any_name(source, tmp_path, monkeypatch, capsys):
    folder = tmp_path / "a b'c\"d$é"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    assert main(["compile", str(source), "--no-cache", "-o", str(folder / "m.rlm")]) == 0
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    assert main(["compile", str(source), "--no-cache"]) == 1
    error = capsys.readouterr().err
    assert "cannot use temporary files" in error and "set TMPDIR to a folder that has room" in error


def test_outputs_of_similar_names_get_files_of_their_own():
    from rillet.cli.run import _file_names

    assert _file_names(["a/b", "a_b", "", "n" * 300], ["npy"] * 4) == [
        "a_b.npy",
        "a_b_1.npy",
        "output_2.npy",
        "n" * 50 + ".npy",
    ]


def test_run_writes_maps_as_json(tmp_path, capsys):
    value = onnx.helper.make_tensor_type_proto(onnx.TensorProto.FLOAT, None)
    maps = onnx.helper.make_sequence_type_proto(onnx.helper.make_map_type_proto(onnx.TensorProto.STRING, value))
    node = onnx.helper.make_node("ZipMap", ["x"], ["z"], domain="ai.onnx.ml", classlabels_strings=["a", "ä"])
    x = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1, 2])
    graph = onnx.helper.make_graph([node], "maps", [x], [onnx.helper.make_value_info("z", maps)])
    opsets = [onnx.helper.make_opsetid("", 21), onnx.helper.make_opsetid("ai.onnx.ml", 1)]
    path = tmp_path / "maps.onnx"
    onnx.save(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=10), path)
    assert main(["run", str(path), "-o", str(tmp_path / "out")]) == 0
    assert "z: map [1]\n[{'a': " in capsys.readouterr().out
    assert json.loads((tmp_path / "out" / "z.json").read_text())[0].keys() == {"a", "ä"}


def test_run_prints_no_range_of_strings(tmp_path, capsys):
    path = tmp_path / "text.onnx"
    path.write_bytes(
        onnx.parser.parse_model(
            '<ir_version: 10, opset_import: ["" : 20]> g (string[2] x) => (string[2] y) { y = StringConcat(x, x) }'
        ).SerializeToString()
    )
    assert main(["run", str(path)]) == 0
    assert "y: string [2]\n" in capsys.readouterr().out


def test_compile_help_takes_no_module_file(capsys):
    with pytest.raises(SystemExit):
        main(["compile", "--help"])
    assert "compiled module" not in capsys.readouterr().out


def test_sizes_that_cannot_be_allocated_name_the_input(tmp_path, capsys):
    path = tmp_path / "relu.mlir"
    path.write_text("func.func @main(%a: tensor<?x?xf32>) -> tensor<?x?xf32> { return %a : tensor<?x?xf32> }")
    assert main(["run", str(path), "--size", "argument0_0=9999999", "--size", "argument0_1=9999999"]) == 1
    error = capsys.readouterr().err
    assert "input 'argument0' [9999999, 9999999] takes 399,999,920,000,004 bytes, more than can be allocated" in error


def test_out_of_memory_is_one_line(source, monkeypatch, capsys):
    def fail(*_):
        raise MemoryError("Unable to allocate 7 TiB")

    monkeypatch.setattr("rillet.cli.compile.handle", fail)
    assert main(["compile", str(source)]) == 1
    assert capsys.readouterr().err == "rillet: out of memory: Unable to allocate 7 TiB; use smaller shapes\n"


def test_unknown_input_names_the_known_ones(artifact, tmp_path, capsys):
    np.save(tmp_path / "x.npy", np.zeros((2, 3), np.float32))
    assert main(["run", str(artifact), "--input", f"x={tmp_path / 'x.npy'}"]) == 1
    assert "the model has no input x; its inputs: argument0, argument1" in capsys.readouterr().err


def test_interrupt_during_a_compile_ends_quietly_and_writes_nothing(tmp_path):
    output = tmp_path / "model.rlm"
    command = [sys.executable, "-m", "rillet.cli", "compile", str(models.path("mobilenet_v2")), "-o", str(output)]
    environment = {**os.environ, "RILLET_CACHE": str(tmp_path / "cache")}
    # A process started in the background of a shell ignores the signal, and its children inherit that.
    process = subprocess.Popen(
        command,
        stderr=subprocess.PIPE,
        env=environment,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    wait_for(lambda: list((tmp_path / "cache").rglob("objects/*/*")), process)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 130
    assert error.strip() == "rillet: interrupted"
    assert list(tmp_path.glob("*.rlm*")) == []


def wait_for(condition, process):
    """Until the compile is in the middle of its kernels: some are in the cache."""
    end = time.monotonic() + 120
    while not condition():
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < end
        time.sleep(0.05)

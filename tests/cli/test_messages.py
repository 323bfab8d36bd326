"""What the command line says about arguments and files that it cannot use."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import rillet
from rillet.cli import main
from rillet.errors import compiler_installation


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Models and arrays, good and bad."""
    folder = tmp_path_factory.mktemp("messages")
    text = '<ir_version: 10, opset_import: ["" : 20]> g (float[1,n,4] x) => (float[1,n,4] y) { y = Relu(x) }'
    model = onnx.parser.parse_model(text)
    onnx.save(model, folder / "model.onnx")
    rillet.compile(model, jobs=1).save(folder / "model.rlm")  # type: ignore[union-attr]
    (folder / "bad.rlm").write_text("hi")
    (folder / "bad.mlir").write_text("module {")
    (folder / "good.mlir").write_text(
        "func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> { return %x : tensor<2xf32> }"
    )
    (folder / "text.npy").write_text("hi")
    np.save(folder / "good.npy", np.ones((1, 2, 4), np.float32))
    np.save(folder / "double.npy", np.ones((1, 2, 4)))
    np.save(folder / "shape.npy", np.ones((1, 2, 5), np.float32))
    np.save(folder / "objects.npy", np.array([{}], object), allow_pickle=True)
    (folder / "cut.npy").write_bytes((folder / "good.npy").read_bytes()[:-4])
    return folder


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("run model.onnx --shape x=2x3x4", "input 'x' was given the shape [2, 3, 4], but the model declares [1, n, 4]"),
        ("run model.onnx --shape x=3x4", "input 'x' was given 2 dimensions, but the model declares [1, n, 4]"),
        ("check model.onnx --shape x=1x3x5", "a fixed size in dimension 2: export the model with a dynamic one"),
        ("run model.onnx --shape x=1x2x4 --shape x=1x3x4", "--shape x=1x3x4: the shape of 'x' is given twice"),
        ("run model.rlm --shape x=1x2x4", "--shape: 'model.rlm' is compiled already; compile its model again"),
        ("run model.rlm --input x=double.npy", "x=double.npy: the file holds float64, but the input is x: float32["),
        ("run model.rlm --input x=double.npy", "save array.astype('float32')"),
        ("run model.rlm --input x=shape.npy", "x=shape.npy: the file holds an array of shape [1, 2, 5], but the input"),
        ("bench model.rlm --input x=shape.npy", "but the input is x: float32[1, n, 4]"),
        ("run model.rlm --input x=text.npy", "--input x=text.npy: cannot read an array: it is no .npy file"),
        ("run model.rlm --input x=objects.npy", "cannot read an array: it holds Python objects; save numbers"),
        ("run model.rlm --input x=cut.npy", "--input x=cut.npy: cannot read an array: "),
        ("run model.rlm --input x=none.npy", "--input x=none.npy: cannot read the file: No such file or directory\n"),
        ("run model.rlm --input x=.", "--input x=.: cannot read the file: Is a directory\n"),
        ("run model.rlm --input =good.npy", "--input =good.npy: expected NAME=FILE.npy"),
        ("run model.rlm --input x=good.npy --input x=good.npy", "--input x=good.npy: input 'x' is given twice"),
        ("run model.rlm --output good.npy", "cannot write into good.npy: good.npy is a file, not a folder"),
        ("run model.rlm --output good.npy/deep", "cannot write into good.npy/deep: good.npy is a file"),
        ("run bad.rlm", "'bad.rlm': not a Rillet module"),
        ("run model.onnx --target aarch64", "code for aarch64 cannot run here: this machine has another architecture"),
        ("bench model.rlm --trace t.json", "--trace writes what --profile measures: give both"),
        ("inspect bad.rlm", "'bad.rlm': not a Rillet module"),
        ("compile model.rlm", "'model.rlm': compiled already, so it can be run ('rillet run', rillet.load); give the"),
        (
            "compile model.onnx --shape x=1x2x4 --target cortex-m4",
            "target cortex-m4 has no loader for module files; 'rillet export' writes",
        ),
        ("compile model.onnx --target x86-64-v3 --target aarch64", "compile for each by itself"),
        ("check bad.mlir", "the MLIR text is invalid"),
        ("verify good.mlir", "the model cannot be verified: its frontend knows no other implementation"),
        ("verify model.onnx --input q=good.npy", "the model has no input q; its inputs: x"),
        ("export model.onnx --target cortex-m4 -o good.npy", "cannot write into good.npy: good.npy is a file"),
        ("export model.onnx --target cortex-m4 -o EMPTY", "cannot write into '': the path is empty"),
        ("compile EMPTY", "cannot compile '': the path is empty"),
        ("compile .", ". is a folder; give a model file"),
        ("compile . --until optimize", ". is a folder; give a model file"),
        ("compile model.onnx/m.onnx", "cannot read model.onnx/m.onnx: Not a directory"),
        ("check .", ". is a folder; give a model file"),
        ("verify EMPTY", "cannot compile '': the path is empty"),
        ("compile model.onnx -o EMPTY", "cannot write '': the path is empty"),
        ("compile model.onnx -o good.npy/m.rlm", "cannot write good.npy/m.rlm: Not a directory"),
        ("compile model.onnx -o sub/", "cannot write sub/: it names a folder"),
        ("compile model.onnx --dump-ir EMPTY", "cannot write into '': the path is empty"),
        ("compile model.onnx --dump-ir good.npy", "cannot write into good.npy: good.npy is a file, not a folder"),
        ("run model.rlm -o EMPTY", "cannot write into '': the path is empty"),
        ("run EMPTY", "cannot compile '': the path is empty"),
        (
            "verify model.onnx --bisect none/b.onnx",
            "cannot write none/b.onnx: there is no folder none; create it first",
        ),
        ("bench model.rlm --profile --trace EMPTY", "cannot write '': the path is empty"),
        ("tune model.onnx -o good.npy/t.json", "cannot write good.npy/t.json: Not a directory"),
        ("run model.onnx --size n=-1", "--size n=-1: expected NAME=SIZE, a whole number from 0 on"),
        (f"run model.onnx --size n={'9' * 5000}", "expected NAME=SIZE, a whole number from 0 on"),
        (f"check model.onnx --dim n={'9' * 5000}", "expected NAME=SIZE, a whole number from 0 on"),
        (f"check model.onnx --shape x=1x{'9' * 5000}x4", "is neither a number nor a name"),
        (f"export model.onnx --target cortex-m4 -o fw --ram {'9' * 5000}", "expected a number of bytes"),
        (
            "run model.rlm --size n=3 --input x=good.npy",
            "--size n=3: the array given for input 'x' has the size 2 there",
        ),
    ],
)
def test_messages(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: str, message: str
) -> None:
    monkeypatch.chdir(folder)
    assert main(["" if word == "EMPTY" else word for word in command.split()]) == 1
    error = capsys.readouterr().err
    assert error.startswith("rillet: ") and message in error, error


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("run model.rlm --threads 0", "argument --threads: 0: expected a whole number from 1 to 1024"),
        ("run model.rlm --threads 9999", "argument --threads: 9999: expected a whole number from 1 to 1024"),
        ("run model.rlm --threads two", "argument --threads: two: expected a whole number from 1 to 1024"),
        ("run model.rlm --seed -1", "argument --seed: -1: expected a whole number from 0 on"),
        ("compile model.onnx --jobs 0", "argument --jobs: 0: expected a whole number from 1 on"),
        ("export model.onnx --target cortex-m4 -o fw --jobs 1.5", "argument --jobs: 1.5: expected a whole number"),
        ("bench model.rlm --seconds x", "argument --seconds: x: expected a number of seconds from 0 on"),
        ("bench model.rlm --seconds -1", "argument --seconds: -1: expected a number of seconds from 0 on"),
    ],
)
def test_wrong_usage(capsys: pytest.CaptureFixture[str], command: str, message: str) -> None:
    with pytest.raises(SystemExit) as ended:
        main(command.split())
    assert ended.value.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("package", ["torch_mlir", "llvmlite", "onnx"])
def test_without_the_compiler_packages_every_command_says_what_to_install(folder: Path, package: str) -> None:
    commands = [
        "compile model.onnx",
        "compile model.onnx --until optimize",
        "tune model.onnx",
        "export model.onnx --target cortex-m4 -o out",
        "run model.onnx",
        "bench model.onnx",
        "check model.onnx",
        "verify model.onnx",
    ]
    if package == "llvmlite":  # which knows this machine's CPU
        commands.append("targets")
    code = (
        f"import sys; sys.modules[{package!r}] = None\n"
        "from rillet.cli import main\n"
        f"for command in {commands!r}:\n"
        "    assert main(command.split()) == 1, command\n"
        "assert main(['run', 'model.rlm']) == main(['inspect', 'model.rlm']) == 0\n"
    )
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, env=environment, check=True
    )
    advice = f"needs the package {package}: {compiler_installation()}"
    assert done.stderr.splitlines() == [f"rillet: 'rillet {c.split()[0]}' {advice}" for c in commands]


@pytest.mark.skipif(not os.path.isdir("/proc"), reason="a file system that takes no files")
@pytest.mark.parametrize("command", ["compile model.onnx -o /proc/b.rlm", "compile model.onnx --dump-ir /proc/b"])
def test_folders_that_take_no_files_are_noticed_before_the_work(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise AssertionError("it compiles")

    monkeypatch.chdir(folder)
    monkeypatch.setattr("rillet.driver.compile.compile_to_bytes", fail)
    assert main(command.split()) == 1
    error = capsys.readouterr().err
    assert error.startswith("rillet: cannot write") and "takes no files" in error, error


def test_nothing_to_bisect_is_said(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    assert main(["verify", "model.onnx", "--bisect", "part.onnx"]) == 0
    assert "part.onnx: not written, as nothing departs\n" in capsys.readouterr().out
    assert not (folder / "part.onnx").exists()


def _rillet(folder: Path, command: str, **options: Any) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "rillet.cli", *command.split()]
    return subprocess.run(words, cwd=folder, text=True, check=False, timeout=120, **options)


def test_standard_streams_may_be_closed(folder: Path) -> None:
    for streams in ((1,), (2,), (0, 1, 2)):
        options = {"preexec_fn": lambda streams=streams: [os.close(s) for s in streams]}
        assert _rillet(folder, "compile model.onnx -o closed.rlm --no-cache", **options).returncode == 0
        assert _rillet(folder, "inspect none.rlm", **options).returncode == 1
        (folder / "closed.rlm").unlink()


@pytest.mark.parametrize("command", ["targets", "check model.onnx", "run model.rlm", "inspect model.rlm --json"])
def test_a_reader_that_goes_away_is_no_error(folder: Path, command: str) -> None:
    read, write = os.pipe()
    os.close(read)
    done = _rillet(folder, command, stdout=write, stderr=subprocess.PIPE)
    os.close(write)
    assert (done.returncode, done.stderr) == (0, "")


def test_an_interrupt_while_it_starts_shows_no_trace(folder: Path) -> None:
    code = (
        "import sys, os, signal\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # a background process may ignore it
        "class Finder:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'rillet.cli.common': os.kill(os.getpid(), signal.SIGINT)\n"
        "from rillet.cli import main\n"
        "sys.meta_path.insert(0, Finder())\n"
        "main(['targets'])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (-signal.SIGINT, "")

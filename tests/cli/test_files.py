"""``rillet inspect`` and friends on files: of other machines, damaged, of dynamic models, and given options in vain."""

from __future__ import annotations

import json
import subprocess
import sys

import onnx
import pytest

from rillet.cli import main

_TEXT = """<ir_version: 10, opset_import: ["" : 20]> g (float[N,4] x) => (float[N,4] y)
<float[4] w = {1, 2, 3, 4}, int64 a = {0}> { t = CumSum(x, a)  u = Mul(t, w)  y = CumSum(u, a) }"""


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "m.onnx"
    onnx.save(onnx.parser.parse_model(_TEXT), path)
    return path


@pytest.fixture
def artifact(model, capsys):
    assert main(["compile", str(model)]) == 0
    capsys.readouterr()
    return model.with_suffix(".rlm")


def test_inspect_reads_files_for_other_machines(model, tmp_path, capsys):
    path = tmp_path / "arm.rlm"
    assert main(["compile", str(model), "--target", "aarch64", "-o", str(path)]) == 0
    capsys.readouterr()
    assert main(["inspect", str(path), "--verify"]) == 0
    text = capsys.readouterr().out
    assert "aarch64: " in text
    assert "this machine" not in text
    assert text.endswith("verified: all checksums match\n")


def test_arena_of_a_dynamic_model_is_no_number(artifact, model, capsys):
    assert main(["inspect", str(artifact)]) == 0
    printed = capsys.readouterr().out
    assert "arena_bytes              dynamic: sized at each call" in printed
    assert "macs                     dynamic: known at each call" in printed
    assert main(["check", str(model)]) == 0
    assert "arena: dynamic: sized at each call" in (printed := capsys.readouterr().out)
    assert "multiply-accumulates: dynamic: known at each call; 3 dispatches" in printed
    assert main(["check", str(model), "--shape", "x=2x4"]) == 0
    assert "arena: 64 bytes" in capsys.readouterr().out


def test_damaged_weights_are_found_on_request(artifact, capsys):
    data = bytearray(artifact.read_bytes())
    data[-1] ^= 1
    artifact.write_bytes(data)
    assert main(["inspect", str(artifact), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["verified"] is False
    assert main(["inspect", str(artifact), "--verify"]) == 1
    assert "the file is corrupt: the checksum of constant 0 does not match" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot read"),
        (b"", "the file is empty"),
        (b"RLM1", "is truncated"),
        (b"x", "not a Rillet module"),
    ],
)
def test_inspect_of_what_is_no_module(tmp_path, capsys, content, message):
    if content is not None:
        (tmp_path / "m.rlm").write_bytes(content)
    assert main(["inspect", str(tmp_path / "m.rlm")]) == 1
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("command", ["run", "bench"])
@pytest.mark.parametrize("option", [["--shape", "x=2x4"], ["--target", "host"], ["--no-cache"]])
def test_options_of_compiling_are_refused_for_compiled_files(artifact, capsys, command, option):
    assert main([command, str(artifact), *option]) == 1
    assert f"{option[0]}: '{artifact}' is compiled already; compile its model again" in capsys.readouterr().err


def test_shapes_with_fractions(model, capsys):
    assert main(["run", str(model), "--shape", "x=1.5x4"]) == 1
    assert "--shape x=1.5x4: '1.5' is neither a number nor a name" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["compile", "MODEL", "-o", "/nowhere/x.rlm"],
            "cannot write /nowhere/x.rlm: there is no folder /nowhere; create it first",
        ),
        (["compile", "MODEL", "-o", "FOLDER"], "it is a folder"),
        (
            ["bench", "MODEL", "--profile", "--trace", "/nowhere/t.json"],
            "cannot write /nowhere/t.json: there is no folder",
        ),
        (["check", "RLM"], "compiled already, so it can be run ('rillet run', rillet.load); give the model"),
        (["verify", "RLM"], "compiled already"),
        (["run", "MODEL", "--input", "x=MODEL"], "it is no .npy file; write one with numpy.save"),
        (["run", "MODEL", "--input", "x=absent.npy"], "cannot read the file"),
    ],
)
def test_files_that_do_not_fit(model, artifact, tmp_path, capsys, arguments, message):
    for word, path in (("MODEL", model), ("RLM", artifact), ("FOLDER", tmp_path)):
        arguments = [a.replace(word, str(path)) for a in arguments]
    assert main(arguments) == 1
    error = capsys.readouterr().err
    assert message in error
    assert "Traceback" not in error


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "--seed", "-1"], "-1: expected a whole number from 0 on"),
        (["bench", "--seconds", "-1"], "-1: expected a number of seconds from 0 on"),
        (["bench", "--seed", "x"], "x: expected a whole number from 0 on"),
    ],
)
def test_numbers_that_do_not_fit(model, capsys, arguments, message):
    with pytest.raises(SystemExit) as info:
        main([arguments[0], str(model), *arguments[1:]])
    assert info.value.code == 2
    assert f"argument {arguments[1]}: {message}" in capsys.readouterr().err


def test_fetching_models_warns_of_nothing():
    command = [sys.executable, "-W", "error", "-m", "models.fetch", "--help"]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0

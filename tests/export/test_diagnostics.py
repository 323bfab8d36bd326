"""One test for each message of the export."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import onnx
import pytest

import rillet
from rillet.cli import main
from rillet.codegen.cpu.object_code import elf, llvm, mve, object_file
from rillet.codegen.cpu.object_code.stack import stack_bytes
from rillet.driver.module_file import compile_to_bytes
from rillet.errors import CompileError, RunError
from rillet.export import scalars
from rillet.frontends.registry import open_model
from rillet.targets import get
from tests.support import export_graphs as graphs
from tests.support.targets import with_deployment, with_machine


def compiled(model: onnx.ModelProto | None = None, target: str = "cortex-m4") -> rillet.export.CrossModule:
    return rillet.compile(model or graphs.dense(columns=64), target=target, jobs=1)


def test_dynamic_inputs_are_all_named() -> None:
    with pytest.raises(CompileError, match=r"input 'x' \[N, 4\]: inputs=\{'x': \(1, 4\)\}"):
        compiled(graphs.dense("N"))
    assert rillet.compile(graphs.dense("N"), target="cortex-m4", inputs={"x": (2, 4)}, jobs=1).inputs[0].shape == (2, 4)


def test_memory_that_depends_on_data() -> None:
    node = onnx.helper.make_node("NonZero", ["x"], ["y"], name="find")
    model = graphs.model([node], [graphs.value("x", graphs.FLOAT, [3, 4])], [graphs.value("y", graphs.INT64, [2, "n"])])
    with pytest.raises(CompileError, match="shape of output 'y' depends on the data"):
        compiled(model)


def classifier(labels: dict[str, list[str] | list[int]]) -> onnx.ModelProto:
    """A linear classifier of three classes whose probabilities are maps."""
    coefficients = [0.5, -1.0, 0.25, 1.0, 0.125, -0.5]
    kind = graphs.INT64 if "classlabels_ints" in labels else onnx.TensorProto.STRING
    maps = onnx.helper.make_map_type_proto(
        onnx.TensorProto.STRING, onnx.helper.make_tensor_type_proto(graphs.FLOAT, None)
    )
    domain = {"domain": "ai.onnx.ml"}
    nodes = [
        onnx.helper.make_node("LinearClassifier", ["x"], ["label", "p"], coefficients=coefficients, **domain, **labels),
        onnx.helper.make_node("ZipMap", ["p"], ["maps"], classlabels_strings=["a", "b", "c"], **domain),
    ]
    results = [
        graphs.value("label", kind, [1]),
        onnx.helper.make_value_info("maps", onnx.helper.make_sequence_type_proto(maps)),
    ]
    model = graphs.model(nodes, [graphs.value("x", graphs.FLOAT, [1, 2])], results)
    model.opset_import.append(onnx.helper.make_opsetid("ai.onnx.ml", 1))
    return model


def test_maps_become_their_values() -> None:
    with pytest.warns(
        RuntimeWarning, match="output 'maps' is a sequence of maps; in C it is the tensor of their values"
    ):
        module = compiled(classifier({"classlabels_ints": [0, 1, 2]}))
    assert [str(spec) for spec in module.outputs] == ["label: int64[1]", "maps: float32[1, 3]"]


@pytest.mark.filterwarnings("ignore:output 'maps' is a sequence")
def test_results_that_are_strings() -> None:
    with pytest.raises(CompileError, match=r"output 'label' holds strings, .*number the classes"):
        compiled(classifier({"classlabels_strings": ["a", "b", "c"]}))


def test_ram_budget_lists_the_largest_first(tmp_path: Path) -> None:
    nodes = [
        onnx.helper.make_node("MatMul", ["x", "a"], ["h"], name="wide"),
        onnx.helper.make_node("MatMul", ["h", "b"], ["y"], name="narrow"),
    ]
    values = {"a": graphs.weights(4, 64), "b": graphs.weights(64, 2)}
    model = graphs.model(
        nodes, [graphs.value("x", graphs.FLOAT, [3, 4])], [graphs.value("y", graphs.FLOAT, [3, 2])], values
    )
    with pytest.raises(CompileError, match=r"bytes of RAM, .* more than the 100 there are .*\n +768  tensor of 'wide'"):
        compiled(model).export(tmp_path, ram=100)
    assert not list(tmp_path.iterdir())


def chain(width: int = 64) -> onnx.ModelProto:
    """Two hidden tensors that live at the same time; the second is larger than the first."""
    names = ["x", "h", "g", "y"]
    sizes = [4, width, 2 * width, 2]
    nodes = [onnx.helper.make_node("MatMul", [a, f"w{b}"], [b], name=f"to_{b}") for a, b in itertools.pairwise(names)]
    values = {f"w{names[n + 1]}": graphs.weights(sizes[n], sizes[n + 1]) for n in range(3)}
    inputs, outputs = [graphs.value("x", graphs.FLOAT, [3, 4])], [graphs.value("y", graphs.FLOAT, [3, 2])]
    return graphs.model(nodes, inputs, outputs, values)


@pytest.mark.parametrize("mode", ["c", "static"])
def test_ram_budget_lists_what_the_arena_holds(mode: str, tmp_path: Path) -> None:
    with pytest.raises(CompileError) as caught:
        compiled(chain()).export(tmp_path, mode=mode, ram=100)
    head, *lines = str(caught.value).splitlines()
    listed = [(int(line.split()[0].replace(",", "")), line.split(maxsplit=1)[1]) for line in lines]
    needed = int(head.split()[3].replace(",", ""))
    assert sum(size for size, _ in listed) == needed  # all of it is explained
    assert [size for size, _ in listed] == sorted((size for size, _ in listed), reverse=True)
    assert {(1536, "tensor of 'to_g'"), (768, "tensor of 'to_h'")} <= set(listed)
    assert any("output 'y'" in name for _, name in listed) == (mode == "static")  # in C mode the caller's memory
    assert any(name == "stack of a call" for _, name in listed)


@pytest.mark.parametrize("mode", ["c", "static"])
def test_ram_budget_counts_what_loops_carry(mode: str, tmp_path: Path) -> None:
    """Of each state the one that the loop carries and a new one."""
    listed = f" {2 * 64}  2 copies of the tensor of 'lstm', which a loop carries"
    with pytest.raises(CompileError, match=listed):
        compiled(graphs.lstm()).export(tmp_path, mode=mode, ram=100)


def test_more_than_the_address_space(tmp_path: Path) -> None:
    sigmoid = onnx.helper.make_node("Sigmoid", ["x"], ["y"], name="gate")
    shape = [1, 3, 100_000, 100_000]
    model = graphs.model([sigmoid], [graphs.value("x", graphs.FLOAT, shape)], [graphs.value("y", graphs.FLOAT, shape)])
    with pytest.raises(
        CompileError,
        match=r"needs 240,[\d,]+ bytes of address space on cortex-m4 \(32 bits\), .* than the 4,294,967,296 there are"
        r".*\n  120,000,000,000  input 'x'\n  120,000,000,000  output 'y'",
    ):
        compiled(model).export(tmp_path)
    assert not list(tmp_path.iterdir())


def test_flash_budget_lists_constants_and_kernels(tmp_path: Path) -> None:
    with pytest.raises(
        CompileError,
        match=r"bytes of flash, .* more than the 1,000 there are[^\n]*\n +[\d,]+  code of matmul.*\n +1,024  constant",
    ):
        compiled().export(tmp_path, flash=1000)


def test_unknown_layout(tmp_path: Path) -> None:
    with pytest.raises(CompileError, match="unknown layout 'make'; layouts: cmake, zephyr, arduino, web"):
        compiled().export(tmp_path, layout="make")


def test_unknown_mode(tmp_path: Path) -> None:
    with pytest.raises(CompileError, match="unknown mode 'jit'; modes: c, static"):
        compiled().export(tmp_path, mode="jit")


@pytest.mark.parametrize("layout", ["zephyr", "arduino"])
def test_layouts_without_a_place_for_the_runtime(layout: str, tmp_path: Path) -> None:
    with pytest.raises(CompileError, match=f"layout '{layout}' is for mode 'c'; mode 'static' has layouts cmake and"):
        compiled().export(tmp_path, mode="static", layout=layout)


@pytest.mark.parametrize("layout", ["zephyr", "arduino"])
def test_layouts_that_do_not_fit_webassembly(layout: str, tmp_path: Path) -> None:
    with pytest.raises(
        CompileError,
        match=rf"layout '{layout}' is not for WebAssembly \(target wasm32\), which has layouts web and cmake",
    ):
        compiled(target="wasm32").export(tmp_path, layout=layout)
    assert not list(tmp_path.iterdir())


def test_calling_and_saving_what_cannot_run_here(tmp_path: Path) -> None:
    module = compiled()
    with pytest.raises(RunError, match="compiled for cortex-m4, which this machine cannot run: export"):
        module(np.zeros((3, 4), np.float32))
    with pytest.raises(CompileError, match="no loader for module files"):
        module.save(tmp_path / "model.rlm")


def test_object_of_the_wrong_float_abi_is_refused() -> None:
    text = "define float @f(float %x) {\n  ret float %x\n}\n"
    soft = get("riscv32imf")
    hard = get("riscv32imf-ilp32f")
    with pytest.raises(CompileError, match="by the soft-float convention, but target riscv32imf-ilp32f uses"):
        object_file.check_float_abi(llvm.emit_object(text, soft), hard, "an object")
    assert elf.float_abi(llvm.emit_object(text, get("cortex-m4"))) == "hard"


def test_soft_float_triple_is_noticed() -> None:

    # The three-part triple looks like hard float and is not.
    wrong = with_machine(get("cortex-m4"), triple="thumbv7em-none-eabihf")
    with pytest.raises(CompileError, match="soft-float convention"):
        llvm.emit_object("define void @f() {\n  ret void\n}\n", wrong)


def test_library_call_is_named() -> None:
    """Without a C compiler for the target there are no helpers."""
    node = onnx.helper.make_node("Mul", ["x", "x"], ["y"], name="square")
    double = onnx.TensorProto.DOUBLE
    model = graphs.model([node], [graphs.value("x", double, [4])], [graphs.value("y", double, [4])])
    target = with_deployment(get("cortex-m4"), c_flags=(), has_loader=True, position_independent=True)
    with pytest.raises(CompileError, match=r"^node 'square': kernel @.*calls __aeabi_dmul, which no kernel may"):
        compile_to_bytes(open_model(model), targets=[target])


def test_host_code_without_a_form_in_c_names_its_node(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(scalars._WRAPPING, "arith.addi")
    with pytest.raises(CompileError, match=r"^'loop': the host program computes 'arith.addi', which has no form in C$"):
        compiled(graphs.loop())._build()


def test_wrong_vector_conversion_is_refused() -> None:
    with pytest.raises(CompileError, match=r"vcvt.f32.s32\s+q0, q0, r2' would compute a wrong result"):
        mve.check("\tvldrw.u32\tq0, [r0]\n\tvcvt.f32.s32\tq0, q0, r2\n")
    mve.check("\tvcvt.f32.s32\tq0, q0, #3\n\tvcvt.f32.s32\tq1, q0\n")


def test_stack_without_a_bound_is_refused() -> None:
    assert stack_bytes("\tpush\t{r4, r5, lr}\n\tvpush\t{d8, d9}\n\tsub\tsp, #24\n") == 12 + 16 + 24
    assert stack_bytes("\taddi\tsp, sp, -48\n\tsub\tsp, sp, #1, lsl #12\n") == 48 + 4096
    with pytest.raises(CompileError, match="is not a constant"):
        stack_bytes("\tsub\tsp, sp, r4\n")


def test_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "dense.onnx"
    onnx.save(graphs.dense(), path)
    command = ["export", str(path), "--target", "cortex-m4", "-o", str(tmp_path / "out"), "--jobs", "1"]
    assert main([*command, "--ram", "8k", "--flash", "64k"]) == 0
    assert "out.c" in capsys.readouterr().out
    assert main([*command, "--mode", "static"]) == 0
    assert "librillet_runtime.a" in capsys.readouterr().out
    assert main([*command, "--ram", "lots"]) == 1
    assert "--ram lots: expected a number of bytes" in capsys.readouterr().err

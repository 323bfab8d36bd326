"""Tuning records: what is read back, what is refused with which words, and what ``compile`` does with them."""

from __future__ import annotations

import dataclasses
import json
import warnings
from pathlib import Path

import numpy as np
import pytest

import rillet
from rillet import targets
from rillet.codegen.knobs import Knobs
from rillet.driver.lowering import lower
from rillet.errors import CompileError
from rillet.frontends.registry import open_model
from rillet.tuning import Entry, Record, record
from tests.support.targets import with_machine

V3 = targets.get("x86-64-v3")
ENTRY = Entry(Knobs(tile_rows=2, unroll=4), "contraction", {"rows": 8}, "x86_64 znver3", 12.0, 9.5)
MATMUL = """
func.func @main(%a: tensor<48x40xf32>, %b: tensor<40x64xf32>) -> tensor<48x64xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<48x64xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<48x64xf32>) -> tensor<48x64xf32>
  %0 = linalg.matmul ins(%a, %b : tensor<48x40xf32>, tensor<40x64xf32>)
    outs(%f : tensor<48x64xf32>) -> tensor<48x64xf32>
  return %0 : tensor<48x64xf32>
}
"""


def _text(name: str) -> str:
    return f"module @{name} {{ func.func @{name}(%x: tensor<4xf32>) {{ return }} }}"


def test_a_record_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "new" / "tuning.json"
    Record({"b": ENTRY, "a": dataclasses.replace(ENTRY, knobs=Knobs())}).save(path)
    assert Record.load(path).entries["b"] == ENTRY
    assert list(json.loads(path.read_text())["kernels"]) == ["a", "b"]


def test_a_kernel_is_known_by_structure_and_target_whatever_its_name() -> None:
    known = Record({record.key("one", _text("one"), V3): ENTRY})
    assert known.knobs_of([("one", _text("one")), ("two_1", _text("two_1"))], V3).keys() == {"one", "two_1"}
    assert known.knobs_of([("one", _text("one").replace("4xf32", "5xf32"))], V3) == {}
    assert known.knobs_of([("one", _text("one"))], with_machine(V3, cpu="znver4")) == {}
    assert known.knobs_of([("one", _text("one"))], dataclasses.replace(V3, name="host")).keys() == {"one"}


def test_an_entry_without_choices_leaves_the_kernel_to_the_model() -> None:
    known = Record({record.key("one", _text("one"), V3): dataclasses.replace(ENTRY, knobs=Knobs())})
    assert known.knobs_of([("one", _text("one"))], V3) == {}


def test_newer_entries_replace_older_ones() -> None:
    newer = dataclasses.replace(ENTRY, tuned_us=1.0)
    assert Record({"a": ENTRY, "b": ENTRY}).merged(Record({"b": newer})).entries == {"a": ENTRY, "b": newer}


def _file(**changes: object) -> str:
    return json.dumps({"format": "rillet-tuning", "version": 1, "kernels": {}} | changes)


def _kernel(**changes: object) -> str:
    facts = {
        "strategy": "contraction",
        "target": "x",
        "problem": {},
        "knobs": {},
        "model_us": 1.0,
        "tuned_us": 1,
    } | changes
    return _file(kernels={"abc": facts})


BAD = [
    ("{", "is no JSON: .*; make it anew with 'rillet tune'"),
    ("\xff\x00", "is no JSON"),
    ("[" * 100_000, "is nested too deeply"),
    ("[]", 'is no tuning record: it does not say "format": "rillet-tuning"'),
    ("{}", "is no tuning record"),
    (_file(version=7), "has version 7, this Rillet reads version 1; make it anew"),
    (_file(kernels=[]), 'has no "kernels"'),
    (_file(kernels={"abc": 3}), "kernel abc: expected an object, found 3"),
    (_kernel(knobs={"tile_rows": 99}), "kernel abc: 'tile_rows' must be a whole number from 1 to 32, not 99"),
    (_kernel(knobs={"tiles": 1}), "kernel abc: there is no choice 'tiles'"),
    (_kernel(knobs=[1]), "kernel abc: 'knobs' is missing or of the wrong type"),
    (_kernel(model_us="fast"), "kernel abc: 'model_us' is missing or of the wrong type"),
    (_kernel(note="hi"), "kernel abc: there is no field 'note'"),
]


@pytest.mark.parametrize(("text", "message"), BAD)
def test_a_bad_record_that_was_named_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "bad.json"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(CompileError, match=message) as error:
        record.resolve(path)
    assert str(path) in str(error.value)


def test_a_record_that_was_named_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(CompileError, match=r"cannot read the tuning record '.*none.json': No such file"):
        rillet.compile(MATMUL, tuning=tmp_path / "none.json")


def test_a_bad_default_record_is_ignored_with_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "tuning.json"
    path.write_text(_file(version=2))
    monkeypatch.setenv("RILLET_TUNING", str(path))
    with pytest.warns(RuntimeWarning, match="not tuned: the tuning record .* has version 2"):
        assert record.resolve(True) is None


def test_a_record_that_the_environment_names_should_be_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RILLET_TUNING", str(tmp_path / "none.json"))
    with pytest.warns(RuntimeWarning, match=r"not tuned: there is no file '.*none.json', which RILLET_TUNING names"):
        assert record.resolve(True) is None


def test_what_is_no_record_is_refused() -> None:
    with pytest.raises(CompileError, match="tuning must be True, False or the path of a tuning record, not None"):
        rillet.compile(MATMUL, tuning=None)


def test_the_default_record_lies_beside_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RILLET_TUNING", raising=False)
    monkeypatch.setenv("RILLET_CACHE", str(tmp_path))
    assert record.default_path() == tmp_path / "tuning.json"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert record.resolve(True) is None and record.resolve(False) is None


def test_compile_uses_the_record_and_the_cache_keeps_both_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RILLET_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("RILLET_TUNING", raising=False)
    host = targets.get("host")
    _, ((name, text),) = lower(open_model(MATMUL), host)
    knobs = Knobs(tile_rows=1, tile_vectors=1)
    Record({record.key(name, text, host): dataclasses.replace(ENTRY, knobs=knobs)}).save(tmp_path / "named.json")

    plain = rillet.compile(MATMUL)
    named = rillet.compile(MATMUL, tuning=tmp_path / "named.json")
    assert bytes(named.to_bytes()) != bytes(plain.to_bytes())
    assert bytes(rillet.compile(MATMUL).to_bytes()) == bytes(plain.to_bytes())
    (tmp_path / "named.json").rename(record.default_path())
    assert bytes(rillet.compile(MATMUL).to_bytes()) == bytes(named.to_bytes())
    assert bytes(rillet.compile(MATMUL, tuning=False).to_bytes()) == bytes(plain.to_bytes())

    a, b = np.random.default_rng(0).standard_normal((2, 40, 64), np.float32)
    a = np.ascontiguousarray(a.T)[:48]
    np.testing.assert_allclose(named(a, b), plain(a, b), rtol=1e-4, atol=1e-5)


OTHER = """
func.func @main(%v: tensor<1x9xf32>, %w: tensor<9x5xf32>, %first: tensor<48x40xf32>, %second: tensor<40x64xf32>)
    -> (tensor<1x5xf32>, tensor<48x64xf32>) {
  %zero = arith.constant 0.0 : f32
  %e0 = tensor.empty() : tensor<1x5xf32>
  %f0 = linalg.fill ins(%zero : f32) outs(%e0 : tensor<1x5xf32>) -> tensor<1x5xf32>
  %0 = linalg.matmul ins(%v, %w : tensor<1x9xf32>, tensor<9x5xf32>) outs(%f0 : tensor<1x5xf32>) -> tensor<1x5xf32>
  %e1 = tensor.empty() : tensor<48x64xf32>
  %f1 = linalg.fill ins(%zero : f32) outs(%e1 : tensor<48x64xf32>) -> tensor<48x64xf32>
  %1 = linalg.matmul ins(%first, %second : tensor<48x40xf32>, tensor<40x64xf32>)
    outs(%f1 : tensor<48x64xf32>) -> tensor<48x64xf32>
  return %0, %1 : tensor<1x5xf32>, tensor<48x64xf32>
}
"""


def test_a_record_serves_another_model_that_has_the_kernel(tmp_path: Path) -> None:
    """There with other names, beside other kernels; and only where that is the machine it was made on."""
    host = targets.get("host")
    _, ((name, text),) = lower(open_model(MATMUL), host)
    knobs = Knobs(tile_rows=1, tile_vectors=1)
    Record({record.key(name, text, host): dataclasses.replace(ENTRY, knobs=knobs)}).save(tmp_path / "shared.json")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        shared = rillet.compile(OTHER, tuning=tmp_path / "shared.json")
    assert bytes(shared.to_bytes()) != bytes(rillet.compile(OTHER, tuning=False).to_bytes())
    none = (
        r"of the 1 kernels in .*shared\.json.* none is one of this model's 2 on aarch64 generic; choices are those of"
    )
    with pytest.warns(RuntimeWarning, match=none):
        rillet.compile(OTHER, target="aarch64", tuning=tmp_path / "shared.json").save(tmp_path / "elsewhere.rlm")
    rillet.compile(OTHER, target="aarch64", tuning=False).save(tmp_path / "untuned.rlm")
    assert (tmp_path / "elsewhere.rlm").read_bytes() == (tmp_path / "untuned.rlm").read_bytes()


def test_a_record_of_other_shapes_says_so(tmp_path: Path) -> None:
    host = targets.get("host")
    _, ((name, text),) = lower(open_model(MATMUL), host)
    entry = dataclasses.replace(ENTRY, target=f"{host.machine.arch} {host.machine.cpu}")
    Record({record.key(name, text, host): entry}).save(tmp_path / "shared.json")
    with pytest.warns(RuntimeWarning, match="known by its shapes, too, so tune and compile with the same inputs= and"):
        rillet.compile(MATMUL.replace("48", "52"), tuning=tmp_path / "shared.json")


CHAIN = """
func.func @main(%a: tensor<2048x16xf32>, %b: tensor<16x2048xf32>, %c: tensor<2048x16xf32>) -> tensor<2048x16xf32> {
  %zero = arith.constant 0.0 : f32
  %e0 = tensor.empty() : tensor<2048x2048xf32>
  %f0 = linalg.fill ins(%zero : f32) outs(%e0 : tensor<2048x2048xf32>) -> tensor<2048x2048xf32>
  %e1 = tensor.empty() : tensor<2048x16xf32>
  %f1 = linalg.fill ins(%zero : f32) outs(%e1 : tensor<2048x16xf32>) -> tensor<2048x16xf32>
  %0 = linalg.matmul ins(%a, %b : tensor<2048x16xf32>, tensor<16x2048xf32>)
    outs(%f0 : tensor<2048x2048xf32>) -> tensor<2048x2048xf32>
  %1 = linalg.matmul ins(%0, %c : tensor<2048x2048xf32>, tensor<2048x16xf32>)
    outs(%f1 : tensor<2048x16xf32>) -> tensor<2048x16xf32>
  return %1 : tensor<2048x16xf32>
}
"""


def test_a_choice_that_cannot_be_compiled_is_left_to_the_model(tmp_path: Path) -> None:
    """All rows of a chain at once would take more scratch memory than a kernel may have."""
    host = targets.get("host")
    _, kernel_texts = lower(open_model(CHAIN), host)
    ((name, text),) = [(name, text) for name, text in kernel_texts if name.startswith("chain")]
    whole = dataclasses.replace(ENTRY, knobs=Knobs(row_tiles=1 << 24))
    Record({record.key(name, text, host): whole}).save(tmp_path / "named.json")
    with pytest.warns(RuntimeWarning, match=f"kernel {name} cannot be compiled as tuned and is compiled as the cost"):
        named = rillet.compile(CHAIN, tuning=tmp_path / "named.json")
    assert bytes(named.to_bytes()) == bytes(rillet.compile(CHAIN, tuning=False).to_bytes())

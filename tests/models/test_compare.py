"""The comparison with ONNX Runtime: what agrees, what does not, and how a run reports it."""

from __future__ import annotations

import numpy as np
import pytest

from models import compare
from models.compare import error_ratio
from models.fetch import FetchError

ONE = np.ones(4, np.float32)


def test_error_ratio_is_one_at_the_tolerance() -> None:
    assert error_ratio([ONE], [ONE]) == 0
    assert error_ratio([ONE + np.float32(1.1e-4)], [ONE]) == pytest.approx(1, rel=2e-3)
    assert error_ratio([ONE * 2], [ONE]) > 1000


@pytest.mark.parametrize(
    "actual",
    [
        [],
        [ONE[:2]],
        [ONE.astype(np.float64)],
        [np.array([1, 1, 1, np.nan], np.float32)],
        [np.array([1, 1, 1, np.inf], np.float32)],
    ],
    ids=["count", "shape", "dtype", "nan", "infinity"],
)
def test_error_ratio_is_infinite_for_another_kind_of_output(actual: list[np.ndarray]) -> None:
    assert error_ratio(actual, [ONE]) == float("inf")


def test_special_values_and_integers_must_be_equal() -> None:
    special = np.array([1, np.nan, np.inf, -np.inf], np.float32)
    assert error_ratio([special], [special.copy()]) == 0
    assert error_ratio([-special], [special]) == float("inf")
    assert error_ratio([np.array([1, 2])], [np.array([1, 2])]) == 0
    assert error_ratio([np.array([1, 3])], [np.array([1, 2])]) == float("inf")


def test_report_says_ok_and_wrong(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(
        compare, "compare", lambda name, threads: iter([("a", 0.5), ("b", {"good": 0.9, "bad": 1.1}[name])])
    )
    assert compare.report("good", [1]) and not compare.report("bad", [1])
    good, bad = capsys.readouterr().out.splitlines()
    assert " ok " in good and "WRONG" in bad and "1.100 of the tolerance (b)" in bad


def test_report_names_a_failure(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def refuse(name: str, threads: list[int]) -> None:
        raise FetchError("no network\nmore")

    monkeypatch.setattr(compare, "compare", refuse)
    assert compare.main(["magika"]) == 1
    assert capsys.readouterr().out == f"{'magika':24} FAILED  no network\n    more\n"


def test_unknown_model_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        compare.main(["nope"])
    assert "unknown model nope" in capsys.readouterr().err


def test_small_model_agrees_end_to_end(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RILLET_CACHE", str(tmp_path))
    assert compare.report("mnist_cnn", [1, 2])

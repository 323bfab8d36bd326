"""The search, with a clock that says what the test wants: what it keeps, drops, confirms and refuses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from rillet import runtime, targets
from rillet.codegen.cpu import alternatives
from rillet.codegen.knobs import LIMITS, MODEL, Choice, Knobs
from rillet.driver.lowering import lower
from rillet.frontends.registry import open_model
from rillet.tuning import Record, measure
from rillet.tuning.search import Result, Search, Status, _ordered

# Two kernels: a product and a softmax-like row reduction over it.
MODEL_TEXT = """
func.func @main(%a: tensor<96x64xf32>, %b: tensor<64x128xf32>) -> tensor<96xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<96x128xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<96x128xf32>) -> tensor<96x128xf32>
  %0 = linalg.matmul ins(%a, %b : tensor<96x64xf32>, tensor<64x128xf32>)
    outs(%f : tensor<96x128xf32>) -> tensor<96x128xf32>
  %e1 = tensor.empty() : tensor<96xf32>
  %f1 = linalg.fill ins(%zero : f32) outs(%e1 : tensor<96xf32>) -> tensor<96xf32>
  %1 = linalg.reduce ins(%0 : tensor<96x128xf32>) outs(%f1 : tensor<96xf32>) dimensions = [1]
    (%in: f32, %init: f32) {
      %sum = arith.addf %in, %init : f32
      linalg.yield %sum : f32
    }
  return %1 : tensor<96xf32>
}
"""
Price = Callable[[int, Knobs], float]  # (number of the measurement, choices of the product) -> seconds


@pytest.fixture(scope="module")
def host() -> targets.Target:
    return targets.get("host")


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def search(host: targets.Target, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """``search(price)`` runs a search on a clock that gives each build's product the price of its choices."""
    choices: dict[int, Knobs] = {}
    alive: list[runtime.Module] = []  # so that identities stay unique
    build = Search._build

    def watched(self: Search, variants, **options):
        module = build(self, variants, **options)
        alive.append(module)
        choices[id(module)] = next((v.choice.knobs for v in variants.values() if v.strategy == "contraction"), MODEL)
        return module

    monkeypatch.setattr(Search, "_build", watched)

    def run(
        price: Price, report: Callable[[Status], None] = lambda status: None, known: Record | None = None
    ) -> Result:
        measurements = 0

        def kernel_times(modules: Sequence[runtime.Module], inputs, clock) -> list[dict[str, float]]:
            nonlocal measurements
            measurements += 1
            names = [entry["name"] for entry in modules[0].entries]
            (product,) = [name for name, e in s._defaults.items() if e.strategy == "contraction"]
            return [
                {name: price(measurements, choices[id(m)]) if name == product else 1e-6 for name in names}
                for m in modules
            ]

        monkeypatch.setattr(measure, "kernel_times", kernel_times)
        monkeypatch.setattr(measure, "call_times", lambda modules, *_: [2e-3, 1e-3][: len(modules)])
        image, kernel_texts = lower(open_model(MODEL_TEXT), host)
        inputs = [np.full((96, 64), 0.5, np.float32), np.full((64, 128), 0.25, np.float32)]
        with Search(
            image,
            kernel_texts,
            host,
            lambda module: inputs,
            known=known,
            cache=cache,
            jobs=1,
            threads=1,
        ) as s:
            return s.run(600, report)

    return run


def _found(result: Result) -> Knobs:
    (entry,) = [e for e in result.record.entries.values() if e.strategy == "contraction"]
    return entry.knobs


def test_the_fastest_variant_is_kept_with_its_times(search, host) -> None:
    result = search(lambda n, knobs: 1e-3 if knobs.tile_rows == 3 else 2e-3)
    assert _found(result).tile_rows == 3 and _found(result).given().keys() == LIMITS.keys() - {"tile_lines"}
    (entry,) = [e for e in result.record.entries.values() if e.knobs.given()]
    assert (entry.model_us, entry.tuned_us) == (2000.0, 1000.0)
    assert entry.target == f"{host.machine.arch} {host.machine.cpu}" and entry.problem["rows"] == 96
    assert result.improved == 1 and not result.interrupted and not result.wrong


def test_a_variant_within_the_margin_is_dropped(search) -> None:
    result = search(lambda n, knobs: 1.99e-3 if knobs.tile_rows == 3 else 2e-3)
    assert _found(result) == MODEL and result.improved == 0


@pytest.mark.parametrize("lucky", [{2}, {2, 3}])
def test_luck_that_does_not_last_is_dropped(search, lucky: set[int]) -> None:
    """Once, and twice but not when it is confirmed at the end."""
    last = 0

    def price(n: int, knobs: Knobs) -> float:
        nonlocal last
        last = n
        return 1e-3 if knobs.tile_rows == 3 and n in lucky else 2e-3

    gains: list[float] = []
    assert _found(search(price, lambda status: gains.append(status.gain))) == MODEL and last > 3
    assert (max(gains) > 0.4) == (len(lucky) == 2)


def test_noise_widens_the_margin(search, monkeypatch) -> None:
    calls = 0

    def price(n: int, knobs: Knobs) -> float:
        nonlocal calls
        if knobs.given():
            return 1.8e-3
        calls += 1
        return 2e-3 if calls % 2 else 2.5e-3  # the two default builds differ by a quarter

    assert _found(search(price)) == MODEL


def test_a_variant_with_other_results_is_left_out(search, monkeypatch) -> None:
    agree = measure.agree
    calls = 0

    def wrong_once(actual, expected) -> bool:
        nonlocal calls
        calls += 1
        return agree(actual, expected) and calls > 1

    monkeypatch.setattr(measure, "agree", wrong_once)
    search(lambda n, knobs: 2e-3)
    assert calls > 1  # halves were looked at


def test_an_interrupt_keeps_what_was_found_and_is_confirmed(search) -> None:
    seen: list[Status] = []

    def report(status: Status) -> None:
        seen.append(status)
        if status.variants and not status.confirming:
            raise KeyboardInterrupt

    result = search(lambda n, knobs: 1e-3 if knobs.given() else 2e-3, report)
    assert result.interrupted and result.improved == 1 and _found(result).given()
    assert seen[-1].confirming and seen[-1].variants == seen[-2].variants
    lucky = search(lambda n, knobs: 1e-3 if knobs.given() and n in (2, 3) else 2e-3, report)
    assert lucky.interrupted and lucky.improved == 0 and _found(lucky) == MODEL


def test_a_second_interrupt_is_passed_on(search) -> None:
    def report(status: Status) -> None:
        if status.variants:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        search(lambda n, knobs: 1e-3 if knobs.given() else 2e-3, report)


def test_rankings_compare_the_models_choice_with_what_was_measured(search) -> None:
    result = search(lambda n, knobs: 1e-3 if knobs.tile_rows == 3 else 2e-3)
    (product,) = [r for r in result.rankings if r.strategy == "contraction"]
    assert product.model_by_best == pytest.approx(2.0) and 0 < product.faster < product.variants
    assert product.share > 0.9 and product.problem["rows"] == 96
    assert product.ordered is not None and 0 <= product.ordered <= 1


def test_pairs_in_the_order_measured() -> None:
    host = targets.get("x86-64-v3")
    problem = {"rows": 784, "columns": 96, "steps": 64, "lanes": 8, "element_bytes": 4, "gather": 0, "together": 1}
    shapes = [(6, 2), (2, 2), (1, 1)]  # as the model ranks them

    def order(times: list[float]) -> float | None:
        measured = [(Choice(problem, Knobs(*shape)), time) for shape, time in zip(shapes, times, strict=True)]
        return _ordered(measured, lambda choice: alternatives.modelled_cycles("contraction", choice, host))

    assert order([1.0, 1.5, 2.0]) == 1.0 and order([2.0, 1.5, 1.0]) == 0.0
    assert order([1.5, 1.0, 2.0]) == pytest.approx(2 / 3)
    assert order([1.0, 1.001, 1.002]) is None  # within the margin
    assert _ordered([(Choice(problem, Knobs(6, 2)), 1.0)], lambda choice: None) is None


def test_known_choices_come_first(search) -> None:
    seen: list[Knobs] = []

    def price(n: int, knobs: Knobs) -> float:
        if knobs.given():
            seen.append(knobs)
        if knobs.tile_rows != 5:
            return 2e-3
        return 1e-3 if knobs.unroll == 6 else 1.5e-3

    first = search(price)
    seen.clear()
    again = search(price, known=first.record)
    assert _found(again) == _found(first)
    assert seen[0].tile_rows == 5 and seen[0].unroll == 6


def test_status_counts_up_and_time_down(search) -> None:
    seen: list[Status] = []
    search(lambda n, knobs: 1e-3 if knobs.given() else 2e-3, seen.append)
    assert [s.variants for s in seen] == sorted(s.variants for s in seen)
    assert seen[0].variants == 0 and seen[-1].visited >= 1 and seen[-1].gain > 0.4
    assert seen[-1].seconds_left <= seen[0].seconds_left


@pytest.mark.parametrize(
    ("actual", "expected", "same"),
    [
        ([1.0, 2.0], [1.0, 2.0001], True),
        ([1.0, 2.0], [1.0, 2.1], False),
        ([np.nan, 1.0], [np.nan, 1.0], True),
        ([np.inf, 1.0], [-np.inf, 1.0], False),
        ([1.0], [1.0, 1.0], False),
    ],
)
def test_agreement_of_floats(actual: list, expected: list, same: bool) -> None:
    assert measure.agree([np.array(actual, np.float32)], [np.array(expected, np.float32)]) is same


def test_agreement_of_integers_is_equality() -> None:
    assert measure.agree([np.array([1, 2])], [np.array([1, 2])])
    assert not measure.agree([np.array([1, 2])], [np.array([1, 3])])


def test_the_clock_takes_each_dispatch_at_its_fastest() -> None:
    class Fake:
        def __init__(self, times: list[int]):
            self.times = iter(times)

        def __call__(self, *inputs):
            return None

        def take_profile(self):
            return [("k", 0, next(self.times)), ("k", 0, next(self.times)), ("other", 0, 7)]

    clock = measure.Clock(seconds=0.0, fewest=2)
    (times,) = measure.kernel_times([Fake([9, 9, 5, 3, 4, 6])], [], clock)
    assert times == {"k": pytest.approx(7e-9), "other": pytest.approx(7e-9)}


def test_maps_agree_by_their_values() -> None:
    class Classifier:
        def __call__(self, *_: np.ndarray | None) -> tuple[object, ...]:
            return np.array([1]), [{"a": 0.25, "b": 0.75}]

    label, values = measure.outputs(Classifier(), [])  # type: ignore[arg-type]
    assert measure.agree((label, values), (np.array([1]), np.array([[0.25, 0.75]])))
    assert not measure.agree((label, values), (np.array([1]), np.array([[0.75, 0.25]])))
